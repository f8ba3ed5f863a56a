"""Which of several fitting devices to take: policies only put devices in order, the search does the rest.

The default keeps upstream's order. ``PACK`` fills what is broken already and keeps large partitions and groups of
devices whole for those who need them; ``SPREAD`` does the opposite.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from dray.allocation import counters
from dray.allocation.devices import Device
from dray.allocation.pools import Pool
from dray.allocation.state import Spot
from dray.allocation.usage import Usage

_TOPOLOGY = ("string", "int")  # attribute types that may say where a device is


@dataclass(frozen=True, slots=True)
class Policy:
    name: str
    #: None: as upstream orders them
    arrange: Callable[[Sequence[Spot], Usage], list[Spot]] | None = None


def _pack(spots: Sequence[Spot], usage: Usage) -> list[Spot]:
    situation = _Situation(spots, usage)

    def preference(spot: Spot) -> tuple[object, ...]:
        device = spot.device
        return (
            spot.pool.waits,
            not situation.begun(spot),
            situation.bite(spot),
            situation.left(spot),
            situation.neighbours(device),
            situation.free(spot.pool),
        )

    return sorted(spots, key=preference)


def _spread(spots: Sequence[Spot], usage: Usage) -> list[Spot]:
    situation = _Situation(spots, usage)

    def preference(spot: Spot) -> tuple[object, ...]:
        device = spot.device
        return (
            spot.pool.waits,
            situation.begun(spot),
            -situation.left(spot),
            -situation.neighbours(device),
            -situation.free(spot.pool),
        )

    return sorted(spots, key=preference)


DEFAULT = Policy("default")
PACK = Policy("pack", _pack)
SPREAD = Policy("spread", _spread)
POLICIES = {policy.name: policy for policy in (DEFAULT, PACK, SPREAD)}


def occupancy(pools: Iterable[Pool], usage: Usage) -> float:
    """The part of a node's devices that is in use, from 0 to 1: what a scheduler packs or spreads nodes by."""
    total = used = 0
    for pool in pools:
        part = usage.of(pool.id)
        total += len(pool.devices)
        used += sum(part.touches(device.name) for device in pool.devices)
    return used / total if total else 0.0


class _Situation:
    """How much is left of what each device belongs to."""

    def __init__(self, spots: Sequence[Spot], usage: Usage) -> None:
        self._usage = usage
        idle = [spot for spot in spots if not spot.part.touches(spot.device.name)]
        self._free = Counter(spot.pool.id for spot in idle)
        self._group_sizes = Counter(group for spot in spots for group in _groups(spot.device))
        self._group_free = Counter(group for spot in idle for group in _groups(spot.device))
        self._pool_sizes = Counter(spot.pool.id for spot in spots)

    def begun(self, spot: Spot) -> bool:
        """Whether a shared device has been opened."""
        return spot.part.touches(spot.device.name)

    def free(self, pool: Pool) -> int:
        return self._free[pool.id]

    def neighbours(self, device: Device) -> int:
        """Idle devices in the smallest real group the device is part of, such as those on its PCIe root."""
        whole = self._pool_sizes[device.id.pool_id]
        groups = [group for group in _groups(device) if 1 < self._group_sizes[group] < whole]
        return min((self._group_free[group] for group in groups), default=self._free[device.id.pool_id])

    def bite(self, spot: Spot) -> float:
        """How large a part of its counter sets the device takes."""
        return max((amount / total for total, amount, _ in self._draws(spot) if total), default=0.0)

    def left(self, spot: Spot) -> float:
        """How much of its counter sets is left."""
        return min((left / total for total, _, left in self._draws(spot) if total), default=1.0)

    def _draws(self, spot: Spot) -> Iterable[tuple[int, int, int]]:
        if not spot.device.draws:
            return
        left = counters.available(spot.pool, self._usage).left
        for (counter_set, name), amount in counters.drawn(spot.device):
            yield spot.pool.counter_sets[counter_set][name], amount, left[counter_set, name]


def _groups(device: Device) -> Iterable[tuple[object, ...]]:
    for name, value in (device.document.get("attributes") or {}).items():
        for kind in _TOPOLOGY:
            if (one := value.get(kind)) is not None:
                yield device.id.pool_id, name, one
