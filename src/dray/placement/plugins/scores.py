"""Upstream's scores of feasible nodes, each between 0 and 100; the weighted sum decides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
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


NodeScore = Callable[[NodeInfo], float]


@dataclass(frozen=True, slots=True)
class Scoring:
    """How a profile weighs its scores. ``most_allocated`` packs instead of spreading."""

    weights: Mapping[str, int] = field(default_factory=lambda: DEFAULT_WEIGHTS)
    most_allocated: bool = False
    quirks: PlacementQuirks = field(default_factory=PlacementQuirks)

    def for_pod(self, pod: PodInfo) -> NodeScore:
        """The scores of nodes for a pod, as far as they depend on one node alone."""
        fit = (most_allocated if self.most_allocated else least_allocated)(pod)
        balance = balanced_allocation(pod, self.quirks)
        of_fit = self.weights.get("NodeResourcesFit", 0)
        of_balance = self.weights.get("NodeResourcesBalancedAllocation", 0)
        if of_fit and of_balance:
            if not self.most_allocated and self.quirks.scores_balance_by_improvement:
                return _default_scores(pod, self.quirks, of_fit, of_balance)
            return lambda node: float(of_fit * fit(node) + of_balance * balance(node))
        return lambda node: float(
            (of_fit and of_fit * fit(node)) + (of_balance and of_balance * balance(node))
        )


def least_allocated(pod: PodInfo) -> NodeScore:
    """A node with more free cpu and memory scores higher."""
    wanted_cpu, wanted_memory = pod.score_cpu, pod.score_memory

    def score(node: NodeInfo) -> int:
        cpu, memory, _, _ = node.allocatable
        free_cpu = cpu - node.score_cpu - wanted_cpu
        free_memory = memory - node.score_memory - wanted_memory
        score = free_cpu * MAX // cpu if free_cpu > 0 else 0
        if free_memory > 0:
            score += free_memory * MAX // memory
        return score // 2

    return score


def most_allocated(pod: PodInfo) -> NodeScore:
    def score(node: NodeInfo) -> int:
        cpu = _used_share(node.allocatable.cpu, node.score_cpu + pod.score_cpu)
        memory = _used_share(node.allocatable.memory, node.score_memory + pod.score_memory)
        return (cpu + memory) // 2

    return score


def balanced_allocation(pod: PodInfo, quirks: PlacementQuirks) -> NodeScore:
    """Cpu and memory should be used in like proportion."""
    wanted_cpu, wanted_memory, _, _ = pod.requests
    if not quirks.scores_balance_without_requests and not (wanted_cpu or wanted_memory):
        return lambda node: 0
    by_improvement = quirks.scores_balance_by_improvement

    def score(node: NodeInfo) -> int:
        cpu, memory, _, _ = node.allocatable
        taken_cpu, taken_memory, _, _ = node.requested
        if not cpu or not memory:
            with_pod = without = MAX
        else:
            of_cpu, of_memory = (taken_cpu + wanted_cpu) / cpu, (taken_memory + wanted_memory) / memory
            with_pod = _balance(of_cpu, of_memory)
            without = _balance(taken_cpu / cpu, taken_memory / memory) if by_improvement else 0
        return MAX // 2 + (MAX // 2 + with_pod - without) // 2 if by_improvement else with_pod

    return score


def _default_scores(pod: PodInfo, quirks: PlacementQuirks, of_fit: int, of_balance: int) -> NodeScore:
    """``least_allocated`` and ``balanced_allocation`` in one function: most pods are scored by these two."""
    fit, balance = least_allocated(pod), balanced_allocation(pod, quirks)
    score_cpu, score_memory = pod.score_cpu, pod.score_memory
    wanted_cpu, wanted_memory, _, _ = pod.requests
    asks_nothing = not (wanted_cpu or wanted_memory)

    def score(node: NodeInfo) -> float:
        cpu, memory, _, _ = node.allocatable
        taken_cpu, taken_memory, _, _ = node.requested
        if (
            asks_nothing
            or not cpu
            or not memory
            or taken_cpu + wanted_cpu > cpu
            or taken_memory + wanted_memory > memory
        ):
            return float(of_fit * fit(node) + of_balance * balance(node))
        free_cpu = cpu - node.score_cpu - score_cpu
        free_memory = memory - node.score_memory - score_memory
        free = (free_cpu * MAX // cpu if free_cpu > 0 else 0) + (
            free_memory * MAX // memory if free_memory > 0 else 0
        )
        with_pod = (taken_cpu + wanted_cpu) / cpu - (taken_memory + wanted_memory) / memory
        without = taken_cpu / cpu - taken_memory / memory
        improved = int((1 - abs(with_pod) / 2) * MAX) - int((1 - abs(without) / 2) * MAX)
        return float(of_fit * (free // 2) + of_balance * (MAX // 2 + (MAX // 2 + improved) // 2))

    return score


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


def _used_share(capacity: int, used: int) -> int:
    return 0 if capacity == 0 else min(used, capacity) * MAX // capacity


def _balance(of_cpu: float, of_memory: float) -> int:
    difference = (of_cpu if of_cpu < 1.0 else 1.0) - (of_memory if of_memory < 1.0 else 1.0)
    return int((1 - abs(difference) / 2) * MAX)
