"""The decision: what a write of a claim changes in the booking records, or what stands against it.

Refused are a device that another claim has to itself, capacity of a shared device beyond what the device has, and
counters of a pool (partitionable devices) beyond what the pool has. A scheduler adds the claim's finalizer before it
allocates, as upstream's does. An allocation is checked as soon as its claim has the finalizer, also if the finalizer
comes later; without it an allocation is recorded, and others are checked against it, but it is not refused itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.api import claims, errors
from dray.api.identity import DeviceID, PoolID, device_id
from dray.api.quantity import Quantity
from dray.server.beyond_upstream.device_booking.pools import PublishedPools
from dray.server.beyond_upstream.device_booking.records import (
    Amounts,
    CounterSetRecord,
    DamagedRecord,
    DeviceRecord,
    Draft,
    Share,
    counter_set_key,
    device_key,
)
from dray.server.registry.resources import Behind
from dray.server.storage.keycache import KeyCache
from dray.store.interface import KeyValue, Operation

if TYPE_CHECKING:
    from dray.api.types.resource import AllocationResult, ResourceClaim

_ZERO = Quantity()


class Refusal(NamedTuple):
    """Why a claim cannot have what its allocation says."""

    problem: str


class DeviceBookings:
    """Writes booking records in the transaction of every write that changes a claim's allocation."""

    def __init__(self, records: KeyCache, pools: PublishedPools) -> None:
        self._records = records
        self._pools = pools

    def operations(
        self, key: str, old: ResourceClaim | None, new: ResourceClaim | None, *, fresh: bool
    ) -> Sequence[Operation]:
        """What goes into the transaction that replaces ``old`` by ``new``; a conflict if another claim is in the way.

        The transaction guards the records, not the slices. A server that has not heard of a device's slice yet knows
        neither its capacity nor its counters, so it catches up before it books such a device.
        """
        decided = self.decide(key, old, new)
        if isinstance(decided, Refusal):
            name = key.rpartition("/")[2]
            raise errors.conflict("resourceclaims", "resource.k8s.io", name, decided.problem)
        if decided and not fresh and self._unpublished(new):
            raise Behind
        return decided

    def _unpublished(self, claim: ResourceClaim | None) -> bool:
        return any(
            device.device not in self._pools.get(device.pool_id).devices
            for device in shares(claim, allocation_of(claim))
        )

    def learn(self, key: str, current: KeyValue | None) -> None:
        """A transaction was refused because the record ``key`` has changed."""
        self._records.learn(key, current)

    def decide(
        self, key: str, old: ResourceClaim | None, new: ResourceClaim | None
    ) -> Sequence[Operation] | Refusal:
        before, after = allocation_of(old), allocation_of(new)
        if not before and not after:
            return ()
        checked = new is not None and is_protected(new)
        if before == after and old is not None and (not checked or is_protected(old)):
            return ()
        wanted = shares(new, after)
        draft = Draft(self._records)
        try:
            for device, share in shares(old, before).items():
                if device not in wanted:
                    release(draft, device, key, share.uid)
            for device, share in wanted.items():
                if refusal := self._take(draft, device, key, share, checked=checked):
                    return refusal
        except DamagedRecord as e:
            return Refusal(f"{e}; dray check-store tells more")
        return draft.operations()

    def _take(
        self, draft: Draft, device: DeviceID, key: str, share: Share, *, checked: bool
    ) -> Refusal | None:
        at = device_key(device)
        record = draft.get(DeviceRecord, at)
        others = {claim: held for claim, held in record.claims.items() if claim != key}
        if checked and (others or share.consumed) and (problem := self._in_the_way(device, share, others)):
            return Refusal(problem)
        counters = self._pools.get(device.pool_id).consumed_counters(device.device)
        if counters is None:
            counters = record.counters
        for counter_set in record.counters.keys() - counters.keys():
            leave(draft, device, counter_set)
        for counter_set, amounts in counters.items():
            if problem := self._draw(draft, device, counter_set, amounts, checked=checked):
                return Refusal(problem)
        if record.claims.get(key) != share or record.counters != counters:
            draft.set(at, DeviceRecord({**others, key: share}, counters))
        return None

    def _in_the_way(self, device: DeviceID, share: Share, others: Mapping[str, Share]) -> str:
        pool = self._pools.get(device.pool_id)
        for claim, other in others.items():
            if not (share.shared and other.shared) or pool.is_exclusive(device.device):
                return f"device {device} is allocated to claim {claim}"
        for name, amount in share.consumed.items():
            capacity = pool.capacity(device.device, name)
            if capacity is None:
                continue
            used = sum((_amount(other.consumed, name) for other in others.values()), _ZERO)
            if used + Quantity.parse(amount) > capacity:
                beside = f" beside {_named(others)}" if others else ""
                return f"device {device} has not enough {name} left for another share{beside}"
        return ""

    def _draw(
        self, draft: Draft, device: DeviceID, counter_set: str, amounts: Amounts, *, checked: bool
    ) -> str:
        """Let a device draw on a counter set."""
        at = counter_set_key(device.driver, device.pool, counter_set)
        record = draft.get(CounterSetRecord, at)
        others = {name: drawn for name, drawn in record.devices.items() if name != device.device}
        if checked:
            pool = self._pools.get(device.pool_id)
            published = pool.counters.get(counter_set, {})
            # A pool may say by now that a device draws something else than it did when it was booked.
            now = [
                recorded if (drawn := pool.consumed_counters(other)) is None else drawn.get(counter_set, {})
                for other, recorded in others.items()
            ]
            for name, amount in sorted(amounts.items()):
                used = sum((_amount(drawn, name) for drawn in now), _ZERO)
                if used + Quantity.parse(amount) > published.get(name, _ZERO):
                    holders = self._holders(draft, device.pool_id, others)
                    return (
                        f"pool {device.pool_id} has not enough of counter {name} of counter set {counter_set} left"
                        + (f" beside {holders}" if holders else "")
                    )
        if record.devices.get(device.device) != amounts:
            draft.set(at, CounterSetRecord({**others, device.device: amounts}))
        return ""

    def _holders(self, draft: Draft, pool: PoolID, devices: Mapping[str, Amounts]) -> str:
        found: dict[str, None] = {}
        for device in devices:
            record = draft.get(DeviceRecord, device_key(DeviceID(*pool, device)))
            found.update(dict.fromkeys(record.claims))
        return _named(found)


