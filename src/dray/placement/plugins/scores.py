"""Upstream's scores of feasible nodes, each between 0 and 100; the weighted sum decides."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from dray.api import nodeaffinity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.quirks import PlacementQuirks

MAX = 100

DEFAULT_WEIGHTS: Mapping[str, int] = {
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodeResourcesFit": 1,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "NodeResourcesBalancedAllocation": 1,
    "DynamicResources": 2,
}


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a profile weighs its scores. ``most_allocated`` packs instead of spreading."""

    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    most_allocated: bool = False
    quirks: PlacementQuirks = field(default_factory=PlacementQuirks)

    def of_node(self, pod: PodInfo, node: NodeInfo) -> float:
        """The part of the score that depends on this node alone."""
        weights = self.weights
        score = 0.0
        if weight := weights.get("NodeResourcesFit", 0):
            score += weight * (most_allocated if self.most_allocated else least_allocated)(pod, node)
        if weight := weights.get("NodeResourcesBalancedAllocation", 0):
            score += weight * balanced_allocation(pod, node, self.quirks)
        return score


def least_allocated(pod: PodInfo, node: NodeInfo) -> int:
    """A node with more free cpu and memory scores higher."""
    cpu = _free_share(node.allocatable.cpu, node.score_cpu + pod.score_cpu)
    memory = _free_share(node.allocatable.memory, node.score_memory + pod.score_memory)
    return (cpu + memory) // 2


def most_allocated(pod: PodInfo, node: NodeInfo) -> int:
    cpu = _used_share(node.allocatable.cpu, node.score_cpu + pod.score_cpu)
    memory = _used_share(node.allocatable.memory, node.score_memory + pod.score_memory)
    return (cpu + memory) // 2


def balanced_allocation(pod: PodInfo, node: NodeInfo, quirks: PlacementQuirks) -> int:
    """Cpu and memory should be used in like proportion."""
    if not quirks.scores_balance_without_requests and not (pod.requests.cpu or pod.requests.memory):
        return 0
    with_pod = _balance(
        node, node.requested.cpu + pod.requests.cpu, node.requested.memory + pod.requests.memory
    )
    if not quirks.scores_balance_by_improvement:
        return with_pod
    without = _balance(node, node.requested.cpu, node.requested.memory)
    return MAX // 2 + (MAX // 2 + with_pod - without) // 2


def preferred_nodes(pod: PodInfo, node: NodeInfo) -> int:
    return sum(weight for weight, test in pod.preferred_nodes if test(node.name, node.labels))


def untolerated_soft_taints(pod: PodInfo, node: NodeInfo) -> int:
    """How many soft taints the pod does not tolerate."""
    return sum(
        1
        for taint in node.taints
        if taint.get("effect") == "PreferNoSchedule"
        and not any(
            nodeaffinity.tolerates(t, taint) for t in pod.tolerations if (t.get("effect") or "PreferNoSchedule") == "PreferNoSchedule"
        )
    )  # fmt: skip


def normalised(scores: Mapping[str, int], *, reverse: bool = False) -> dict[str, int]:
    """Scaled so that the best node has 100."""
    high = max(scores.values(), default=0)
    if high == 0:
        return dict.fromkeys(scores, MAX if reverse else 0)
    stretched = {name: MAX * value // high for name, value in scores.items()}
    return {name: MAX - value for name, value in stretched.items()} if reverse else stretched


def _free_share(capacity: int, used: int) -> int:
    return 0 if capacity == 0 or used > capacity else (capacity - used) * MAX // capacity


def _used_share(capacity: int, used: int) -> int:
    return 0 if capacity == 0 else min(used, capacity) * MAX // capacity


def _balance(node: NodeInfo, cpu: int, memory: int) -> int:
    shares = [
        min(used / capacity, 1.0)
        for used, capacity in ((cpu, node.allocatable.cpu), (memory, node.allocatable.memory))
        if capacity
    ]
    if len(shares) < 2:
        return MAX
    return int((1 - math.fabs(shares[0] - shares[1]) / 2) * MAX)
