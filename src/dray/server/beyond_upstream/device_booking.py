"""Device booking: an allocation that takes what other claims have is refused.

That is a device which another claim has to itself, capacity of a shared device beyond what the device has, and counters
of a pool (partitionable devices) beyond what the pool has. A scheduler avoids such allocations as far as it can see. Two
schedulers, or one that was killed during a write and its successor, cannot see each other's writes in flight; every
write passes through the API server. A scheduler adds the claim's finalizer before it allocates, as upstream's does. An
allocation is checked as soon as its claim has the finalizer, also if the finalizer comes later. An API server that
emulates a release leaves all of this to the schedulers, as upstream does. Several API servers on one etcd do not see
each other's writes in flight.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api import claims, errors, slices
from dray.api.identity import DeviceID, PoolID, device_id
from dray.api.quantity import Quantity
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.resource import AllocationResult, Device, ResourceClaim, ResourceSlice


_NOTHING_RESERVED: Final = nullcontext()


class Hold(NamedTuple):
    """What one claim has of one device."""

    claim: str  # its key
    shared: bool
    consumed: Mapping[str, int]  # capacity of a shared device, in billionths


Holds = dict[DeviceID, Hold]


class Counter(NamedTuple):
    counter_set: str
    name: str


class DeviceBookings:
    """Which claims have which devices. Read off the stored claims, and off those that are being written right now."""

    def __init__(self, stored: WatchCache, published: WatchCache | None) -> None:
        """``stored``: the claims; ``published``: the resource slices."""
        self._held: dict[PoolID, dict[str, dict[str, Hold]]] = {}  # pool → device → claim → what it has
        self._in_flight: list[Holds] = []
        self._pools = PublishedPools(published)
        for document in stored.documents.values():
            self._count(document.key, {}, holds(document.key, _allocation(document.hub)))
        stored.subscribe(self._changed)

    def begin_write(self, new: ResourceClaim, old: ResourceClaim | None) -> AbstractContextManager[None]:
        """Refuse what other claims have; reserve the rest for ``new`` until the block ends."""
        allocation = _allocation(new)
        if not allocation or not _protected(new):
            return _NOTHING_RESERVED
        if old is not None and _protected(old) and _allocation(old) == allocation:
            return _NOTHING_RESERVED
        metadata = new["metadata"]
        key = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}"
        wanted = holds(key, allocation)
        if problem := self._problem(key, wanted):
            raise errors.conflict("resourceclaims", "resource.k8s.io", metadata.get("name", ""), problem)
        return self._reserve(wanted)

    @contextmanager
    def _reserve(self, wanted: Holds) -> Iterator[None]:
        self._in_flight.append(wanted)
        try:
            yield
        finally:
            self._in_flight.remove(wanted)

    # -- what stands against a write

    def _problem(self, key: str, wanted: Holds) -> str:
        for device, hold in wanted.items():
            others = self._others(device, key)
            for other in others:
                if not (hold.shared and other.shared):
                    return f"device {device} is allocated to claim {other.claim}"
            if others and (lacking := self._lacking_capacity(device, hold, others)):
                return f"device {device} has not enough {lacking} left for another share"
        for pool in {device.pool_id for device in wanted}:
            if counter := self._overdrawn_counter(pool, key, wanted):
                return f"pool {pool} has not enough of counter {counter.name} of counter set {counter.counter_set} left"
        return ""

    def _others(self, device: DeviceID, key: str) -> list[Hold]:
        found = dict(self._held.get(device.pool_id, {}).get(device.device, {}))
        found |= {hold.claim: hold for holds in self._in_flight if (hold := holds.get(device)) is not None}
        found.pop(key, None)
        return list(found.values())

    def _lacking_capacity(self, device: DeviceID, hold: Hold, others: list[Hold]) -> str:
        pool = self._pools.get(device.pool_id)
        for name, amount in hold.consumed.items():
            capacity = pool.capacity(device.device, name)
            if capacity is not None and amount + sum(o.consumed.get(name, 0) for o in others) > capacity:
                return name
        return ""

    def _overdrawn_counter(self, id: PoolID, key: str, wanted: Holds) -> Counter | None:
        pool = self._pools.get(id)
        if not pool.counters:
            return None
        used = {device.device for device in wanted if device.pool_id == id}
        mine = {counter for name in used for counter in pool.consumed_counters(name)}
        used |= {
            name for name, holders in self._held.get(id, {}).items() if any(claim != key for claim in holders)
        }
        used |= {
            device.device
            for holds in self._in_flight
            for device, hold in holds.items()
            if device.pool_id == id and hold.claim != key
        }
        left = dict(pool.counters)
        for name in used:
            for counter, amount in pool.consumed_counters(name).items():
                left[counter] = left.get(counter, 0) - amount
        return next((counter for counter in sorted(mine) if left[counter] < 0), None)

    # -- what is stored

    def _changed(self, change: Change) -> None:
        was: ResourceClaim = change.before.hub if change.before is not None else {}
        now: ResourceClaim = change.after.hub if change.after is not None else {}
        allocated_before, allocated = _allocation(was), _allocation(now)
        if allocated_before is allocated:
            return
        document = change.after or change.before
        assert document is not None
        self._count(document.key, holds(document.key, allocated_before), holds(document.key, allocated))

    def _count(self, key: str, before: Holds, after: Holds) -> None:
        for device in before.keys() - after.keys():
            pool = self._held.get(device.pool_id, {})
            if holders := pool.get(device.device):
                holders.pop(key, None)
                if not holders:
                    del pool[device.device]
                    if not pool:
                        del self._held[device.pool_id]
        for device, hold in after.items():
            self._held.setdefault(device.pool_id, {}).setdefault(device.device, {})[key] = hold


class PublishedPool(NamedTuple):
    """What the slices of a pool's newest generation say."""

    devices: Mapping[str, Device]
    counters: Mapping[Counter, int]

    @classmethod
    def of(cls, published: Collection[ResourceSlice]) -> PublishedPool:
        newest = max(map(slices.generation, published), default=0)
        specs = [one["spec"] for one in published if slices.generation(one) == newest]
        return cls(
            {device["name"]: device for spec in specs for device in spec.get("devices") or ()},
            {
                Counter(counter_set["name"], name): Quantity.from_json(counter["value"]).nano
                for spec in specs
                for counter_set in spec.get("sharedCounters") or ()
                for name, counter in (counter_set.get("counters") or {}).items()
            },
        )

    def capacity(self, device: str, name: str) -> int | None:
        """How much of a capacity a device has; None if it does not say."""
        if (published := self.devices.get(device)) is None:
            return None
        found = (published.get("capacity") or {}).get(name)
        return Quantity.from_json(found["value"]).nano if found is not None else None

    def consumed_counters(self, device: str) -> dict[Counter, int]:
        if (published := self.devices.get(device)) is None:
            return {}
        return {
            Counter(consumption["counterSet"], name): Quantity.from_json(counter["value"]).nano
            for consumption in published.get("consumesCounters") or ()
            for name, counter in (consumption.get("counters") or {}).items()
        }


