"""Upstream's PodTopologySpread, with the default constraints for the pods of a Service, ReplicaSet or StatefulSet."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from dray.api import nodeaffinity
from dray.api.objects import controller_of
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo, with_label_keys
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.apps import ReplicaSet, StatefulSet
    from dray.api.types.core import Service, TopologySpreadConstraint
    from dray.api.types.meta import LabelSelector, LabelSelectorRequirement

_SPREAD = Rejection("PodTopologySpread", ("node(s) didn't match pod topology spread constraints",))
_SPREAD_LABEL = Rejection(
    "PodTopologySpread",
    ("node(s) didn't match pod topology spread constraints (missing required label)",),
    resolvable=False,
)
#: upstream's constraints for pods that have none themselves
SYSTEM_DEFAULT_CONSTRAINTS: tuple[TopologySpreadConstraint, ...] = (
    {"topologyKey": "kubernetes.io/hostname", "maxSkew": 3, "whenUnsatisfiable": "ScheduleAnyway"},
    {"topologyKey": "topology.kubernetes.io/zone", "maxSkew": 5, "whenUnsatisfiable": "ScheduleAnyway"},
)


T_co = TypeVar("T_co", bound="Object", covariant=True)


class Lister(Protocol[T_co]):
    """The objects of one kind, as an informer has them."""

    def get(self, namespace: str, name: str) -> T_co | None: ...
    def items(self) -> Iterable[T_co]: ...


class DefaultSelectors:
    """The selectors of what a pod belongs to; the default constraints count the pods that these match."""

    def __init__(
        self,
        *,
        services: Lister[Service],
        replica_sets: Lister[ReplicaSet],
        stateful_sets: Lister[StatefulSet],
    ) -> None:
        self._services = services
        self._replica_sets = replica_sets
        self._stateful_sets = stateful_sets

    def selector(self, pod: PodInfo) -> LabelSelector | None:
        labels: dict[str, str] = {}
        for service in self._services.items():
            if service["metadata"]["namespace"] == pod.namespace:
                chosen = (service.get("spec") or {}).get("selector")
                if chosen and all(pod.labels.get(k) == v for k, v in chosen.items()):
                    labels |= chosen
        expressions: list[LabelSelectorRequirement] = []
        owner = controller_of(pod.document)
        document: ReplicaSet | StatefulSet | None = None
        if owner is not None and owner["kind"] == "ReplicaSet":
            document = self._replica_sets.get(pod.namespace, owner["name"])
        elif owner is not None and owner["kind"] == "StatefulSet":
            document = self._stateful_sets.get(pod.namespace, owner["name"])
        if document is not None:
            selector = (document.get("spec") or {}).get("selector") or {}
            labels |= selector.get("matchLabels") or {}
            expressions += selector.get("matchExpressions") or ()
        if not labels and not expressions:
            return None
        return {"matchLabels": labels, "matchExpressions": expressions}


def spread_constraints(
    pod: PodInfo,
    owners: DefaultSelectors,
    defaults: Sequence[TopologySpreadConstraint] = SYSTEM_DEFAULT_CONSTRAINTS,
) -> list[SpreadConstraint]:
    """The pod's own constraints, or the default ones for what it belongs to."""
    if pod.spread:
        return [SpreadConstraint.of(spec, pod.labels) for spec in pod.spread]
    if not pod.labels or not defaults:
        return []
    selector = owners.selector(pod)
    if selector is None:
        return []
    return [SpreadConstraint.of({**spec, "labelSelector": selector}, pod.labels) for spec in defaults]


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """A topology spread constraint with its selector compiled."""

    key: str
    skew: int
    hard: bool
    matches: nodeaffinity.LabelTest
    min_domains: int
    honour_affinity: bool
    honour_taints: bool

    @classmethod
    def of(cls, spec: TopologySpreadConstraint, labels: nodeaffinity.Labels) -> SpreadConstraint:
        selector = spec.get("labelSelector")
        if selector is not None:
            selector = with_label_keys(selector, labels, spec.get("matchLabelKeys"), "In")
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
    """Topology spread of one pod: how many pods match in each domain."""

    def __init__(
        self, pod: PodInfo, nodes: Iterable[NodeInfo], constraints: Iterable[SpreadConstraint]
    ) -> None:
        self._pod = pod
        constraints = tuple(constraints)
        self._hard = tuple(c for c in constraints if c.hard)
        self._soft = tuple(c for c in constraints if not c.hard)
        self._domains: dict[SpreadConstraint, Counter[str]] = {c: Counter() for c in constraints}
        self._matching: dict[tuple[SpreadConstraint, str], int] = {}
        for node in nodes:
            for group in (self._hard, self._soft):
                if any(c.key not in node.labels for c in group):
                    continue  # a node without one of the keys is in no domain
                for c in group:
                    if c.counts(pod, node):
                        matching = _count_matching_pods(pod, node.pods.values(), c)
                        self._domains[c][node.labels[c.key]] += matching
                        self._matching[(c, node.name)] = matching

    def without(self, gone: Collection[PodInfo], node: NodeInfo) -> PodTopologySpread:
        """The counts without some pods of a node; for filtering only."""
        new = copy(self)
        new._domains = dict(self._domains)
        for c in self._hard:
            if (c, node.name) in self._matching and (fewer := _count_matching_pods(self._pod, gone, c)):
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
        """Fewer matching pods score higher; a key weighs by the logarithm of the number of its domains, as upstream."""
        nodes = list(nodes)
        placed = [n for n in nodes if all(c.key in n.labels for c in self._soft)]
        raw: dict[str, float] = {}
        for node in placed:
            total = 0.0
            for c in self._soft:
                if c.key == "kubernetes.io/hostname":
                    size, count = len(placed), self._matching.get((c, node.name), 0)
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
    """How many of the pods the constraint counts."""
    return sum(
        1
        for other in others
        if other.namespace == pod.namespace and not other.terminating and constraint.matches(other.labels)
    )
