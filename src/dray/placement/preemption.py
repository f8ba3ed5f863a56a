"""Upstream's DefaultPreemption: which pods of lower priority are evicted, and from which node.

Pure: the caller evicts the victims. ``fits`` says what an eviction frees: resources and ports, as upstream, and beyond
upstream, where a profile asks for it, the devices of claims that no other pod uses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.api import nodeaffinity
from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.status import Rejection, fit_error_message

if TYPE_CHECKING:
    from dray.api.types.policy import PodDisruptionBudget, PodDisruptionBudgetStatus

NOT_HELPFUL = Rejection("DefaultPreemption", ("Preemption is not helpful for scheduling",), resolvable=False)
_NO_VICTIMS = Rejection(
    "DefaultPreemption", ("No preemption victims found for incoming pod",), resolvable=False
)

#: upstream compares this many nodes, and no more
_MIN_CANDIDATES_PERCENT, _MIN_CANDIDATES = 10, 100

Fits = Callable[[NodeInfo], Rejection | None]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node with the pods that have to be evicted from it, most important first."""

    node: str
    victims: tuple[PodInfo, ...]
    violations: int = 0


@dataclass(frozen=True, slots=True)
class NoCandidate:
    """Preempting would not help; ``message`` says why, node by node."""

    message: str
    eligible: bool = True  # whether the pod may preempt others now; if not, it keeps its nominated node


@dataclass(frozen=True, slots=True)
class DisruptionBudget:
    """A PodDisruptionBudget with its selector compiled."""

    namespace: str
    matches: nodeaffinity.LabelTest
    allowed: int
    disrupted: frozenset[str] = field(default_factory=frozenset)

    @classmethod
    def of(cls, pdb: PodDisruptionBudget) -> DisruptionBudget:
        status: PodDisruptionBudgetStatus = pdb.get("status") or {}
        selector = (pdb.get("spec") or {}).get("selector")
        return cls(
            namespace=pdb["metadata"]["namespace"],
            matches=nodeaffinity.label_selector(selector),
            allowed=status.get("disruptionsAllowed") or 0,
            disrupted=frozenset(status.get("disruptedPods") or ()),
        )


def preempt(
    pod: PodInfo,
    cluster: ClusterCache,
    rejections: Mapping[str, Rejection],
    *,
    fits: Callable[[NodeInfo], Rejection | None],
    budgets: Sequence[DisruptionBudget] = (),
    resolvable: Callable[[Rejection], bool] = lambda r: r.resolvable,
    awaited: bool = False,
    worth: Callable[[PodInfo], int] = lambda p: 0,
) -> Candidate | NoCandidate:
    """``fits`` filters a copy of a node without some of its pods.

    ``awaited``: devices that an earlier preemption frees for the pod are not free yet. ``worth``: how many devices the
    eviction of a victim frees; of equally important victims those that free more are evicted, so that fewer are.
    """
    if pod.document["spec"].get("preemptionPolicy") == "Never":
        return NoCandidate("not eligible due to preemptionPolicy=Never.", eligible=False)
    if awaited or _has_terminating_victims(pod, cluster, rejections, resolvable):
        return NoCandidate("not eligible due to a terminating pod on the nominated node.", eligible=False)
    verdicts: dict[str, Rejection] = {node.name: NOT_HELPFUL for node in cluster}
    candidates: list[Candidate] = []
    enough = max(len(cluster) * _MIN_CANDIDATES_PERCENT // 100, _MIN_CANDIDATES)
    for node in cluster:
        rejection = rejections.get(node.name)
        if rejection is None or not resolvable(rejection):
            continue
        match _select_victims(pod, node, fits, budgets, worth):
            case Candidate() as candidate:
                candidates.append(candidate)
                if len(candidates) >= enough and not all(c.violations for c in candidates):
                    break
            case verdict:
                verdicts[node.name] = verdict
    if not candidates:
        return NoCandidate(fit_error_message(len(cluster), verdicts.values()))
    return min(candidates, key=_candidate_order)


def more_important_first(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """Higher priority first; of equals, the one that has run longer."""
    return sorted(pods, key=lambda p: (-p.priority, _started(p)))


def _has_terminating_victims(
    pod: PodInfo,
    cluster: ClusterCache,
    rejections: Mapping[str, Rejection],
    resolvable: Callable[[Rejection], bool],
) -> bool:
    node = cluster.get(pod.nominated_node) if pod.nominated_node else None
    if node is None:
        return False
    rejection = rejections.get(node.name)
    if rejection is not None and not resolvable(rejection):
        return False
    return any(p.priority < pod.priority and terminating_by_preemption(p) for p in node.pods.values())


def terminating_by_preemption(pod: PodInfo) -> bool:
    if not pod.terminating:
        return False
    for condition in (pod.document.get("status") or {}).get("conditions") or ():
        if condition.get("type") == "DisruptionTarget":
            return condition.get("status") == "True" and condition.get("reason") == "PreemptionByScheduler"
    return False


def _select_victims(
    pod: PodInfo,
    node: NodeInfo,
    fits: Fits,
    budgets: Sequence[DisruptionBudget],
    worth: Callable[[PodInfo], int],
) -> Candidate | Rejection:
    lower = [p for p in node.pods.values() if p.priority < pod.priority]
    if not lower:
        return _NO_VICTIMS
    gone = {p.uid for p in lower}
    rejection = fits(node.without(frozenset(gone)))
    if rejection is not None:
        return rejection
    ordered = sorted(lower, key=lambda p: (-p.priority, worth(p), _started(p)))
    violating, others = split_by_pdb_violation(ordered, budgets)
    victims: list[PodInfo] = []
    violations = 0
    for candidate in (*violating, *others):
        # Reprieve as many victims as possible, the most important first.
        if fits(node.without(frozenset(gone - {candidate.uid}))) is None:
            gone.discard(candidate.uid)
        else:
            victims.append(candidate)
            violations += candidate in violating
    if not victims:
        return _NO_VICTIMS  # the node was not rejected because of its pods
    return Candidate(node.name, tuple(more_important_first(victims)), violations)


def split_by_pdb_violation(
    pods: Sequence[PodInfo], budgets: Sequence[DisruptionBudget]
) -> tuple[list[PodInfo], list[PodInfo]]:
    left = [b.allowed for b in budgets]
    violating: list[PodInfo] = []
    others: list[PodInfo] = []
    for pod in pods:
        violates = False
        for i, budget in enumerate(budgets):
            if (
                budget.namespace == pod.namespace
                and pod.labels
                and budget.matches(pod.labels)
                and pod.name not in budget.disrupted
            ):
                left[i] -= 1
                violates |= left[i] < 0
        (violating if violates else others).append(pod)
    return violating, others


def _candidate_order(candidate: Candidate) -> tuple[int, int, int, int, _LatestFirst]:
    """Fewest violated budgets, lowest top priority, lowest sum of priorities, fewest pods, latest start."""
    victims = candidate.victims
    top = max((p.priority for p in victims), default=-(2**31))
    total = sum(p.priority + 2**31 for p in victims)
    earliest = min((_started(p) for p in victims if p.priority == top), default="")
    return candidate.violations, top, total, len(victims), _LatestFirst(earliest)


class _LatestFirst:
    """Orders later times first."""

    __slots__ = ("when",)

    def __init__(self, when: str) -> None:
        self.when = when

    def __lt__(self, other: _LatestFirst) -> bool:
        return self.when > other.when

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _LatestFirst) and self.when == other.when

    def __hash__(self) -> int:
        return hash(self.when)


def _started(pod: PodInfo) -> str:
    return (pod.document.get("status") or {}).get("startTime") or pod.created
