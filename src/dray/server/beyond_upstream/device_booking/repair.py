"""Booking records are compared with the claims, and put right: at start, and on a store that others write to from time to
time and soon after a claim has changed.

Every claim written by an API server of dray's has its records. A kube-apiserver on the same etcd writes none, a data
directory of an earlier version has none, and a restored backup may have other ones. The claims are what counts. Each repair
is a transaction on condition that claim and records are still what they were when they were compared.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import msgspec

from dray.api.identity import DeviceID
from dray.server.beyond_upstream.device_booking import records as layout
from dray.server.beyond_upstream.device_booking.bookings import (
    DeviceBookings,
    Refusal,
    allocation_of,
    release,
    shares,
)
from dray.server.beyond_upstream.device_booking.records import (
    CounterSetRecord,
    DamagedRecord,
    DeviceRecord,
    Draft,
)
from dray.server.storage.bridge import BridgedDocument
from dray.server.storage.documents import Document
from dray.server.storage.keycache import KeyCache
from dray.server.storage.watchcache import Change, WatchCache
from dray.store.interface import (
    Delete,
    KeyExists,
    KeyNotFound,
    Operation,
    RevisionMismatch,
    Store,
    StoreError,
    Unchanged,
)

log = logging.getLogger(__name__)

#: Seconds between two looks at all claims and records.
INTERVAL: Final = 600.0
#: Seconds between two looks at claims that have changed; records come with the claim that they belong to, or never.
SETTLE: Final = 1.0
_ATTEMPTS: Final = 10
_AT_ONCE: Final = 256
#: Devices that one repair of a counter set is about: a transaction of etcd's has at most 128 conditions.
_CONDITIONS: Final = 100
#: Claims or records that are looked at before others get a turn.
_IN_ONE_GO: Final = 100


class _Metadata(msgspec.Struct):
    uid: str = ""


class _Result(msgspec.Struct):
    driver: str
    pool: str
    device: str
    adminAccess: bool | None = None
    shareID: str | None = None
    consumedCapacity: msgspec.Raw | None = None


class _Devices(msgspec.Struct):
    results: list[_Result] = []


class _Allocation(msgspec.Struct):
    devices: _Devices = msgspec.field(default_factory=_Devices)


class _Status(msgspec.Struct):
    allocation: _Allocation | None = None


class _Claim(msgspec.Struct):
    """What of a stored claim says which devices it has."""

    metadata: _Metadata
    status: _Status = msgspec.field(default_factory=_Status)


_read_claim: Final = msgspec.json.Decoder(_Claim).decode


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is not as it should be, and the operations that put it right where that is possible."""

    text: str
    operations: Sequence[Operation] = ()


