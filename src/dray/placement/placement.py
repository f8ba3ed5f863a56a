"""Finding a node for a pod: from the ``ShapeIndex`` where nodes can be scored one by one, else by a scan of the nodes.

Pods whose score depends on other nodes or other pods need the scan, which stops after enough feasible nodes as
upstream's does.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, TypeAlias

from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.nominator import Nominator
from dray.placement.plugins import dynamic_resources, filters, scores
from dray.placement.plugins.inter_pod_affinity import InterPodAffinity, Namespaces, normalise_affinity
from dray.placement.plugins.pod_topology_spread import PodTopologySpread, SpreadConstraint
from dray.placement.policies.ties import Ties
from dray.placement.quirks import PlacementQuirks
from dray.placement.shape_index import ShapeIndex
from dray.placement.status import Diagnosis, Rejection, ScheduleResult

if TYPE_CHECKING:
    from dray.api.types.core import TopologySpreadConstraint
    from dray.placement.claims import ClaimAttempt, ClaimPlan
    from dray.placement.policies.model import NodeState, Request
    from dray.placement.policies.scorer import Scorer

#: below this many nodes every node is filtered
MIN_FEASIBLE_NODES = 100
_MAX_SHAPES = 512
#: rejects the nodes that the pod's metadata.name affinity does not name
_NOT_NAMED = Rejection("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), resolvable=False)

#: generation, state, and place among nodes of equal score
Standing: TypeAlias = "tuple[int, NodeState | None, int]"
#: place among nodes of equal score, generation, name
Member = tuple[int, int, str]
VolumeCheck = Callable[[NodeInfo], Rejection | None]


@dataclass(frozen=True, slots=True)
class Plugins:
    """Which filters and scores are in force, by upstream's plugin names."""

    scoring: scores.Scoring = field(default_factory=scores.Scoring)
    disabled: frozenset[str] = frozenset()
    percentage_of_nodes_to_score: int = 0  # 0: upstream's adaptive share
    default_spread: tuple[TopologySpreadConstraint, ...] | None = None  # None: upstream's


@dataclass(frozen=True, slots=True)
class Grouping:
    """The nodes by state, each group in order, at a position in the log of changed nodes."""

    position: int
    generation: int
    groups: Sequence[tuple[NodeState, Sequence[Member]]]


