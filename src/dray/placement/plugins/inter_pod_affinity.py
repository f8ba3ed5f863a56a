"""Upstream's InterPodAffinity. Pods are counted once per attempt over the whole cluster; then each node is a look-up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from copy import copy

from dray.api import nodeaffinity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import AffinityTerm, PodInfo
from dray.placement.status import Rejection

Namespaces = Mapping[str, nodeaffinity.Labels]
Topology = tuple[str, str]  # (key, value)

_EXISTING = Rejection("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",))
_AFFINITY = Rejection("InterPodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
_ANTI = Rejection("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",))


class InterPodAffinity:
    """Inter-pod affinity of one pod and of all pods that run already."""

    def __init__(
        self, pod: PodInfo, nodes: Iterable[NodeInfo], namespaces: Namespaces, *, hard_weight: int = 1
    ) -> None:
        self._pod = pod
        self._namespaces = namespaces
        self._forbidden: Counter[Topology] = Counter()
        self._wanted: Counter[Topology] = Counter()
        self._unwanted: Counter[Topology] = Counter()
        self._scores: defaultdict[Topology, int] = defaultdict(int)
        self._self_match = bool(pod.affinity) and all(t.matches(pod, namespaces) for t in pod.affinity)
        for node in nodes:
            for other in node.pods.values():
                self._count(other, node, self._forbidden, self._wanted, self._unwanted)
                self._score(pod, other, node, namespaces, hard_weight)

    def without(self, gone: Iterable[PodInfo], node: NodeInfo) -> InterPodAffinity:
        """The counts without some pods of a node; for filtering only."""
        forbidden, wanted, unwanted = Counter[Topology](), Counter[Topology](), Counter[Topology]()
        for other in gone:
            self._count(other, node, forbidden, wanted, unwanted)
        new = copy(self)
        new._forbidden = self._forbidden - forbidden
        new._wanted = self._wanted - wanted
        new._unwanted = self._unwanted - unwanted
        return new

    def _count(
        self,
        other: PodInfo,
        node: NodeInfo,
        forbidden: Counter[Topology],
        wanted: Counter[Topology],
        unwanted: Counter[Topology],
    ) -> None:
        pod, namespaces = self._pod, self._namespaces
        for topology in _topologies(other.anti_affinity, node, pod, namespaces):
            forbidden[topology] += 1
        if pod.affinity and all(t.matches(other, namespaces) for t in pod.affinity):
            for term in pod.affinity:
                if term.topology_key in node.labels:
                    wanted[(term.topology_key, node.labels[term.topology_key])] += 1
        for topology in _topologies(pod.anti_affinity, node, other, namespaces):
            unwanted[topology] += 1

    def _score(
        self, pod: PodInfo, other: PodInfo, node: NodeInfo, namespaces: Namespaces, hard_weight: int
    ) -> None:
        for terms, sign, subject in (
            (pod.preferred_affinity, 1, other),
            (pod.preferred_anti_affinity, -1, other),
            (other.preferred_affinity, 1, pod),
            (other.preferred_anti_affinity, -1, pod),
        ):
            for term in terms:
                if term.topology_key in node.labels and term.matches(subject, namespaces):
                    self._scores[(term.topology_key, node.labels[term.topology_key])] += sign * term.weight
        if hard_weight and other.affinity:
            for topology in _topologies(other.affinity, node, pod, namespaces):
                self._scores[topology] += hard_weight

    def reject(self, node: NodeInfo) -> Rejection | None:
        labels = node.labels
        if self._pod.affinity:
            if any(t.topology_key not in labels for t in self._pod.affinity):
                return _AFFINITY
            met = all(self._wanted[(t.topology_key, labels[t.topology_key])] for t in self._pod.affinity)
            # The first pod of a group with affinity to itself may run anywhere.
            first = not self._wanted and self._self_match
            if not met and not first:
                return _AFFINITY
        for term in self._pod.anti_affinity:
            if self._unwanted[(term.topology_key, labels.get(term.topology_key, ""))]:
                return _ANTI
        if self._forbidden and any((k, v) in self._forbidden for k, v in labels.items()):
            return _EXISTING
        return None

    @property
    def scores_matter(self) -> bool:
        return bool(self._scores)

    def score(self, node: NodeInfo) -> int:
        return sum(self._scores.get((k, v), 0) for k, v in node.labels.items())


def normalise_affinity(scores: Mapping[str, int]) -> dict[str, int]:
    low, high = min(scores.values()), max(scores.values())
    if high == low:
        return dict.fromkeys(scores, 0)
    return {name: int(100 * (value - low) / (high - low)) for name, value in scores.items()}


def _topologies(
    terms: Iterable[AffinityTerm], node: NodeInfo, subject: PodInfo, namespaces: Namespaces
) -> list[Topology]:
    return [
        (t.topology_key, node.labels[t.topology_key])
        for t in terms
        if t.topology_key in node.labels and t.matches(subject, namespaces)
    ]
