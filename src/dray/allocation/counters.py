"""Shared counters: partitions of one piece of hardware consume them, and so exclude each other.

Also compatibility groups, by which a device says with which others it may consume the same counter set.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.usage import PoolUsage, Usage

Counter = tuple[str, str]  # counter set, counter
Groups = frozenset[str]


class Available(NamedTuple):
    """What is left of a pool's counters."""

    of: PoolUsage  # the usage this was worked out for
    left: Mapping[Counter, int]
    groups: Mapping[str, Groups]  # counter set → groups that all its users share; empty: they have none

    @property
    def overdrawn(self) -> bool:
        """Upstream then gives out no device of the pool that consumes any counter."""
        return any(amount < 0 for amount in self.left.values())


def available(pool: Pool, usage: Usage) -> Available:
    """What is left for devices about to be allocated; worked out once per state of the pool."""
    part = usage.of(pool.id)
    known: Available | None = pool.available
    if known is not None and known.of is part:
        return known
    left = {
        (counter_set, name): amount
        for counter_set, counters in pool.counter_sets.items()
        for name, amount in counters.items()
    }
    groups: dict[str, Groups] = {}
    if part.taken or part.shares or part.consumed:
        for devices in (pool.devices, pool.other_nodes_devices):
            for device in devices:
                if device.consumes_counters and part.touches(device.name):
                    _subtract(left, device)
                    for consumption in device.consumes_counters:
                        groups[consumption.counter_set] = common_groups(
                            groups.get(consumption.counter_set), consumption.groups
                        )
    pool.available = found = Available(part, left, groups)
    return found


def _subtract(left: dict[Counter, int], device: Device) -> None:
    for counter, amount in consumed_counters(device):
        if counter in left:
            left[counter] -= amount


def consumed_counters(device: Device) -> Iterable[tuple[Counter, int]]:
    """All that a device consumes, counter by counter."""
    for consumption in device.consumes_counters:
        for name, amount in consumption.amounts.items():
            yield (consumption.counter_set, name), amount


def groups_compatible(present: Groups | None, candidate: Groups) -> bool:
    """Whether a device may join those that consume a counter set. None: nobody does yet.

    Devices without groups are compatible only with devices without groups.
    """
    if present is None:
        return True
    return not present if not candidate else bool(present & candidate)


def common_groups(present: Groups | None, candidate: Groups) -> Groups:
    """The groups shared by all once a device has joined."""
    return candidate if present is None else present & candidate
