"""Fragmentation: how much of a node's free devices the typical pods of the workload could not use; and FGD.

A typical pod cannot use any of it if the node lacks cpu or devices for the pod. Otherwise it cannot use the devices
that have less left than its share. Fragmentation Gradient Descent (USENIX ATC'23) puts each pod where fragmentation
grows least.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from itertools import accumulate
from math import exp

from dray.placement.policies.model import (
    WHOLE,
    DevicePolicy,
    Kinds,
    NodeState,
    Request,
    Setting,
    TypicalRequest,
    Workload,
)

#: What is remembered of all states together, in bytes: some 130,000 states of nodes with eight devices.
_KEPT_BYTES = 64 << 20
_STATE_BYTES = 220  # and these for each device
_DEVICE_BYTES = 36


class Fragmentation:
    """The fragmentation of nodes under one workload, in thousandths of devices."""

    def __init__(self, workload: Workload) -> None:
        self._workload = workload
        self._version = -1
        self._by_kinds: dict[int, _OfKinds] = {}
        self._bytes = 0  # of what is remembered

    def of(self, node: NodeState) -> float:
        return self.after(node.kinds, node.cpu, node.free)

    def after(self, kinds: Kinds, cpu: int, free: tuple[int, ...]) -> float:
        """As if the node had this much cpu and these parts of its devices left."""
        if self._version != self._workload.version:
            self._version = self._workload.version
            self._forget()
        of_kinds = self._by_kinds.get(id(kinds))
        if of_kinds is None:
            of_kinds = self._by_kinds[id(kinds)] = _OfKinds(kinds, self._workload.typical)
        key = of_kinds.key(cpu, free)
        known = of_kinds.known.get(key)
        if known is None:
            known = of_kinds.known[key] = of_kinds.work_out(*key)
            self._bytes += _STATE_BYTES + _DEVICE_BYTES * len(free)
            if self._bytes > _KEPT_BYTES:
                self._forget()
        return known

    def _forget(self) -> None:
        self._by_kinds.clear()
        self._bytes = 0


class _OfKinds:
    """The typical requests as nodes with these devices see them."""

    __slots__ = ("_by_cpu", "_cpus", "_mixed", "kinds", "known")

    def __init__(self, kinds: Kinds, typical: Sequence[TypicalRequest]) -> None:
        self.kinds = kinds  # kept, so that nobody else gets its identity
        self.known: dict[tuple[int, tuple[int, ...]], float] = {}  # what was worked out, by ``key``
        self._cpus = sorted({one.request.cpu for one in typical})
        #: where devices differ, each is looked at by itself
        self._mixed = len(set(kinds)) > 1
        #: for each range of free cpu: (share, count, frequency) of the requests that have enough cpu and may use the
        #: devices, and the frequency of all others
        self._by_cpu = [self._usable(typical, level) for level in range(len(self._cpus) + 1)]

    def _usable(
        self, typical: Sequence[TypicalRequest], level: int
    ) -> tuple[list[tuple[tuple[int | None, ...], int, int, float]], float]:
        enough = self._cpus[level - 1] if level else -1
        found: dict[tuple[tuple[int | None, ...], int], float] = {}
        others = 0.0
        for request, frequency in typical:
            shares = request.shares(self.kinds)
            if not request.count or request.cpu > enough or all(share is None for share in shares):
                others += frequency
            else:
                found[shares, request.count] = found.get((shares, request.count), 0.0) + frequency
        return [
            (shares, next(s for s in shares if s is not None), count, frequency)
            for (shares, count), frequency in found.items()
        ], others

    def key(self, cpu: int, free: tuple[int, ...]) -> tuple[int, tuple[int, ...]]:
        """What the amount follows from: how many typical requests have enough cpu, and what is left of the devices."""
        return bisect_right(self._cpus, cpu), free if self._mixed else tuple(sorted(free))

    def work_out(self, level: int, free: tuple[int, ...]) -> float:
        usable, others = self._by_cpu[level]
        total = sum(free)
        amount = others * total
        if self._mixed:
            for shares, _, count, frequency in usable:
                fitting = [f for f, s in zip(free, shares, strict=True) if s is not None and f >= s]
                unused = total - sum(fitting) if len(fitting) >= count else total
                amount += frequency * unused
            return amount
        sums = (0, *accumulate(free))  # of the devices with the least left
        number = len(free)
        for _, share, count, frequency in usable:
            position = bisect_left(free, share)
            amount += frequency * (sums[position] if number - position >= count else total)
        return amount


class FGD(DevicePolicy):
    """The node and the device on which fragmentation grows least."""

    name = "fgd"
    uses_workload = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.fragmentation = Fragmentation(setting.workload)

    def score(self, request: Request, node: NodeState) -> float:
        before = self.fragmentation.of(node)
        if is_share(request, node):
            return max(
                (self._gain(before, request, node, position)[0] for position in _distinct(request, node)),
                default=0,
            )
        free = without_idle(node.free, request.count)
        after = self.fragmentation.after(node.kinds, node.cpu - request.cpu, free)
        return gradient(before - after)

    def _gain(self, before: float, request: Request, node: NodeState, position: int) -> tuple[int, float]:
        share = request.shares(node.kinds)[position] or 0
        free = node.free
        left = (*free[:position], free[position] - share, *free[position + 1 :])
        decrease = before - self.fragmentation.after(node.kinds, node.cpu - request.cpu, left)
        return gradient(decrease), decrease

    def order(self, request: Request, node: NodeState) -> Sequence[int] | None:
        if not is_share(request, node):
            return None
        before = self.fragmentation.of(node)
        gains = {
            (node.free[p], node.kinds[p]): self._gain(before, request, node, p)[0]
            for p in _distinct(request, node)
        }
        return sorted(range(len(node.free)), key=lambda p: -gains.get((node.free[p], node.kinds[p]), -1))


def is_share(request: Request, node: NodeState) -> bool:
    return request.count == 1 and request.share(node.kinds) < WHOLE


def _distinct(request: Request, node: NodeState) -> list[int]:
    """The devices that have enough left, one of each kind and free part."""
    shares = request.shares(node.kinds)
    found = {
        (free, kind): position
        for position, (free, kind) in reversed(list(enumerate(zip(node.free, node.kinds, strict=True))))
        if (share := shares[position]) is not None and free >= share
    }
    return list(found.values())


def without_idle(free: tuple[int, ...], count: int) -> tuple[int, ...]:
    """What is left when so many idle devices are taken, the first ones."""
    if not count:
        return free
    left = list(free)
    for position, one in enumerate(free):
        if one == WHOLE:
            left[position] = 0
            count -= 1
            if not count:
                break
    return tuple(left)


def gradient(decrease: float) -> int:
    """The score of a decrease of fragmentation."""
    return int(100 / (1 + exp(-decrease / WHOLE)))
