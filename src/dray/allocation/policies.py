"""Policies: the order in which devices are tried, and so which of several fitting devices a claim gets.

The default keeps upstream's order. ``PACK`` uses devices of pools, groups and counter sets that are in use already, and
so keeps large partitions and whole groups free for claims that need them; ``SPREAD`` does the opposite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dray.allocation import counters
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.search.state import DeviceInPool
from dray.allocation.usage import Usage

_TOPOLOGY = ("string", "int")  # attribute types that may say where a device is


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    #: None: as upstream orders them
    arrange: Callable[[Sequence[DeviceInPool], Usage], list[DeviceInPool]] | None = None


def _pack(devices_in_pools: Sequence[DeviceInPool], usage: Usage) -> list[DeviceInPool]:
    situation = _Situation(devices_in_pools, usage)

    def preference(device_in_pool: DeviceInPool) -> tuple[object, ...]:
        device = device_in_pool.device
        return (
            device_in_pool.pool.has_binding_conditions,
            not situation.in_use(device_in_pool),
            situation.counter_share(device_in_pool),
            situation.left(device_in_pool),
            situation.neighbours(device),
            situation.free(device_in_pool.pool),
        )

    return sorted(devices_in_pools, key=preference)


def _spread(devices_in_pools: Sequence[DeviceInPool], usage: Usage) -> list[DeviceInPool]:
    situation = _Situation(devices_in_pools, usage)

    def preference(device_in_pool: DeviceInPool) -> tuple[object, ...]:
        device = device_in_pool.device
        return (
            device_in_pool.pool.has_binding_conditions,
            situation.in_use(device_in_pool),
            -situation.left(device_in_pool),
            -situation.neighbours(device),
            -situation.free(device_in_pool.pool),
        )

    return sorted(devices_in_pools, key=preference)


DEFAULT = Policy("default")
PACK = Policy("pack", _pack)
SPREAD = Policy("spread", _spread)
POLICIES = {policy.name: policy for policy in (DEFAULT, PACK, SPREAD)}


class _Situation:
    """How much is left of what each device belongs to."""

    def __init__(self, devices_in_pools: Sequence[DeviceInPool], usage: Usage) -> None:
        self._usage = usage
        idle = [
            device_in_pool
            for device_in_pool in devices_in_pools
            if not device_in_pool.part.touches(device_in_pool.device.name)
        ]
        self._free = Counter(device_in_pool.pool.id for device_in_pool in idle)
        self._group_sizes = Counter(
            group for device_in_pool in devices_in_pools for group in _groups(device_in_pool.device)
        )
        self._group_free = Counter(
            group for device_in_pool in idle for group in _groups(device_in_pool.device)
        )
        self._pool_sizes = Counter(device_in_pool.pool.id for device_in_pool in devices_in_pools)

    def in_use(self, device_in_pool: DeviceInPool) -> bool:
        """Whether a claim has a share of the device already."""
        return device_in_pool.part.touches(device_in_pool.device.name)

    def free(self, pool: Pool) -> int:
        return self._free[pool.id]

    def neighbours(self, device: Device) -> int:
        """Idle devices in the smallest real group the device is part of, such as those on its PCIe root."""
        whole = self._pool_sizes[device.id.pool_id]
        groups = [group for group in _groups(device) if 1 < self._group_sizes[group] < whole]
        return min((self._group_free[group] for group in groups), default=self._free[device.id.pool_id])

    def counter_share(self, device_in_pool: DeviceInPool) -> float:
        """How large a part of its counter sets the device takes."""
        return max(
            (amount / total for total, amount, _ in self._counter_shares(device_in_pool) if total),
            default=0.0,
        )

    def left(self, device_in_pool: DeviceInPool) -> float:
        """How much of its counter sets is left."""
        return min(
            (left / total for total, _, left in self._counter_shares(device_in_pool) if total), default=1.0
        )

    def _counter_shares(self, device_in_pool: DeviceInPool) -> Iterable[tuple[int, int, int]]:
        if not device_in_pool.device.consumes_counters:
            return
        left = counters.available(device_in_pool.pool, self._usage).left
        for (counter_set, name), amount in counters.consumed_counters(device_in_pool.device):
            yield device_in_pool.pool.counter_sets[counter_set][name], amount, left[counter_set, name]


def _groups(device: Device) -> Iterable[tuple[object, ...]]:
    for name, value in (device.document.get("attributes") or {}).items():
        for kind in _TOPOLOGY:
            if (one := value.get(kind)) is not None:
                yield device.id.pool_id, name, one