class Placement:
    """Finds nodes of one ``ClusterCache``, and keeps indexes of them."""

    def __init__(
        self,
        cluster: ClusterCache,
        *,
        plugins: Plugins | None = None,
        scorer: Scorer | None = None,
        namespaces: Callable[[], Namespaces] = dict,
        served_by_devices: Container[str] = (),
        quirks: PlacementQuirks | None = None,
    ) -> None:
        """``scorer``: the device policy; without it nodes are scored by their cpu and memory alone."""
        self.cluster = cluster
        self.nominator = Nominator(cluster)
        self._nominated = self.nominator.nominated
        self._plugins = plugins = plugins or Plugins()
        self._quirks = quirks = quirks or PlacementQuirks()
        self._scoring = replace(plugins.scoring, quirks=quirks)
        self.scorer = scorer
        self._ties = scorer.ties if scorer is not None else Ties()
        self._namespaces = namespaces
        self._served_by_devices = served_by_devices
        self._shapes: dict[tuple[bytes, bytes | None, int], ShapeIndex] = {}
        self.standings: dict[str, Standing] = {}  # by the name of the node
        self._grouping: Grouping | None = None
        self._era = 0
        self._start = 0
        self._nodes_by_name: list[NodeInfo] = []
        self._drawn_from = -1
        self._filters: list[filters.Filter] = [
            f
            for name, f in (
                ("NodeUnschedulable", filters.node_unschedulable),
                ("NodeName", filters.node_name),
                (
                    "TaintToleration",
                    filters.taint_toleration_naming_taint
                    if quirks.names_untolerated_taint
                    else filters.taint_toleration,
                ),
                ("NodeAffinity", filters.node_affinity),
                ("NodePorts", filters.node_ports),
                ("NodeResourcesFit", self._fits),
            )
            if name not in plugins.disabled
        ]

    def run_filters(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        """The filters that look at this node alone, run with and without the pods that are nominated to it."""
        nominated = self._nominated.get(node.name)
        if nominated:
            nominated_pods = [
                p
                for p in nominated.values()
                if p.uid != pod.uid and p.priority >= pod.priority and p.uid not in node.pods
            ]
            if nominated_pods:
                with_nominated = node.without(frozenset())
                for nominated_pod in nominated_pods:
                    with_nominated.add_pod(nominated_pod)
                if (rejection := self._run_filters(pod, with_nominated)) is not None:
                    return rejection
        return self._run_filters(pod, node)

    def _run_filters(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        for test in self._filters:
            if (rejection := test(pod, node)) is not None:
                return rejection
        return None

    @cached_property
    def _fits_is_on(self) -> bool:
        return "NodeResourcesFit" not in self._plugins.disabled

    def _fits(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        return filters.node_resources_fit(
            pod,
            node,
            served_by_devices=self._served_by_devices,
            small_nodes_are_unresolvable=self._quirks.small_nodes_are_unresolvable,
        )

    def find(
        self,
        pod: PodInfo,
        attempt: ClaimAttempt | None,
        *,
        spread: Sequence[SpreadConstraint] = (),
        volumes: VolumeCheck | None = None,
        nodes: Sequence[NodeInfo] | None = None,
    ) -> ScheduleResult | Diagnosis:
        """The best node, or why there is none. ``spread``: the pod's own constraints or the defaults for its owner.

        ``nodes``: where only these may have the pod.
        """
        if self.scorer is not None:
            self.scorer.attempt_begins(pod, attempt, era=self.cluster.era)
        if self._era != self.cluster.era:
            self._era = self.cluster.era
            self.standings.clear()
        if nodes is not None:
            chosen = [n for n in nodes if pod.pinned is None or n.name in pod.pinned]
            outcome = self._scan(pod, attempt, chosen, spread, volumes)
            return replace(outcome, nodes=len(nodes)) if isinstance(outcome, Diagnosis) else outcome
        nominee = pod.nominated_node and self.cluster.get(pod.nominated_node)
        if nominee:
            outcome = self._scan(pod, attempt, [nominee], spread, volumes)
            if isinstance(outcome, ScheduleResult):
                return outcome
        only = pod.pinned
        if only is not None:
            named = [n for name in only if (n := self.cluster.get(name)) is not None]
            outcome = self._scan(pod, attempt, named, spread, volumes)
            if isinstance(outcome, Diagnosis):
                not_named = (n.name for n in self.cluster if n.name not in only)
                others = dict.fromkeys(not_named, _NOT_NAMED) if self._quirks.counts_nodes_not_named else {}
                return Diagnosis(outcome.nodes, {**others, **outcome.rejections})
            return outcome
        if volumes is None and self._by_index(pod, attempt, spread):
            return self._shape(pod, attempt).find(pod, attempt)
        return self._scan(pod, attempt, list(self.cluster), spread, volumes)

    def _by_index(
        self,
        pod: PodInfo,
        attempt: ClaimAttempt | None,
        spread: Sequence[SpreadConstraint],
    ) -> bool:
        return not (
            spread
            or self._depends_on_other_pods(pod)
            or pod.preferred_nodes
            or self.cluster.prefer_no_schedule_nodes
            or (attempt is not None and (attempt.shape is None or attempt.scores_matter))
            or (
                attempt is not None
                and self._quirks.filters_devices_on_every_node
                and len(self.cluster) < MIN_FEASIBLE_NODES
            )
        )

    def _depends_on_other_pods(self, pod: PodInfo) -> bool:
        """Whether filters or scores of the pod depend on the pods that run already."""
        if "InterPodAffinity" in self._plugins.disabled:
            return False
        return bool(pod.has_affinity_or_spread or self.cluster.pods_with_affinity)

    def _shape(self, pod: PodInfo, attempt: ClaimAttempt | None) -> ShapeIndex:
        key = (pod.shape, attempt.shape if attempt is not None else None, pod.priority)
        index = self._shapes.pop(key, None)
        if index is None:
            index = ShapeIndex(self)
            if len(self._shapes) >= _MAX_SHAPES:
                del self._shapes[next(iter(self._shapes))]  # the one used longest ago
        self._shapes[key] = index
        return index

    def _scan(
        self,
        pod: PodInfo,
        attempt: ClaimAttempt | None,
        nodes: list[NodeInfo],
        spread: Sequence[SpreadConstraint],
        volumes: VolumeCheck | None,
    ) -> ScheduleResult | Diagnosis:
        total = len(self.cluster)
        affinity, counts = self._count_pods(pod, spread)
        rejections: dict[str, Rejection] = {}
        # The filter for devices is the slowest. In a large cluster it runs last, on the best node first, and only
        # until a node has the devices.
        filtered_last = attempt if self._may_filter_devices_last(attempt, len(nodes)) else None
        wanted = self._num_feasible_nodes(len(nodes))
        start = self._start % len(nodes) if nodes else 0
        waiting = iter((*nodes[start:], *nodes[:start]))
        while True:
            feasible: list[tuple[NodeInfo, ClaimPlan | None]] = []
            for node in waiting:
                rejection = self._run_all_filters(pod, node, volumes, counts, affinity)
                plan: ClaimPlan | None = None
                if rejection is None and attempt is not None and filtered_last is None:
                    verdict = attempt.filter(node)
                    if isinstance(verdict, Rejection):
                        rejection = verdict
                    else:
                        plan = verdict
                if rejection is not None:
                    rejections[node.name] = rejection
                    continue
                feasible.append((node, plan))
                if len(feasible) >= wanted:
                    break
            self._start = start + len(feasible) + len(rejections)
            if not feasible:
                return Diagnosis(total, rejections)
            for node, plan in self._prioritize(pod, attempt, feasible, affinity, counts):
                if filtered_last is not None:
                    verdict = filtered_last.filter(node)
                    if isinstance(verdict, Rejection):
                        rejections[node.name] = verdict
                        continue
                    plan = verdict
                return ScheduleResult(node.name, plan)

    def _count_pods(
        self, pod: PodInfo, spread: Sequence[SpreadConstraint]
    ) -> tuple[InterPodAffinity | None, PodTopologySpread | None]:
        """The counts of other pods, where the filters or scores of this pod depend on them."""
        minds = self._depends_on_other_pods(pod)
        everyone = list(self.cluster) if minds or spread else []
        return (
            InterPodAffinity(pod, everyone, self._namespaces()) if minds else None,
            PodTopologySpread(pod, everyone, spread) if spread else None,
        )

    def _run_all_filters(
        self,
        pod: PodInfo,
        node: NodeInfo,
        volumes: VolumeCheck | None,
        counts: PodTopologySpread | None,
        affinity: InterPodAffinity | None,
    ) -> Rejection | None:
        """Every filter but the one for devices, in upstream's order."""
        rejection = self.run_filters(pod, node)
        if rejection is None and volumes is not None:
            rejection = volumes(node)
        if rejection is None and counts is not None:
            rejection = counts.reject(node)
        if rejection is None and affinity is not None:
            rejection = affinity.reject(node)
        return rejection

    def filters_without_victims(
        self,
        pod: PodInfo,
        *,
        spread: Sequence[SpreadConstraint] = (),
        volumes: VolumeCheck | None = None,
    ) -> Callable[[NodeInfo], Rejection | None]:
        """Every filter but the one for devices, for copies of nodes without some of their pods."""

        @cache  # counted only if some node may be a candidate for preemption
        def count_pods() -> tuple[InterPodAffinity | None, PodTopologySpread | None]:
            return self._count_pods(pod, spread)

        def run_filters(node: NodeInfo) -> Rejection | None:
            affinity, counts = count_pods()
            gone = self.cluster.missing_pods(node)
            return self._run_all_filters(
                pod,
                node,
                volumes,
                counts.without(gone, node) if counts is not None else None,
                affinity.without(gone, node) if affinity is not None else None,
            )

        return run_filters

    def _may_filter_devices_last(self, attempt: ClaimAttempt | None, nodes: int) -> bool:
        return attempt is not None and not attempt.scores_matter and nodes >= MIN_FEASIBLE_NODES

    def _prioritize(
        self,
        pod: PodInfo,
        attempt: ClaimAttempt | None,
        feasible: list[tuple[NodeInfo, ClaimPlan | None]],
        affinity: InterPodAffinity | None,
        counts: PodTopologySpread | None,
    ) -> list[tuple[NodeInfo, ClaimPlan | None]]:
        """The nodes, best first; nodes of equal score in random order."""
        if len(feasible) == 1:
            return feasible
        total = self._score(pod, attempt, feasible, affinity, counts)
        return sorted(feasible, key=lambda pair: (-total[pair[0].name], self._tie(pod, pair[0])))

    def _tie(self, pod: PodInfo, node: NodeInfo) -> int:
        """The order of nodes of equal score, least first."""
        if self.scorer is not None and self.scorer.policy.draws_node:
            return self.draw(pod, node)
        return self.tie(node)

    def tie(self, node: NodeInfo) -> int:
        """The order of nodes of equal score, least first; the same for every pod."""
        if self.scorer is not None and self.scorer.policy.keeps_order_of_nodes:
            return self._ties.rank_of_node(node.name)
        return self._ties.mixed(node.name, len(node.pods))

    def draw(self, pod: PodInfo, node: NodeInfo) -> int:
        """Another order of nodes for each pod."""
        return self._ties.mixed(node.name, self._ties.rank(pod.key))

    def drawn(self, pod: PodInfo, number: int) -> NodeInfo:
        """The node that the pod draws at this attempt, of all there are."""
        if self._drawn_from != self.cluster.membership:
            self._drawn_from = self.cluster.membership
            self._nodes_by_name = sorted(self.cluster, key=lambda node: node.name)
        nodes = self._nodes_by_name
        return nodes[self._ties.mixed(pod.key, number + 1) % len(nodes)]

    def score_of(self, pod: PodInfo, node: NodeInfo, attempt: ClaimAttempt | None) -> float:
        """The part of the score that depends on this node alone."""
        scorer = self.scorer
        if scorer is None:
            return self._scoring.for_pod(pod)(node)
        return self._scores_for(pod, scorer.request(pod, attempt), attempt)(node, scorer.states.of(node))

    def _scores_for(
        self, pod: PodInfo, request: Request, attempt: ClaimAttempt | None
    ) -> Callable[[NodeInfo, NodeState], float]:
        """The scores of nodes in their states, as far as they depend on one node alone."""
        scorer = self.scorer
        assert scorer is not None
        if not scorer.policy.adds_to_resource_scores:
            return lambda node, state: scorer.score(request, state)
        of_resources = self._scoring.for_pod(pod)
        if attempt is None or scorer.policy.has_no_score:
            return lambda node, state: of_resources(node)
        weight = self._scoring.weights.get("DynamicResources", 0)
        return lambda node, state: of_resources(node) + weight * scorer.score(request, state)

    def verdicts_for(
        self, pod: PodInfo, attempt: ClaimAttempt | None
    ) -> Callable[[NodeInfo, NodeState | None], float | Rejection]:
        """What filters and scores say about nodes in their states: a score, or why the node is rejected.

        Of a node's devices only their number is looked at. There are no states without a device policy.
        """
        run_filters, scorer = self.run_filters, self.scorer
        if scorer is None:
            of_resources = self._scoring.for_pod(pod)
            return lambda node, state: run_filters(pod, node) or of_resources(node)
        request = scorer.request(pod, attempt)
        score, fits = self._scores_for(pod, request, attempt), request.fits
        needs_devices = attempt is not None and request.count > 0
        asked, nominated = pod.requests, self._nominated
        # All other filters look at what such a pod does not have.
        simple = pod.is_plain and self._fits_is_on and not asked.ephemeral and not asked.scalars
        cpu, memory = asked.cpu, asked.memory

        def verdict(node: NodeInfo, state: NodeState | None) -> float | Rejection:
            assert state is not None
            if not (
                simple
                and cpu <= state.cpu
                and memory <= state.memory
                and state.is_open
                and node.name not in nominated
            ):
                rejection = run_filters(pod, node)
                if rejection is not None:
                    return rejection
            if needs_devices and not fits(state):
                return dynamic_resources.TOO_FEW_DEVICES
            return score(node, state)

        return verdict

    def standing(self, node: NodeInfo) -> Standing:
        """The node's state and its place among nodes of equal score, since it last changed."""
        known = self.standings.get(node.name)
        if known is None or known[0] != node.generation:
            state = self.scorer.states.of(node) if self.scorer is not None else None
            known = self.standings[node.name] = (node.generation, state, self.tie(node))
        return known

    def grouping(self) -> Grouping:
        """Groups of nodes in the same state, as they are now or were before less than half of the nodes changed."""
        known, cluster = self._grouping, self.cluster
        if (
            known is None
            or (cluster.position - known.position) * 2 > len(cluster)
            or cluster.changed_since(known.position) is None
        ):
            groups: dict[NodeState | None, list[Member]] = {}
            for node in cluster:
                generation, state, tie = self.standing(node)
                groups.setdefault(state, []).append((tie, generation, node.name))
            known = self._grouping = Grouping(
                cluster.position,
                cluster.generation,
                [(state, sorted(members)) for state, members in groups.items() if state is not None],
            )
        return known

    def _num_feasible_nodes(self, nodes: int) -> int:
        if nodes < MIN_FEASIBLE_NODES:
            return nodes
        percent = self._plugins.percentage_of_nodes_to_score or max(50 - nodes // 125, 5)
        return max(nodes * percent // 100, MIN_FEASIBLE_NODES)

    def _score(
        self,
        pod: PodInfo,
        attempt: ClaimAttempt | None,
        feasible: list[tuple[NodeInfo, ClaimPlan | None]],
        affinity: InterPodAffinity | None,
        counts: PodTopologySpread | None,
    ) -> dict[str, float]:
        weights = self._plugins.scoring.weights
        nodes = [node for node, _ in feasible]
        total = {node.name: self.score_of(pod, node, attempt) for node in nodes}

        def add(plugin: str, values: Mapping[str, int]) -> None:
            weight = weights.get(plugin, 0)
            for name, value in values.items():
                total[name] += weight * value

        add(
            "TaintToleration",
            scores.normalised({n.name: scores.untolerated_soft_taints(pod, n) for n in nodes}, reverse=True),
        )
        if pod.preferred_nodes:
            add("NodeAffinity", scores.normalised({n.name: scores.preferred_nodes(pod, n) for n in nodes}))
        if affinity is not None and affinity.scores_matter:
            add(
                "InterPodAffinity",
                normalise_affinity({n.name: affinity.score(n) for n in nodes}),
            )
        if counts is not None and counts.scores_matter:
            add("PodTopologySpread", counts.scores(nodes))
        if attempt is not None and attempt.scores_matter:
            add(
                "DynamicResources",
                scores.normalised({n.name: attempt.score(plan) for n, plan in feasible if plan is not None}),
            )
        return total
