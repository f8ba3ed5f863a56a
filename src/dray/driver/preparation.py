"""Prepares and unprepares claims so that a crash at any point leaves nothing half done for good.

Before the driver touches a device, the intent is on disk; when the driver is done, its answer is on disk, too. A claim
that is found between the two after a crash is unprepared before anything else happens to it.
"""

from __future__ import annotations

import asyncio
import fcntl
import logging
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api.claims import base_request
from dray.api.errors import StatusError
from dray.driver import cdi, metadata
from dray.driver.base import Driver
from dray.driver.checkpoint import Checkpoint, Entry, PreparedDevice
from dray.driver.model import Claim, ClaimRef, Edits, Handle, Prepared
from dray.kubelet_api.failpoints import failpoint

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PrepareResult:
    """What the kubelet is told about one claim: its devices, or what went wrong."""

    devices: Sequence[PreparedDevice] = ()
    error: str = ""


class Preparer:
    """Answers the kubelet's two calls for one driver."""

    def __init__(
        self,
        driver: Driver,
        *,
        claims: Callable[[str, str], Awaitable[ResourceClaim]],
        checkpoint: Checkpoint,
        specs: cdi.Specs,
        lock_file: Path,
        files: metadata.Writer | None = None,
    ) -> None:
        self.driver = driver
        self._claims = claims
        self._checkpoint = checkpoint
        self._specs = specs
        self._files = files
        self._lock_file = lock_file
        self._lock = asyncio.Lock()

    async def prepare(self, refs: Sequence[ClaimRef]) -> dict[str, PrepareResult]:
        """One answer for every claim asked about, whatever happens to the others."""
        found = await asyncio.gather(*(self._look_up(ref) for ref in refs))
        return await self._prepare(list(zip(refs, found, strict=True)))

    async def prepare_classic(self, claims: Mapping[ClaimRef, Sequence[Handle]]) -> dict[str, PrepareResult]:
        """As ``prepare``, for classic claims: their allocation comes along, and nothing is looked up."""
        return await self._prepare([(ref, self._read(ref, handles)) for ref, handles in claims.items()])

    async def _prepare(self, claims: Sequence[tuple[ClaimRef, Claim | str]]) -> dict[str, PrepareResult]:
        answers: dict[str, PrepareResult] = {}
        async with self._serialized():
            entries = self._checkpoint.read()
            todo: list[Claim] = []
            for ref, claim in claims:
                if isinstance(claim, str):
                    answers[ref.uid] = PrepareResult(error=claim)
                elif (entry := entries.get(ref.uid)) and entry.done:
                    self._restore(entry)
                    answers[ref.uid] = PrepareResult(entry.devices)
                elif problem := await self._obstacle(claim, entries):
                    answers[ref.uid] = PrepareResult(error=problem)
                else:
                    todo.append(claim)
                    entries[ref.uid] = _intent(claim)
            if todo:
                answers |= await self._prepare_new(todo, entries)
        return answers

    async def unprepare(self, refs: Sequence[ClaimRef]) -> dict[str, str]:
        """An error text for every claim asked about, empty where all went well."""
        async with self._serialized():
            entries = self._checkpoint.read()
            known = [ref for ref in refs if ref.uid in entries]
            if known:
                # From here on the claims are no longer prepared, however far the driver gets.
                for ref in known:
                    entries[ref.uid] = _not_done(entries[ref.uid])
                self._checkpoint.write(entries)
                failpoint("unprepare.intent")
            errors = {ref.uid: await self._roll_back(ref, entries) for ref in refs}
            failpoint("unprepare.driver")
            if known:
                self._checkpoint.write(entries)
                failpoint("unprepare.done")
        return errors

    def known_claims(self) -> list[ClaimRef]:
        """The claims that still have to be unprepared."""
        return [entry.ref for entry in self._checkpoint.read().values()]

    async def _look_up(self, ref: ClaimRef) -> Claim | str:
        try:
            document = await self._claims(ref.namespace, ref.name)
        except StatusError as e:
            return f"retrieve claim {ref}: {e.message}"
        if document["metadata"]["uid"] != ref.uid:
            return f"claim {ref} got replaced"
        status = document.get("status") or {}
        if not status.get("allocation"):
            return f"claim {ref} not allocated"
        if not status.get("reservedFor"):
            return f"claim {ref} is not reserved for any consumer"
        return Claim.of(document, self.driver.name)

    def _read(self, ref: ClaimRef, handles: Sequence[Handle]) -> Claim | str:
        try:
            devices = [device for handle in handles for device in self.driver.allocated(handle)]
        except Exception as e:
            return f"claim {ref}: {e}"
        return Claim(ref=ref, devices=devices, handles=handles)

    async def _obstacle(self, claim: Claim, entries: dict[str, Entry]) -> str:
        """Why the claim cannot be prepared, or nothing. Clears away a preparation that a crash interrupted."""
        uid = claim.ref.uid
        if uid in entries and (error := await self._roll_back(claim.ref, entries)):
            return f"undo of the interrupted preparation: {error}"
        # The last line of defence against two workloads on one device. Shares have ids of their own, and
        # administrators look on from outside.
        mine = {d.id for d in claim.devices if not d.admin}
        for other in entries.values():
            for device in other.devices:
                if device.id in mine and not device.admin:
                    return f"device {device.id.unique} of pool {device.id.pool} is prepared for claim {other.ref}"
        return ""

    async def _prepare_new(
        self, todo: Sequence[Claim], entries: dict[str, Entry]
    ) -> dict[str, PrepareResult]:
        self._checkpoint.write(entries)
        failpoint("prepare.intent")
        answers: dict[str, PrepareResult] = {}
        for claim in todo:
            uid = claim.ref.uid
            try:
                prepared = await self.driver.prepare(claim)
                failpoint("prepare.driver")
                entries[uid] = self._complete(claim, prepared)
                answers[uid] = PrepareResult(entries[uid].devices)
            except Exception as e:
                log.warning("prepare claim %s: %s", claim.ref, e)
                answers[uid] = PrepareResult(error=f"prepare claim {claim.ref}: {e}")
                await self._roll_back(claim.ref, entries)
        failpoint("prepare.spec")
        self._checkpoint.write(entries, wait=False)
        failpoint("prepare.done")
        return answers

    def _complete(self, claim: Claim, prepared: Sequence[Prepared]) -> Entry:
        """Writes what containers will need, and gathers the answer."""
        uid, kind = claim.ref.uid, self._specs.kind
        edits = {f"{uid}-{p.device.id.unique}": p.edits for p in prepared if p.edits is not None}
        document = cdi.spec(kind, {n: e.document() for n, e in edits.items()}) if edits else None
        if document:
            self._specs.write_document(uid, document)
        mounts = self._files.write(claim, prepared) if self._files else {}
        devices = []
        for p in prepared:
            ids = list(p.cdi_ids)
            if p.edits is not None:
                # Its own id first: health is reported under it.
                ids += [kind.device(f"{uid}-{p.device.id.unique}"), kind.device(cdi.COMMON)]
            # The first device of a request brings the request's metadata file along.
            if mount := mounts.pop(base_request(p.device.request), ""):
                ids.append(mount)
            devices.append(
                PreparedDevice(
                    id=p.device.id,
                    requests=(base_request(p.device.request),),
                    cdi_ids=tuple(ids),
                    admin=p.device.admin,
                )
            )
        return Entry(ref=claim.ref, devices=tuple(devices), done=True, spec=document)

    def _restore(self, entry: Entry) -> None:
        """CDI directories live in memory on many systems; a spec that vanished is written again."""
        if entry.spec and not self._specs.exists(entry.ref.uid):
            self._specs.write_document(entry.ref.uid, entry.spec)

    async def _roll_back(self, ref: ClaimRef, entries: dict[str, Entry]) -> str:
        if ref.uid in entries:
            try:
                await self.driver.unprepare(ref)
            except Exception as e:
                log.warning("unprepare claim %s: %s", ref, e)
                return f"unprepare claim {ref}: {e}"
        self._specs.remove(ref.uid)
        if self._files:
            self._files.remove(ref)
        entries.pop(ref.uid, None)
        return ""

    def write_common(self, edits: Edits) -> None:
        """The device that all others come with."""
        self._specs.write(cdi.COMMON, {cdi.COMMON: edits})

    @asynccontextmanager
    async def _serialized(self) -> AsyncIterator[None]:
        """One call at a time, also between processes."""
        async with self._lock:
            handle = os.open(self._lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                try:
                    fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    await asyncio.to_thread(fcntl.flock, handle, fcntl.LOCK_EX)
                yield
            finally:
                os.close(handle)


def _intent(claim: Claim) -> Entry:
    devices = tuple(PreparedDevice(id=d.id, requests=(), admin=d.admin) for d in claim.devices)
    return Entry(ref=claim.ref, devices=devices, done=False)


def _not_done(entry: Entry) -> Entry:
    return Entry(ref=entry.ref, devices=entry.devices, done=False)
