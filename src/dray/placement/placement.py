"""Finding a node for a pod: by index where nodes can be judged one by one, by scan where they must be compared.

Pods of one shape share what was learnt about every node. A change touches one node, so after a placement only that
node is judged again, and the cost of placing a pod does not grow with the cluster (``ShapeIndex``). Pods whose score
depends on other nodes or other pods take the scan, which stops after enough candidates as upstream does.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any, Protocol

from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins import filters, inter_pod_affinity, scores
from dray.placement.status import Rejection

#: below this many nodes every node is looked at
MIN_FEASIBLE_NODES = 100
_MAX_SHAPES = 64
#: nodes that a pod which names its nodes outright was never held against
_NOT_NAMED = Rejection("NodeAffinity", ("node(s) didn't satisfy plugin(s) [NodeAffinity]",), resolvable=False)

VolumeCheck = Callable[[NodeInfo], Rejection | None]


class ClaimAttempt(Protocol):
    """What the devices say about a pod on a node. One check serves one attempt of one pod."""

    #: equal for pods whose claims every node treats alike; None when nothing can be shared
    shape: bytes | None

    def on(self, node: NodeInfo) -> Any | Rejection:
        """The plan for this node, or why there is none. May raise the allocator's error."""
        ...

    def score(self, plan: Any) -> int: ...

    @property
    def scores_matter(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ScheduleResult:
    node: str
    plan: Any = None
    feasible: int = 1


@dataclass(frozen=True, slots=True)
class Diagnosis:
    nodes: int
    rejections: Mapping[str, Rejection] = field(default_factory=dict)

    @property
    def plugins(self) -> frozenset[str]:
        return frozenset(r.plugin for r in self.rejections.values())


@dataclass(frozen=True, slots=True)
class DeviceNomination:
    """Devices that are being freed on a node for a pod."""

    plan: Any  # what it will get
    awaited: Callable[[], bool]  # whether some of it is still in other hands


@dataclass(frozen=True, slots=True)
class Plugins:
    """Which filters and scores are in force, by upstream's plugin names."""

    scoring: scores.Scoring = field(default_factory=scores.Scoring)
    disabled: frozenset[str] = frozenset()
    percentage_of_nodes_to_score: int = 0  # 0: upstream's adaptive share
    default_spread: tuple[Mapping[str, Any], ...] | None = None  # None: upstream's


class Placement:
    """Decides over one ``Cluster``. Pure but for the indexes it keeps and the randomness it was given."""

    def __init__(
        self,
        cluster: ClusterCache,
        *,
        profile: Plugins | None = None,
        rng: random.Random,
        namespaces: Callable[[], inter_pod_affinity.Namespaces] = dict,
        served_by_devices: Container[str] = (),
        device_score: Callable[[NodeInfo], float] | None = None,
        release: int = 37,
        thorough: bool = False,
    ) -> None:
        """``device_score``: how a node suits the device policy, from 0 to 100; asked for pods that want devices.

        ``thorough``: as long as there are few nodes, all of them are asked for devices before one is chosen, so that
        what is wrong on one of them is an error, as it is upstream.
        """
        self.cluster = cluster
        self.profile = profile or Plugins()
        self._scoring = replace(self.profile.scoring, release=release)
        self._rng = rng
        self._namespaces = namespaces
        self._served_by_devices = served_by_devices
        self._device_score = device_score
        self._thorough = thorough
        self._sizes_matter = release >= 34
        self._counts_passed_over = release >= 32
        self._shapes: dict[tuple[bytes, bytes | None, int], ShapeIndex] = {}
        self._start = 0
        self.nominated: dict[str, dict[str, PodInfo]] = {}  # node → pods promised room there
        self._device_nominations: dict[
            str, DeviceNomination
        ] = {}  # pod → devices it is promised on the node it was promised
        self._filters: list[filters.Filter] = [
            f
            for name, f in (
                ("NodeUnschedulable", filters.node_unschedulable),
                ("NodeName", filters.node_name),
                (
                    "TaintToleration",
                    filters.taint_toleration if release >= 35 else filters.taint_toleration_naming_taint,
                ),
                ("NodeAffinity", filters.node_affinity),
                ("NodePorts", filters.node_ports),
                ("NodeResourcesFit", self._fits),
            )
            if name not in self.profile.disabled
        ]

    # -- promises ---------------------------------------------------------------------------------------------------

    def nominate(self, pod: PodInfo, node: str, device_nomination: DeviceNomination | None = None) -> None:
        self.delete_nominated_pod(pod.uid)
        if node:
            self.nominated.setdefault(node, {})[pod.uid] = pod
            if device_nomination is not None:
                self._device_nominations[pod.uid] = device_nomination
            self.cluster.touch(node)

    def delete_nominated_pod(self, uid: str) -> None:
        self._device_nominations.pop(uid, None)
        for node, pods in list(self.nominated.items()):
            if pods.pop(uid, None) is not None:
                if not pods:
                    del self.nominated[node]
                self.cluster.touch(node)

    def device_nomination_of(self, uid: str) -> DeviceNomination | None:
        return self._device_nominations.get(uid)

    def nominated_plans(self, pod: PodInfo, node: str) -> list[Any]:
        """The plans of others on this node that the pod must leave alone."""
        if not self._device_nominations:
            return []
        return [
            device_nomination.plan
            for nominated_pod in self.nominated.get(node, {}).values()
            if nominated_pod.uid != pod.uid
            and nominated_pod.priority >= pod.priority
            and (device_nomination := self._device_nominations.get(nominated_pod.uid)) is not None
        ]

    # -- deciding ---------------------------------------------------------------------------------------------------

    def run_filters(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        """The node's own filters, with and without the pods that were promised room there."""
        promised = self.nominated.get(node.name)
        if promised:
            nominated_pods = [p for p in promised.values() if p.uid != pod.uid and p.priority >= pod.priority]
            if nominated_pods:
                crowded = node.without(frozenset())
                for nominated_pod in nominated_pods:
                    crowded.add(nominated_pod)
                if (rejection := self._run_filters(pod, crowded)) is not None:
                    return rejection
        return self._run_filters(pod, node)

    def _run_filters(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        for test in self._filters:
            if (rejection := test(pod, node)) is not None:
                return rejection
        return None

    def _fits(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        return filters.node_resources_fit(
            pod, node, served_by_devices=self._served_by_devices, sizes_matter=self._sizes_matter
        )

    def find(
        self,
        pod: PodInfo,
        devices: ClaimAttempt | None,
        *,
        spread: Sequence[inter_pod_affinity.SpreadConstraint] = (),
        volumes: VolumeCheck | None = None,
    ) -> ScheduleResult | Diagnosis:
        """The best node, or why there is none. ``spread``: the pod's own constraints or the defaults for its owner."""
        nominee = pod.nominated_node and self.cluster.get(pod.nominated_node)
        if nominee:
            outcome = self._scan(pod, devices, [nominee], spread, volumes)
            if isinstance(outcome, ScheduleResult):
                return outcome
        only = pod.pinned
        if only is not None:
            nodes = [n for name in only if (n := self.cluster.get(name)) is not None]
            outcome = self._scan(pod, devices, nodes, spread, volumes)
            if isinstance(outcome, Diagnosis):
                passed_over = (n.name for n in self.cluster if n.name not in only)
                others = dict.fromkeys(passed_over, _NOT_NAMED) if self._counts_passed_over else {}
                return Diagnosis(outcome.nodes, {**others, **outcome.rejections})
            return outcome
        if volumes is None and self._by_index(pod, devices, spread):
            return self._shape(pod, devices).find(pod, devices)
        return self._scan(pod, devices, list(self.cluster), spread, volumes)

    def _by_index(
        self,
        pod: PodInfo,
        devices: ClaimAttempt | None,
        spread: Sequence[inter_pod_affinity.SpreadConstraint],
    ) -> bool:
        return not (
            spread
            or self._depends_on_other_pods(pod)
            or pod.preferred_nodes
            or self.cluster.prefer_no_schedule_nodes
            or (devices is not None and (devices.shape is None or devices.scores_matter))
            or (devices is not None and self._thorough and len(self.cluster) < MIN_FEASIBLE_NODES)
        )

    def _depends_on_other_pods(self, pod: PodInfo) -> bool:
        """Whether it matters for the pod who runs where already."""
        if "InterPodAffinity" in self.profile.disabled:
            return False
        return bool(pod.has_affinity_or_spread or self.cluster.pods_with_affinity)

    def _shape(self, pod: PodInfo, devices: ClaimAttempt | None) -> ShapeIndex:
        key = (pod.shape, devices.shape if devices is not None else None, pod.priority)
        index = self._shapes.pop(key, None)
        if index is None:
            index = ShapeIndex(self, self._rng)
            if len(self._shapes) >= _MAX_SHAPES:
                del self._shapes[next(iter(self._shapes))]  # the one used longest ago
        self._shapes[key] = index
        return index

    def _scan(
        self,
        pod: PodInfo,
        devices: ClaimAttempt | None,
        nodes: list[NodeInfo],
        spread: Sequence[inter_pod_affinity.SpreadConstraint],
        volumes: VolumeCheck | None,
    ) -> ScheduleResult | Diagnosis:
        total = len(self.cluster)
        affinity, counts = self._company(pod, spread)
        rejections: dict[str, Rejection] = {}
        # Devices are the dearest of all filters. In a large cluster the best nodes are asked first, and only until one
        # has them; that others have none is learnt when it is their turn.
        filtered_last = devices if self._may_filter_devices_last(devices, len(nodes)) else None
        wanted = self._num_feasible_nodes(len(nodes))
        start = self._start % len(nodes) if nodes else 0
        waiting = iter((*nodes[start:], *nodes[:start]))
        while True:
            feasible: list[tuple[NodeInfo, Any]] = []
            for node in waiting:
                rejection = self._run_all_filters(pod, node, volumes, counts, affinity)
                plan = None
                if rejection is None and devices is not None and filtered_last is None:
                    plan = devices.on(node)
                    if isinstance(plan, Rejection):
                        rejection = plan
                if rejection is not None:
                    rejections[node.name] = rejection
                    continue
                feasible.append((node, plan))
                if len(feasible) >= wanted:
                    break
            self._start = start + len(feasible) + len(rejections)
            if not feasible:
                return Diagnosis(total, rejections)
            for node, plan in self._prioritize(pod, devices, feasible, affinity, counts):
                if filtered_last is not None:
                    plan = filtered_last.on(node)
                    if isinstance(plan, Rejection):
                        rejections[node.name] = plan
                        continue
                return ScheduleResult(node.name, plan, len(feasible))

    def _company(
        self, pod: PodInfo, spread: Sequence[inter_pod_affinity.SpreadConstraint]
    ) -> tuple[inter_pod_affinity.InterPodAffinity | None, inter_pod_affinity.PodTopologySpread | None]:
        """What other pods mean for this one, as far as it minds."""
        minds = self._depends_on_other_pods(pod)
        everyone = list(self.cluster) if minds or spread else []
        return (
            inter_pod_affinity.InterPodAffinity(pod, everyone, self._namespaces()) if minds else None,
            inter_pod_affinity.PodTopologySpread(pod, everyone, spread) if spread else None,
        )

    def _run_all_filters(
        self,
        pod: PodInfo,
        node: NodeInfo,
        volumes: VolumeCheck | None,
        counts: inter_pod_affinity.PodTopologySpread | None,
        affinity: inter_pod_affinity.InterPodAffinity | None,
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
        spread: Sequence[inter_pod_affinity.SpreadConstraint] = (),
        volumes: VolumeCheck | None = None,
    ) -> Callable[[NodeInfo], Rejection | None]:
        """Judges the pod on nodes as they would be with some pods gone; by every filter but the one for devices."""

        @cache  # asked for only where some node might be had by making room
        def company() -> tuple[
            inter_pod_affinity.InterPodAffinity | None, inter_pod_affinity.PodTopologySpread | None
        ]:
            return self._company(pod, spread)

        def run_filters(node: NodeInfo) -> Rejection | None:
            affinity, counts = company()
            now = self.cluster.get(node.name)
            gone = [p for uid, p in now.pods.items() if uid not in node.pods] if now is not None else []
            return self._run_all_filters(
                pod,
                node,
                volumes,
                counts.without(gone, node) if counts is not None else None,
                affinity.without(gone, node) if affinity is not None else None,
            )

        return run_filters

    def _may_filter_devices_last(self, devices: ClaimAttempt | None, nodes: int) -> bool:
        return devices is not None and not devices.scores_matter and nodes >= MIN_FEASIBLE_NODES

    def _prioritize(
        self,
        pod: PodInfo,
        devices: ClaimAttempt | None,
        feasible: list[tuple[NodeInfo, Any]],
        affinity: inter_pod_affinity.InterPodAffinity | None,
        counts: inter_pod_affinity.PodTopologySpread | None,
    ) -> list[tuple[NodeInfo, Any]]:
        """The nodes, best first; chance decides between equals."""
        if len(feasible) == 1:
            return feasible
        total = self._score(pod, devices, feasible, affinity, counts)
        return sorted(feasible, key=lambda pair: (-total[pair[0].name], self._rng.random()))

    def score_of(self, pod: PodInfo, node: NodeInfo, devices: ClaimAttempt | None) -> float:
        """The part of the score that depends on this node alone."""
        score = self._scoring.of_node(pod, node)
        if devices is not None and self._device_score is not None:
            score += self.profile.scoring.weights.get("DynamicResources", 0) * self._device_score(node)
        return score

    def _num_feasible_nodes(self, nodes: int) -> int:
        if nodes < MIN_FEASIBLE_NODES:
            return nodes
        percent = self.profile.percentage_of_nodes_to_score or max(50 - nodes // 125, 5)
        return max(nodes * percent // 100, MIN_FEASIBLE_NODES)

    def _score(
        self,
        pod: PodInfo,
        devices: ClaimAttempt | None,
        feasible: list[tuple[NodeInfo, Any]],
        affinity: inter_pod_affinity.InterPodAffinity | None,
        counts: inter_pod_affinity.PodTopologySpread | None,
    ) -> dict[str, float]:
        weights = self.profile.scoring.weights
        nodes = [node for node, _ in feasible]
        total = {node.name: self.score_of(pod, node, devices) for node in nodes}

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
                inter_pod_affinity.normalise_affinity({n.name: affinity.score(n) for n in nodes}),
            )
        if counts is not None and counts.scores_matter:
            add("PodTopologySpread", counts.scores(nodes))
        if devices is not None and devices.scores_matter:
            add("DynamicResources", scores.normalised({n.name: devices.score(plan) for n, plan in feasible}))
        return total


class ShapeIndex:
    """What is known of every node for pods of one shape: a heap of those that fit, and why the others do not."""

    def __init__(self, placement: Placement, rng: random.Random) -> None:
        self._placement = placement
        self._rng = rng
        self._position = -1
        self._heap: list[tuple[float, float, int, str]] = []  # (-score, tie-break, generation, node)
        self._rejections: dict[str, Rejection] = {}

    def find(self, pod: PodInfo, devices: ClaimAttempt | None) -> ScheduleResult | Diagnosis:
        self._catch_up(pod, devices)
        cluster, heap = self._placement.cluster, self._heap
        while heap:
            _, _, generation, name = heap[0]
            node = cluster.get(name)
            if node is None or node.generation != generation:
                heapq.heappop(heap)
                continue
            if devices is None:
                return ScheduleResult(name)
            plan = devices.on(node)
            if not isinstance(plan, Rejection):
                return ScheduleResult(name, plan)
            self._rejections[name] = plan
            heapq.heappop(heap)
        return Diagnosis(len(cluster), self._rejections)

    def _catch_up(self, pod: PodInfo, devices: ClaimAttempt | None) -> None:
        cluster = self._placement.cluster
        changed = cluster.changed_since(self._position)
        if changed is None:
            self._heap.clear()
            self._rejections.clear()
            changed = {node.name for node in cluster}
        for name in changed:
            self._rejections.pop(name, None)
            node = cluster.get(name)
            if node is not None:
                self._learn(pod, node, devices)
        if len(self._heap) > 4 * len(cluster) + 64:
            self._forget_stale()
        self._position = cluster.position

    def _learn(self, pod: PodInfo, node: NodeInfo, devices: ClaimAttempt | None) -> None:
        rejection = self._placement.run_filters(pod, node)
        if rejection is not None:
            self._rejections[node.name] = rejection
            return
        score = self._placement.score_of(pod, node, devices)
        heapq.heappush(self._heap, (-score, self._rng.random(), node.generation, node.name))

    def _forget_stale(self) -> None:
        cluster = self._placement.cluster
        self._heap = [e for e in self._heap if (n := cluster.get(e[3])) is not None and n.generation == e[2]]
        heapq.heapify(self._heap)
