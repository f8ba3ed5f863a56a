"""What the resource slices say of a pool: capacities of its devices, its counters, and what devices draw from them."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple

from dray.api import slices
from dray.api.identity import PoolID
from dray.api.quantity import Quantity
from dray.server.beyond_upstream.device_booking.records import Amounts
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.resource import Device, ResourceSlice


class PublishedPool(NamedTuple):
    """What the slices of a pool say; where generations differ, the newest.

    A driver replaces the slices of a pool one by one. What the newer ones do not say yet, the older ones still do: a
    scheduler that has seen no more than these allocates by them.
    """

    devices: Mapping[str, Device]
    counters: Mapping[str, Mapping[str, Quantity]]  # by counter set and name

    @classmethod
    def of(cls, published: Collection[ResourceSlice]) -> PublishedPool:
        specs = [one["spec"] for one in sorted(published, key=slices.generation)]
        return cls(
            {device["name"]: device for spec in specs for device in spec.get("devices") or ()},
            {
                counter_set["name"]: {
                    name: Quantity.from_json(counter["value"])
                    for name, counter in (counter_set.get("counters") or {}).items()
                }
                for spec in specs
                for counter_set in spec.get("sharedCounters") or ()
            },
        )

    def capacity(self, device: str, name: str) -> Quantity | None:
        """How much of a capacity a device has; None if it does not say."""
        if (published := self.devices.get(device)) is None:
            return None
        found = (published.get("capacity") or {}).get(name)
        return Quantity.from_json(found["value"]) if found is not None else None

    def is_exclusive(self, device: str) -> bool:
        """Whether a device can only be had as a whole; not if nobody publishes it."""
        published = self.devices.get(device)
        return published is not None and not published.get("allowMultipleAllocations")

    def consumed_counters(self, device: str) -> dict[str, Amounts] | None:
        """What a device draws from which counter set, once somebody has it; None if nobody publishes it."""
        if (published := self.devices.get(device)) is None:
            return None
        found: dict[str, Amounts] = {}
        for consumption in published.get("consumesCounters") or ():
            amounts = found.setdefault(consumption["counterSet"], {})
            for name, counter in (consumption.get("counters") or {}).items():
                amounts[name] = str(Quantity.from_json(counter["value"]))
        return found


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
