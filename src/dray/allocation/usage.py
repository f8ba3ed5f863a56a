"""Usage: the devices, shares of devices and capacity that claims have allocated or are about to.

Usage is kept pool by pool. A PoolUsage is never changed, only replaced: a search works on those it got at its start,
whatever is recorded meanwhile, and anything derived from one is valid exactly as long as the pool has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from dray.api.identity import DeviceID, PoolID, object_name
from dray.api.quantity import Quantity

if TYPE_CHECKING:
    from dray.api.types.resource import AllocationResult, DeviceRequestAllocationResult, ResourceClaim

V = TypeVar("V")
_NOTHING: Mapping[str, Any] = {}


class PoolUsage:
    """What is taken of one pool. Never changed once made."""

    __slots__ = ("consumed", "shares", "taken")

    def __init__(
        self,
        taken: Mapping[str, str] = _NOTHING,
        shares: Mapping[str, Mapping[str, str]] = _NOTHING,
        consumed: Mapping[str, Mapping[str, int]] = _NOTHING,
    ) -> None:
        #: device → the claim that has it to itself
        self.taken = taken
        #: device → share id → the claim that has the share
        self.shares = shares
        #: device → capacity → amount consumed by all shares, in billionths
        self.consumed = consumed

    def touches(self, device: str) -> bool:
        """Whether a device is in any kind of use."""
        return device in self.taken or device in self.shares or device in self.consumed


UNUSED = PoolUsage()


class Usage:
    """What is taken in the whole cluster."""

    __slots__ = ("_pools", "_sharing")

    def __init__(self, *, sharing: bool = True, pools: Mapping[PoolID, PoolUsage] | None = None) -> None:
        """``sharing``: shares count as such; without consumable capacity a share takes the whole device."""
        self._sharing = sharing
        self._pools = dict(pools or {})

    @classmethod
    def by(cls, claims: Iterable[ResourceClaim], *, sharing: bool = True) -> Usage:
        """What all these claims have: the same as adding them one by one, but done at once."""
        held: dict[PoolID, list[tuple[str, DeviceRequestAllocationResult]]] = {}
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation")
            if not allocation:
                continue
            owner = object_name(claim)
            for result in (allocation.get("devices") or {}).get("results") or ():
                if not result.get("adminAccess"):
                    held.setdefault(PoolID(result["driver"], result["pool"]), []).append((owner, result))
        pools: dict[PoolID, PoolUsage] = {}
        for pool, results in held.items():
            part = PoolUsage({r["device"]: owner for owner, r in results if _whole(r, sharing=sharing)})
            for owner, result in results:
                if not _whole(result, sharing=sharing):
                    part = _replace(part, (result,), owner, 1, sharing=sharing)
            pools[pool] = part
        return cls(sharing=sharing, pools=pools)

    def of(self, pool: PoolID) -> PoolUsage:
        return self._pools.get(pool, UNUSED)

    def snapshot(self) -> Usage:
        """A copy that later changes do not reach; it costs one entry a pool."""
        return Usage(sharing=self._sharing, pools=self._pools)

    def add(self, claim: ResourceClaim, allocation: AllocationResult | None = None) -> list[PoolID]:
        """Record an allocation: the claim's own, or one it is about to get. Returns the pools it touches."""
        return self._change(claim, allocation, 1)

    def remove(self, claim: ResourceClaim, allocation: AllocationResult | None = None) -> list[PoolID]:
        """Take back what ``add`` recorded with the same arguments."""
        return self._change(claim, allocation, -1)

    def owners(self, device: DeviceID) -> Iterator[str]:
        """All claims that use a device."""
        part = self.of(device.pool_id)
        if device.device in part.taken:
            yield part.taken[device.device]
        yield from part.shares.get(device.device, _NOTHING).values()

    def take(self, device: DeviceID, owner: str = "") -> None:
        """Record a whole device as allocated."""
        part = self.of(device.pool_id)
        self._pools[device.pool_id] = PoolUsage(
            {**part.taken, device.device: owner}, part.shares, part.consumed
        )

    def share(self, device: DeviceID, share: str, owner: str = "") -> None:
        """Record a share of a device as taken."""
        part = self.of(device.pool_id)
        shares = {**part.shares.get(device.device, _NOTHING), share: owner}
        self._pools[device.pool_id] = PoolUsage(
            part.taken, {**part.shares, device.device: shares}, part.consumed
        )

    def consume(self, device: DeviceID, capacity: Mapping[str, str]) -> None:
        """Record consumed capacity, as quantities by name."""
        part = self.of(device.pool_id)
        consumed = _sum(part.consumed.get(device.device, _NOTHING), capacity, 1)
        self._pools[device.pool_id] = PoolUsage(
            part.taken, part.shares, {**part.consumed, device.device: consumed}
        )

    def _change(self, claim: ResourceClaim, allocation: AllocationResult | None, sign: int) -> list[PoolID]:
        if allocation is None:
            allocation = (claim.get("status") or {}).get("allocation") or {}
        owner = object_name(claim)
        touched: dict[PoolID, list[DeviceRequestAllocationResult]] = {}
        for result in (allocation.get("devices") or {}).get("results") or ():
            # Looking at a device as an administrator does not take it away from anybody.
            if not result.get("adminAccess"):
                touched.setdefault(PoolID(result["driver"], result["pool"]), []).append(result)
        for pool, results in touched.items():
            part = _replace(self.of(pool), results, owner, sign, sharing=self._sharing)
            if part.taken or part.shares or part.consumed:
                self._pools[pool] = part
            else:
                self._pools.pop(pool, None)
        return list(touched)


def _whole(result: DeviceRequestAllocationResult, *, sharing: bool) -> bool:
    """Whether a result takes the device as a whole."""
    return not sharing or result.get("shareID") is None


def _replace(
    part: PoolUsage, results: Iterable[DeviceRequestAllocationResult], owner: str, sign: int, *, sharing: bool
) -> PoolUsage:
    taken, shares, consumed = part.taken, part.shares, part.consumed
    for result in results:
        device = result["device"]
        if _whole(result, sharing=sharing):
            # What was taken by two is the later one's; the other has nothing to give back.
            if sign > 0:
                others = {k: v for k, v in taken.items() if k != device} if device in taken else taken
                taken = {**others, device: owner}
            elif taken.get(device) == owner:
                taken = {k: v for k, v in taken.items() if k != device}
            continue
        share = result["shareID"]
        holders = {k: v for k, v in shares.get(device, _NOTHING).items() if k != share}
        if sign > 0:
            holders[share] = owner
        shares = _with(shares, device, holders)
        capacity = result.get("consumedCapacity")
        if capacity is not None:
            total = _sum(consumed.get(device, _NOTHING), capacity, sign)
            consumed = _with(consumed, device, total if sign > 0 or any(total.values()) else _NOTHING)
    return PoolUsage(taken, shares, consumed)


def _with(
    mapping: Mapping[str, Mapping[str, V]], key: str, value: Mapping[str, V]
) -> dict[str, Mapping[str, V]]:
    """A copy with one entry replaced, or dropped if nothing is left of it."""
    changed = {k: v for k, v in mapping.items() if k != key}
    if value:
        changed[key] = value
    return changed


def _sum(old: Mapping[str, int], capacity: Mapping[str, str], sign: int) -> dict[str, int]:
    total = dict(old)
    for name, amount in capacity.items():
        total[name] = total.get(name, 0) + sign * Quantity.from_json(amount).nano
    return total