class PublishedPools:
    """All pools, read off the stored slices when they are asked for."""

    def __init__(self, stored: WatchCache | None) -> None:
        self._slices: dict[PoolID, dict[str, ResourceSlice]] = {}
        self._pools: dict[PoolID, PublishedPool] = {}
        if stored is not None:
            for document in stored.documents.values():
                self._add(document.key, document.hub)
            stored.subscribe(self._changed)

    def get(self, id: PoolID) -> PublishedPool:
        found = self._pools.get(id)
        if found is None:
            found = PublishedPool.of(self._slices.get(id, {}).values())
            if id in self._slices:
                self._pools[id] = found
        return found

    def _changed(self, change: Change) -> None:
        if change.before is not None:
            self._remove(change.before.key, change.before.hub)
        if change.after is not None:
            self._add(change.after.key, change.after.hub)

    def _add(self, key: str, published: ResourceSlice) -> None:
        if "spec" in published:  # slices of 1.30 have none
            pool = slices.pool_id(published)
            self._slices.setdefault(pool, {})[key] = published
            self._pools.pop(pool, None)

    def _remove(self, key: str, published: ResourceSlice) -> None:
        if "spec" in published:
            pool = slices.pool_id(published)
            self._pools.pop(pool, None)
            del self._slices[pool][key]
            if not self._slices[pool]:
                del self._slices[pool]


def holds(key: str, allocation: AllocationResult | None) -> Holds:
    """What an allocation takes; devices that the claim may only look at are not among it."""
    found: Holds = {}
    for result in ((allocation or {}).get("devices") or {}).get("results") or ():
        if result.get("adminAccess"):
            continue
        device, consumed = device_id(result), {}
        if (before := found.get(device)) is not None:
            consumed = dict(before.consumed)
        for name, amount in (result.get("consumedCapacity") or {}).items():
            consumed[name] = consumed.get(name, 0) + Quantity.from_json(amount).nano
        shared = result.get("shareID") is not None and (before is None or before.shared)
        found[device] = Hold(key, shared, consumed)
    return found


def _allocation(claim: ResourceClaim) -> AllocationResult | None:
    return (claim.get("status") or {}).get("allocation")


def _protected(claim: ResourceClaim) -> bool:
    return claims.FINALIZER in (claim["metadata"].get("finalizers") or ())
