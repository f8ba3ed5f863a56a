"""Policies from the literature on GPU sharing: Random, BestFit, DotProd, GpuPacking and GpuClustering.

They score as the simulator of "Beware of Fragmentation" (USENIX ATC'23) does, so that results can be compared: scores
are whole numbers, and cpu and devices are measured against a machine of 128 cores and 8 devices.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.placement.policies.model import WHOLE, DevicePolicy, Held, NodeState, Request

_MAX_CPU = 128_000
_MAX_DEVICES = 8 * WHOLE


def fullest_first(node: NodeState) -> Sequence[int]:
    """The devices with the least left first; the allocator passes over those that have too little."""
    free = node.free
    return sorted(range(len(free)), key=free.__getitem__)


class Random(DevicePolicy):
    """Any node, and on it any device."""

    name = "random"
    draws_node = True
    draws_devices = True


class BestFit(DevicePolicy):
    """The node on which the least cpu and devices are left, and the fullest device."""

    name = "bestfit"

    def score(self, request: Request, node: NodeState) -> float:
        left = (node.cpu - request.cpu) / _MAX_CPU * 0.5
        left += (node.total_free - request.total(node.kinds)) / _MAX_DEVICES * 0.5
        return int((1.0 - left) * 100)

    def order(self, request: Request, node: NodeState) -> Sequence[int]:
        return fullest_first(node)


class DotProd(DevicePolicy):
    """The node whose free cpu and devices point least in the direction of the request, and the fullest device."""

    name = "dotprod"

    def score(self, request: Request, node: NodeState) -> float:
        cpu = (node.cpu / _MAX_CPU) * (request.cpu / _MAX_CPU)
        devices = (node.total_free / _MAX_DEVICES) * (request.total(node.kinds) / _MAX_DEVICES)
        return int(100 * (1 - (cpu + devices) / 2))

    def order(self, request: Request, node: NodeState) -> Sequence[int]:
        return fullest_first(node)


class GpuPacking(DevicePolicy):
    """Devices in use first, the fuller the better; then nodes in use, the fewer idle devices the better; then others."""

    name = "gpupacking"

    def score(self, request: Request, node: NodeState) -> float:
        if not request.count:
            return 0
        free = node.free
        idle = free.count(WHOLE)
        if idle == len(free):
            return max(33 - idle, idle)
        missing, from_idle, left = request.count, 0, 0
        shares = request.shares(node.kinds)
        for position in fullest_first(node):
            share = shares[position]
            if share is not None and share <= free[position]:
                missing -= 1
                from_idle += free[position] == WHOLE
                left += free[position] * 100 // WHOLE
                if not missing:
                    break
        if from_idle:
            return max(50 - from_idle, 33)
        return max(100 - left // 10, 50)

    def order(self, request: Request, node: NodeState) -> Sequence[int]:
        return fullest_first(node)


class GpuClustering(DevicePolicy):
    """Nodes with like requests alone, then with like requests among others, then idle ones, then the rest."""

    name = "gpuclustering"
    sees_claims = True

    def score(self, request: Request, node: NodeState) -> float:
        if not request.count:
            return 0
        whole = request.share(node.kinds) >= WHOLE
        like = Held(request.count, whole)
        if like in node.held:
            base = 75 if len(node.held) == 1 else 50
        else:
            base = 0 if node.held else 25
        return 25 * (_MAX_DEVICES - node.total_free) // _MAX_DEVICES + base

    def order(self, request: Request, node: NodeState) -> Sequence[int]:
        return fullest_first(node)
