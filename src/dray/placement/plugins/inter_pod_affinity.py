"""Filters and scores that look at other pods: inter-pod affinity and topology spread.

Counts are gathered once per attempt over the whole cluster (``Affinity``, ``Spread``); after that every node is a
look-up.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from copy import copy
from dataclasses import dataclass
from typing import Any

from dray.api import nodeaffinity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import AffinityTerm, PodInfo
from dray.placement.status import Rejection

Namespaces = Mapping[str, nodeaffinity.Labels]
Topology = tuple[str, str]  # (key, value)

_EXISTING = Rejection("InterPodAffinity", ("node(s) didn't satisfy existing pods anti-affinity rules",))
_AFFINITY = Rejection("InterPodAffinity", ("node(s) didn't match pod affinity rules",), resolvable=False)
_ANTI = Rejection("InterPodAffinity", ("node(s) didn't match pod anti-affinity rules",))
_SPREAD = Rejection("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",))
_SPREAD_LABEL = Rejection(
    "PodTopologySpread",
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    resolvable=False,
)


class InterPodAffinity:
    """Inter-pod affinity of one pod against everything that is placed."""

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
                self._meet(other, node, self._forbidden, self._wanted, self._unwanted)
                self._score(pod, other, node, namespaces, hard_weight)

    def without(self, gone: Iterable[PodInfo], node: NodeInfo) -> InterPodAffinity:
        """The same if these were not on their node; for filtering only."""
        forbidden, wanted, unwanted = Counter[Topology](), Counter[Topology](), Counter[Topology]()
        for other in gone:
            self._meet(other, node, forbidden, wanted, unwanted)
        new = copy(self)
        new._forbidden = self._forbidden - forbidden
        new._wanted = self._wanted - wanted
        new._unwanted = self._unwanted - unwanted
        return new

    def _meet(
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
            # The first pod of a group that wants to be near its own kind may start anywhere.
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


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One topology spread constraint, ready to be asked."""

    key: str
    skew: int
    hard: bool
    matches: nodeaffinity.LabelTest
    min_domains: int
    honour_affinity: bool
    honour_taints: bool

    @classmethod
    def of(cls, spec: Mapping[str, Any], labels: nodeaffinity.Labels) -> SpreadConstraint:
        selector = spec.get("labelSelector")
        extra = [
            {"key": k, "operator": "In", "values": [labels[k]]}
            for k in spec.get("matchLabelKeys") or ()
            if k in labels
        ]
        if selector is not None and extra:
            selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
        return cls(
            key=spec["topologyKey"],
            skew=spec.get("maxSkew") or 1,
            hard=(spec.get("whenUnsatisfiable") or "DoNotSchedule") == "DoNotSchedule",
            matches=nodeaffinity.label_selector(selector),
            min_domains=spec.get("minDomains") or 1,
            honour_affinity=(spec.get("nodeAffinityPolicy") or "Honor") == "Honor",
            honour_taints=(spec.get("nodeTaintsPolicy") or "Ignore") == "Honor",
        )

    def counts(self, pod: PodInfo, node: NodeInfo) -> bool:
        """Whether the node takes part in the count for this pod."""
        if self.honour_affinity and pod.node_test is not None and not pod.node_test(node.name, node.labels):
            return False
        return not (
            self.honour_taints
            and nodeaffinity.find_untolerated_taint(node.taints, pod.tolerations, ("NoSchedule", "NoExecute"))
            is not None
        )


class PodTopologySpread:
    """Topology spread of one pod: how many alike it are in each domain."""

    def __init__(
        self, pod: PodInfo, nodes: Iterable[NodeInfo], constraints: Iterable[SpreadConstraint]
    ) -> None:
        self._pod = pod
        constraints = tuple(constraints)
        self._hard = tuple(c for c in constraints if c.hard)
        self._soft = tuple(c for c in constraints if not c.hard)
        self._domains: dict[SpreadConstraint, Counter[str]] = {c: Counter() for c in constraints}
        self._alike: dict[tuple[SpreadConstraint, str], int] = {}
        for node in nodes:
            for group in (self._hard, self._soft):
                if any(c.key not in node.labels for c in group):
                    continue  # a node that lacks one of the keys is in no domain at all
                for c in group:
                    if c.counts(pod, node):
                        alike = _count_matching_pods(pod, node.pods.values(), c)
                        self._domains[c][node.labels[c.key]] += alike
                        self._alike[(c, node.name)] = alike

    def without(self, gone: Collection[PodInfo], node: NodeInfo) -> PodTopologySpread:
        """The same if these were not on their node; for filtering only."""
        new = copy(self)
        new._domains = dict(self._domains)
        for c in self._hard:
            if (c, node.name) in self._alike and (fewer := _count_matching_pods(self._pod, gone, c)):
                new._domains[c] = domains = Counter(self._domains[c])
                domains[node.labels[c.key]] -= fewer
        return new

    def reject(self, node: NodeInfo) -> Rejection | None:
        for c in self._hard:
            value = node.labels.get(c.key)
            if value is None:
                return _SPREAD_LABEL
            domains = self._domains[c]
            least = min(domains.values(), default=0) if len(domains) >= c.min_domains else 0
            if domains[value] + c.matches(self._pod.labels) - least > c.skew:
                return _SPREAD
        return None

    @property
    def scores_matter(self) -> bool:
        return bool(self._soft)

    def scores(self, nodes: Iterable[NodeInfo]) -> dict[str, int]:
        """Fewer alike is better; domains weigh by the logarithm of their number, as upstream does."""
        nodes = list(nodes)
        placed = [n for n in nodes if all(c.key in n.labels for c in self._soft)]
        raw: dict[str, float] = {}
        for node in placed:
            total = 0.0
            for c in self._soft:
                if c.key == "kubernetes.io/hostname":
                    size, count = len(placed), self._alike.get((c, node.name), 0)
                else:
                    size, count = len({n.labels[c.key] for n in placed}), self._domains[c][node.labels[c.key]]
                total += count * math.log(size + 2) + (c.skew - 1)
            raw[node.name] = round(total)
        if not raw:
            return {n.name: 0 for n in nodes}
        low, high = min(raw.values()), max(raw.values())
        return {
            n.name: 0
            if n.name not in raw
            else 100
            if high == 0
            else int(100 * (high + low - raw[n.name]) / high)
            for n in nodes
        }


def _count_matching_pods(pod: PodInfo, others: Iterable[PodInfo], constraint: SpreadConstraint) -> int:
    """How many of them count as being of the pod's kind."""
    return sum(
        1
        for other in others
        if other.namespace == pod.namespace and not other.terminating and constraint.matches(other.labels)
    )