class BookingRepair:
    def __init__(self, store: Store, claims: WatchCache, records: KeyCache, bookings: DeviceBookings) -> None:
        self._store = store
        self._claims = claims
        self._records = records
        self._bookings = bookings
        self._changed: dict[str, Document | None] = {}  # what the claims were when we last looked
        self._told: set[str] = set()  # what cannot be repaired is said once

    # -- looking

    def findings(self) -> Iterator[Finding]:
        """Everything that is wrong, claims first."""
        return (found for found in self._look() if found is not None)

    def _look(self) -> Iterator[Finding | None]:
        """The same, with a None now and then: whoever looks at very many claims lets others work in between.

        Claims and records may change meanwhile. One claim and its records, or one record and its claims, are looked at
        in one go.
        """
        plain: dict[str, int] = {}  # records that are right, with their revisions
        for number, key in enumerate(list(self._claims.documents)):
            if (document := self._claims.get(key)) is not None:
                booked = self._plainly_booked(document)
                if booked is None:
                    yield from self._of_claim(document)
                else:
                    plain.update(booked)
            if number % _IN_ONE_GO == 0:
                yield None
        drawn: dict[str, set[str]] = {}  # devices by counter set record
        for number, known in enumerate(list(self._records.entries(layout.DEVICES))):
            if number % _IN_ONE_GO == 0:
                yield None
            if (entry := self._records.get(known.key)) is None or plain.get(entry.key) == entry.mod_revision:
                continue
            try:
                record = layout.read(DeviceRecord, entry.value, entry.key)
            except DamagedRecord as e:
                yield Finding(str(e), [Delete(entry.key, entry.mod_revision)])
                continue
            device = layout.device_of(entry.key)
            yield from self._of_device(device, record)
            for counter_set in record.counters:
                at = layout.counter_set_key(device.driver, device.pool, counter_set)
                drawn.setdefault(at, set()).add(device.device)
        yield from self._of_counters(drawn)

    def _plainly_booked(self, document: Document) -> dict[str, int] | None:
        """The records of a claim that has whole devices, and is alone in their records; None where more must be looked at.

        Nearly all claims are such, and reading no more of them than this is a tenth of the work.
        """
        value = document.value
        if value is None or not value.startswith(self._claims.codecs.storage.head):
            return None
        try:
            claim = _read_claim(value)
        except msgspec.MsgspecError:
            return None
        booked = {}
        for result in claim.status.allocation.devices.results if claim.status.allocation is not None else ():
            if result.adminAccess or result.shareID is not None or result.consumedCapacity:
                return None
            key = layout.device_key(DeviceID(result.driver, result.pool, result.device))
            entry = self._records.get(key)
            if entry is None or entry.value != layout.plain_record(document.key, claim.metadata.uid):
                return None
            booked[key] = entry.mod_revision
        return booked

    def _of_claim(self, document: Document) -> Iterator[Finding]:
        if isinstance(document, BridgedDocument) or not allocation_of(document.hub):
            return
        decided = self._bookings.decide(document.key, None, document.hub)
        if isinstance(decided, Refusal):
            yield Finding(f"claim {document.key}: {decided.problem}")
        elif not all(isinstance(operation, Unchanged) for operation in decided):
            yield Finding(
                f"claim {document.key} has devices that are not booked",
                [self._claim_is(document.key), *decided],
            )

    def _of_device(self, device: DeviceID, record: DeviceRecord) -> Iterator[Finding]:
        for key, share in record.claims.items():
            document = self._claims.get(key)
            held = None if document is None else shares(document.hub, allocation_of(document.hub)).get(device)
            if held is not None and held.uid == share.uid:
                continue
            draft = Draft(self._records)
            release(draft, device, key, share.uid)
            yield Finding(
                f"device {device} is booked for claim {key}, which does not have it",
                [self._claim_is(key), *draft.operations()],
            )

    def _of_counters(self, drawn: dict[str, set[str]]) -> Iterator[Finding]:
        keys = {entry.key for entry in self._records.entries(layout.COUNTERS)}
        for key in sorted(drawn.keys() | keys):
            driver, pool, counter_set = _counter_set_of(key)
            draft = Draft(self._records)
            try:
                found = draft.get(CounterSetRecord, key).devices
                wrong = {}
                for device in found.keys() | drawn.get(key, set()):
                    at = layout.device_key(DeviceID(driver, pool, device))
                    amounts = self._device_record(at).counters.get(counter_set)
                    if amounts != found.get(device):
                        wrong[at] = device, amounts
            except DamagedRecord as e:
                if (entry := self._records.get(key)) is not None and key in str(e):
                    yield Finding(str(e), [Delete(key, entry.mod_revision)])
                continue  # a damaged device record is found by itself
            if wrong:
                # A device that is right needs no condition: whoever changes what it draws writes this record too.
                right = dict(found)
                for at, (device, amounts) in islice(sorted(wrong.items()), _CONDITIONS):
                    draft.get(DeviceRecord, at)
                    if amounts is None:
                        right.pop(device, None)
                    else:
                        right[device] = amounts
                draft.set(key, CounterSetRecord(right))
                yield Finding(f"counter set record {key} does not match the devices", draft.operations())

    def _device_record(self, key: str) -> DeviceRecord:
        entry = self._records.get(key)
        return DeviceRecord() if entry is None else layout.read(DeviceRecord, entry.value, key)

    def _claim_is(self, key: str) -> Unchanged:
        document = self._claims.get(key)
        return Unchanged(self._claims.prefix + key, 0 if document is None else document.revision)

    # -- repairing

    async def repair(self) -> int:
        """Put everything right; returns how many repairs it took. What cannot be repaired is logged."""
        repaired = 0
        for _ in range(_ATTEMPTS):  # others may write meanwhile, and a repair may show what else is wrong
            await self._store.wait_until_fresh()
            found: list[Finding] = []
            for finding in self._look():
                if finding is None:
                    await asyncio.sleep(0)
                else:
                    found.append(finding)
            hopeless = {finding.text for finding in found if not finding.operations}
            for text in sorted(hopeless - self._told):
                log.error("device booking: %s", text)
            self._told = hopeless
            todo = [finding for finding in found if finding.operations]
            if not todo:
                break
            done = 0
            for at in range(0, len(todo), _AT_ONCE):
                done += sum(await asyncio.gather(*map(self._apply, todo[at : at + _AT_ONCE])))
            repaired += done
        return repaired

    async def _apply(self, finding: Finding) -> bool:
        try:
            await self._store.transact(finding.operations)
        except (KeyExists, KeyNotFound, RevisionMismatch) as e:
            # Somebody wrote one of them meanwhile: the next round looks again.
            if e.key.startswith(layout.PREFIX):
                self._records.learn(e.key, e.current)
            return False
        log.info("device booking repaired: %s", finding.text)
        return True

    async def run(self) -> None:
        """Repair for ever. Only on a store that others write to can claims change without their records."""
        if not self._store.shared:
            return
        clock = asyncio.get_running_loop().time
        looked = clock()
        unsubscribe = self._claims.subscribe(self._note)
        try:
            while True:
                await asyncio.sleep(SETTLE)
                try:
                    if clock() - looked >= INTERVAL:
                        await self.repair()
                        looked = clock()
                    elif self._changed:
                        await self._repair_changed()
                except StoreError as e:
                    log.warning("device booking cannot be checked now: %s", e)
        finally:
            unsubscribe()

    def _note(self, change: Change) -> None:
        document = change.after or change.before
        assert document is not None
        self._changed.setdefault(document.key, change.before)

    async def _repair_changed(self) -> None:
        """Look at the claims that have changed, and at the devices that they had before."""
        changed, self._changed = self._changed, {}
        for number, (key, before) in enumerate(changed.items()):
            if number % _IN_ONE_GO == 0:
                await asyncio.sleep(0)
            try:
                right = not any(finding.operations for finding in self._of_change(key, before))
            except DamagedRecord:
                right = False
            if not right:
                await self.repair()
                return

    def _of_change(self, key: str, before: Document | None) -> Iterator[Finding]:
        if (document := self._claims.get(key)) is not None:
            yield from self._of_claim(document)
        for device in shares(before.hub, allocation_of(before.hub)) if before is not None else ():
            if (entry := self._records.get(layout.device_key(device))) is not None:
                yield from self._of_device(device, layout.read(DeviceRecord, entry.value, entry.key))


def _counter_set_of(key: str) -> tuple[str, str, str]:
    driver, _, rest = key.removeprefix(layout.COUNTERS).partition("/")
    pool, _, counter_set = rest.rpartition("/")
    return driver, pool, counter_set