def release(draft: Draft, device: DeviceID, key: str, uid: str) -> None:
    """Take a claim out of a device's record. The last one to go takes the device out of its counter sets too."""
    at = device_key(device)
    record = draft.get(DeviceRecord, at)
    held = record.claims.get(key)
    if held is None or held.uid != uid:
        return
    left = {claim: share for claim, share in record.claims.items() if claim != key}
    draft.set(at, DeviceRecord(left, record.counters))
    if not left:
        for counter_set in record.counters:
            leave(draft, device, counter_set)


def leave(draft: Draft, device: DeviceID, counter_set: str) -> None:
    """Let a device no longer draw on a counter set."""
    at = counter_set_key(device.driver, device.pool, counter_set)
    drawn = draft.get(CounterSetRecord, at).devices
    if device.device in drawn:
        draft.set(at, CounterSetRecord({d: a for d, a in drawn.items() if d != device.device}))


def shares(claim: ResourceClaim | None, allocation: AllocationResult | None) -> dict[DeviceID, Share]:
    """What an allocation takes; devices that the claim may only look at are not among it."""
    results = ((allocation or {}).get("devices") or {}).get("results")
    if claim is None or not results:
        return {}
    uid = claim["metadata"].get("uid", "")
    found: dict[DeviceID, Share] = {}
    for result in results:
        if result.get("adminAccess"):
            continue
        device, before = device_id(result), found.get(device_id(result))
        consumed = {} if before is None else dict(before.consumed)
        for name, amount in (result.get("consumedCapacity") or {}).items():
            consumed[name] = str(_amount(consumed, name) + Quantity.from_json(amount))
        shared = result.get("shareID") is not None and (before is None or before.shared)
        found[device] = Share(uid, shared, consumed)
    return found


def allocation_of(claim: ResourceClaim | None) -> AllocationResult | None:
    return None if claim is None else (claim.get("status") or {}).get("allocation")


def is_protected(claim: ResourceClaim) -> bool:
    return claims.FINALIZER in (claim["metadata"].get("finalizers") or ())


def _amount(amounts: Amounts, name: str) -> Quantity:
    found = amounts.get(name)
    return _ZERO if found is None else Quantity.parse(found)


def _named(claims: Mapping[str, object]) -> str:
    """Some claims by name, so that a message stays readable."""
    names = list(claims)
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return f"claim{'s' if len(names) > 1 else ''} {', '.join(names[:3])}{more}" if names else ""
