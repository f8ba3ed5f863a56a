"""Checks of the calls to a driver: it prepares and unprepares claims, and refuses invalid requests."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api import yamldocs
from dray.api.identity import PoolDevice
from dray.driver.model import ClaimRef
from dray.driver.verify.claims import Claims
from dray.driver.verify.grpc_client import CallFailed, call, channel
from dray.driver.verify.report import Options, Report
from dray.kubelet_api.services import Service, stub

if TYPE_CHECKING:
    from dray.kubelet_api.cdi import Spec

_CDI_ID = re.compile(r"[A-Za-z][\w.-]*/[A-Za-z][\w.-]*=[A-Za-z0-9][\w.:-]*")


@dataclass(frozen=True, slots=True)
class Calls:
    """The expectations about one version of the interface."""

    report: Report
    service: Service
    endpoint: Path
    claims: Claims
    devices: Sequence[PoolDevice]
    options: Options

    def expect(self, name: str, good: bool, detail: str = "") -> bool:
        return self.report.expect(f"{self.service.announced}: {name}", good, detail)

    def note(self, name: str, detail: str) -> None:
        self.report.note(f"{self.service.announced}: {name}", detail)

    async def check(self) -> None:
        try:
            empty = await self.prepare()
        except CallFailed as e:
            self.expect("answers an empty request", False, str(e))
            return
        self.expect("answers an empty request", not empty, "claims that were not asked about")
        one, two = await self.claims.make(self.devices[0]), await self.claims.make(self.devices[1])
        ids = await self._prepared(one, two)
        if ids is not None:
            await self._refusals(one)
            await self._unprepared(one, two, ids)

    async def _prepared(self, one: ClaimRef, two: ClaimRef) -> list[str] | None:
        try:
            first = await self.prepare(one, two)
        except CallFailed as e:
            self.expect("prepares two claims in one call", False, str(e))
            return None
        errors = [f"{uid}: {a.error}" for uid, a in first.items() if a.error]
        complete = set(first) == {one.uid, two.uid}
        if not self.expect(
            "prepares two claims in one call", complete and not errors, "; ".join(errors) or "missing"
        ):
            return None
        for ref, device in ((one, self.devices[0]), (two, self.devices[1])):
            told = {(d.pool_name, d.device_name) for d in first[ref.uid].devices}
            wanted = {tuple(device)}
            self.expect(
                f"names the device {device.device}", told <= wanted, f"{sorted(told)}, not {sorted(wanted)}"
            )
            requests = {r for d in first[ref.uid].devices for r in d.request_names}
            self.expect(f"names the request of {device.device}", requests <= {"r"}, str(sorted(requests)))
        ids = [i for a in first.values() for d in a.devices for i in d.cdi_device_ids]
        bad = [i for i in ids if not _CDI_ID.fullmatch(i)]
        self.expect("gives qualified CDI names", not bad, ", ".join(bad))
        missing = sorted(set(ids) - defined(self.options.cdi_dirs))
        looked = " or ".join(map(str, self.options.cdi_dirs))
        self.expect(
            "defines its CDI devices",
            not missing,
            f"not found in {looked}: {', '.join(missing)}; name the driver's directory with --cdi",
        )
        again = await self.prepare(one, two)
        self.expect(
            "prepares again with the same answer",
            {u: a.SerializeToString(deterministic=True) for u, a in again.items()}
            == {u: a.SerializeToString(deterministic=True) for u, a in first.items()},
            "the second answer differs from the first",
        )
        return ids

    async def _refusals(self, one: ClaimRef) -> None:
        missing_claim = ClaimRef(one.namespace, "verify-never-made", "00000000-0000-0000-0000-000000000000")
        replaced = one._replace(uid="11111111-1111-1111-1111-111111111111")
        for name, ref in (
            ("a claim that does not exist", missing_claim),
            ("a claim that was replaced", replaced),
        ):
            self.expect(f"refuses {name}", bool(await self.refusal(ref)), "it was prepared")
        # The library for Go refuses the whole call, which a kubelet can live with: it tries again.
        try:
            answers = await self.prepare(one, missing_claim)
        except CallFailed:
            self.note("one bad claim in a call", "the whole call fails")
        else:
            good = one.uid in answers and not answers[one.uid].error
            self.expect("prepares the good claim beside a bad one", good, "it was refused as well")
            self.expect(
                "answers for the bad one too",
                bool(answers.get(missing_claim.uid) and answers[missing_claim.uid].error),
                "no error",
            )

    async def _unprepared(self, one: ClaimRef, two: ClaimRef, ids: Sequence[str]) -> None:
        for name in ("unprepares", "unprepares again"):
            try:
                answers = await self.unprepare(one, two)
            except CallFailed as e:
                self.expect(name, False, str(e))
                return
            errors = [a.error for a in answers.values() if a.error]
            self.expect(
                name, set(answers) == {one.uid, two.uid} and not errors, "; ".join(errors) or "claims missing"
            )
        own = {i for i in ids if one.uid in i or two.uid in i}
        left = sorted(own & defined(self.options.cdi_dirs))
        self.expect("removes what it defined for the claims", not left, ", ".join(left))
        never = ClaimRef(one.namespace, "verify-never-made", "00000000-0000-0000-0000-000000000000")
        try:
            answers = await self.unprepare(never)
            good = never.uid in answers and not answers[never.uid].error
            self.expect("unpreparing what was never prepared is no error", good, "an error, or no answer")
        except CallFailed as e:
            self.expect("unpreparing what was never prepared is no error", False, str(e))
        again = await self.prepare(one)
        self.expect(
            "prepares once more after that", one.uid in again and not again[one.uid].error, "it was refused"
        )
        await self.unprepare(one)

    async def refusal(self, ref: ClaimRef) -> str:
        try:
            answers = await self.prepare(ref)
        except CallFailed as e:
            return str(e)
        return str(answers[ref.uid].error) if ref.uid in answers else ""

    async def prepare(self, *refs: ClaimRef) -> Mapping[str, Any]:
        return await self._call("NodePrepareResources", refs)

    async def unprepare(self, *refs: ClaimRef) -> Mapping[str, Any]:
        return await self._call("NodeUnprepareResources", refs)

    async def _call(self, method: str, refs: Sequence[ClaimRef]) -> Mapping[str, Any]:
        messages = self.service.module
        claims = [messages.Claim(namespace=r.namespace, name=r.name, uid=r.uid) for r in refs]
        async with channel(self.endpoint) as opened:
            request = getattr(messages, f"{method}Request")(claims=claims)
            response = await call(getattr(stub(self.service, opened), method), request)
        return dict(response.claims)


async def check_restart(
    report: Report,
    service: Service,
    endpoint: Path,
    claims: Claims,
    devices: Sequence[PoolDevice],
    options: Options,
) -> None:
    if not options.restart:
        report.skip("survives a restart", "no command to restart the driver was given")
        return
    calls = Calls(report, service, endpoint, claims, devices, options)
    one = await claims.make(devices[0])
    before = await calls.prepare(one)
    process = await asyncio.create_subprocess_shell(options.restart)
    await process.wait()
    deadline = asyncio.get_running_loop().time() + 30
    while True:
        try:
            after = await calls.prepare(one)
            break
        except CallFailed as e:
            if asyncio.get_running_loop().time() > deadline:
                report.expect("comes back after a restart", False, str(e))
                return
            await asyncio.sleep(0.2)
    report.expect("comes back after a restart", True)
    same = _plain(before[one.uid]) == _plain(after[one.uid]) if one.uid in after else False
    report.expect("remembers a prepared claim over a restart", same, "the answer differs")
    answers = await calls.unprepare(one)
    report.expect(
        "unprepares after a restart",
        one.uid in answers and not answers[one.uid].error,
        "an error, or no answer",
    )


def _plain(answer: Any) -> list[tuple[str, str, tuple[str, ...]]]:
    return [(d.pool_name, d.device_name, tuple(d.cdi_device_ids)) for d in answer.devices]


def defined(directories: Sequence[Path]) -> set[str]:
    """The qualified names of all CDI devices that are defined."""
    names: set[str] = set()
    for directory in directories:
        for path in [*directory.glob("*.json"), *directory.glob("*.yaml")]:
            try:
                text = path.read_text()
                if path.suffix == ".json":
                    spec: Spec = json.loads(text)
                else:
                    spec = yamldocs.load(text)
                names |= {f"{spec['kind']}={d['name']}" for d in spec["devices"]}
            except (OSError, ValueError, KeyError, TypeError):
                continue
    return names
