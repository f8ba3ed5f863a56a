"""The scheduler's filters over a snapshot: which of them reject a pod on a node, and which pods are in the way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dray.api.compute import ComputeResources
from dray.api.identity import ObjectKey, object_key
from dray.placement.cache.nodes import ClusterCache, NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins import extended_resources, filters, inter_pod_affinity, pod_topology_spread
from dray.placement.plugins.volume_binding import VolumeBinding
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.explain import Cluster
    from dray.explain.nodes.classic import ClassicClaims
    from dray.placement.classic.attempt import ClassicAttempt, ClassicPlan

_BLOCKERS_SHOWN = 3
_STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


class NodeUsage(NamedTuple):
    """What a node offers, and what its pods request."""

    allocatable: ComputeResources = ComputeResources()
    requested: ComputeResources = ComputeResources()
    pods: int = 0
    max_pods: int = 0


class NodeFilters:
    """The nodes and pods of a snapshot as the scheduler's cache has them; more pods can be assumed on nodes."""

    def __init__(self, cluster: Cluster) -> None:
        snapshot = cluster.snapshot
        self.nodes = ClusterCache()
        for node in snapshot.nodes:
            self.nodes.set_node(node)
        for pod in snapshot.pods:
            spec = pod.get("spec") or {}
            if spec.get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                self.nodes.add_pod(pod_info(pod), spec["nodeName"])
        self.classes = extended_resources.DeviceClassResolver()
        if "DRAExtendedResource" in cluster.gates:
            for one in snapshot.classes:
                self.classes.set(one)
        self.namespaces: inter_pod_affinity.Namespaces = {
            name: (one.get("metadata") or {}).get("labels") or {} for name, one in cluster.namespaces.items()
        }
        self._cluster = cluster
        self.storage = None if set(_STORAGE) & set(snapshot.unread) else _storage(cluster)

    @cached_property
    def classic(self) -> ClassicClaims:
        from dray.explain.nodes.classic import ClassicClaims

        return ClassicClaims(self._cluster)

    def pod_filters(self, pod: Pod, classic: Sequence[ClassicClaim] = ()) -> PodFilters:
        """``classic``: the pod's claims of the classic API, for which the scheduler has a filter too."""
        return PodFilters(self, pod_info(pod), classic)

    def assume(self, pod: Pod, node: str) -> None:
        """Count a pod as bound to a node from now on."""
        self.nodes.add_pod(pod_info(pod), node)


def pod_info(pod: Pod) -> PodInfo:
    """A pod from a manifest may lack what the server would fill in."""
    metadata = pod.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or "default"
    return PodInfo(
        {
            **pod,
            "metadata": {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}", **metadata},
            "spec": pod.get("spec") or {},
        }
    )


def _storage(cluster: Cluster) -> VolumeBinding:
    snapshot = cluster.snapshot
    claims = {object_key(one): one for one in snapshot.volume_claims}
    volumes = {one["metadata"]["name"]: one for one in snapshot.volumes}
    classes = {one["metadata"]["name"]: one for one in snapshot.storage_classes}
    return VolumeBinding(
        volume_claim=lambda namespace, name: claims.get(ObjectKey(namespace, name)),
        volume=volumes.get,
        storage_class=classes.get,
    )


class PodFilters:
    """One pod before the scheduler's filters."""

    def __init__(self, node_filters: NodeFilters, pod: PodInfo, classic: Sequence[ClassicClaim]) -> None:
        self._nodes = node_filters.nodes
        self._classes = node_filters.classes
        self._namespaces = node_filters.namespaces
        self._pod = pod
        everyone = list(self._nodes)
        self._storage = node_filters.storage if pod.volume_claims else None
        self._affinity = self._spread = None
        self._constraints = [pod_topology_spread.SpreadConstraint.of(spec, pod.labels) for spec in pod.spread]
        if pod.affinity or pod.anti_affinity or self._nodes.pods_with_affinity:
            self._affinity = inter_pod_affinity.InterPodAffinity(pod, everyone, self._namespaces)
        if any(one.hard for one in self._constraints):
            self._spread = pod_topology_spread.PodTopologySpread(pod, everyone, self._constraints)
        self._resources = extended_resources.served_resources(pod, self._classes)
        self._claims: dict[tuple[str, ...], ResourceClaim | None] = {}
        found = node_filters.classic.attempt(pod, classic) if classic else None
        self._classic_rejection = found if isinstance(found, Rejection) else None
        #: the pod's classic claims; None: it has none, or no node will do
        self.classic: ClassicAttempt | None = None if isinstance(found, Rejection) else found

    def prefilter(self) -> Rejection | None:
        """Why the pod fits no node at all."""
        rejection = self._storage.reject(self._pod) if self._storage is not None else None
        return rejection or self._classic_rejection

    def classic_plan(self, node: str) -> ClassicPlan | None:
        """What the scheduler itself would allocate to the pod's classic claims on a node that fits."""
        there = self._nodes.get(node)
        plan = self.classic.plan(there) if self.classic is not None and there is not None else None
        return None if isinstance(plan, Rejection) else plan

    def filter(self, node: str) -> Sequence[Rejection]:
        """Every filter that rejects the pod on a node."""
        there = self._nodes.get(node)
        if there is None:
            return ()
        # Whether preemption could help does not tell rejections apart here.
        return [Rejection(one.plugin, one.reasons) for one in self._rejections(there) if one is not None]

    def _rejections(self, node: NodeInfo) -> Iterator[Rejection | None]:
        pod = self._pod
        for test in _FILTERS:
            yield test(pod, node)
        if (((node.document or {}).get("status") or {}).get("allocatable")) is not None:
            # A node from a manifest may not say what it offers; then its resources are not checked.
            yield filters.node_resources_fit(pod, node, served_by_devices=self._classes)
        if self._storage is not None:
            yield self._storage.on(pod, node)
        if self._spread is not None:
            yield self._spread.reject(node)
        if self._affinity is not None:
            yield self._affinity.reject(node)
        if self.classic is not None and isinstance(found := self.classic.plan(node), Rejection):
            yield found

    def extended_resource_claim(self, node: str) -> ResourceClaim | None:
        """The claim that the scheduler would make on this node for extended resources that devices serve."""
        there = self._nodes.get(node)
        if not self._resources or there is None:
            return None
        served = tuple(name for name in self._resources if not there.allocatable.scalars.get(name))
        if served not in self._claims:
            self._claims[served] = self._claim_for(served)
        return self._claims[served]

    def _claim_for(self, served: tuple[str, ...]) -> ResourceClaim | None:
        wanted = extended_resources.requests(self._pod, served, self._classes.device_class_of).requests
        if not wanted:
            return None
        claim = extended_resources.new_claim(self._pod, wanted)
        metadata: ObjectMeta = {**claim["metadata"], "name": f"{self._pod.name}-extended-resources"}
        return {**claim, "metadata": metadata}

    def node_usage(self, node: str) -> NodeUsage:
        there = self._nodes.get(node)
        if there is None:
            return NodeUsage()
        return NodeUsage(there.allocatable, there.requested, len(there.pods), there.max_pods)

    def blockers(self, node: str, reason: str) -> Sequence[str]:
        """The pods because of which a filter rejects the pod; for topology spread, how many pods are where."""
        there = self._nodes.get(node)
        if there is None:
            return ()
        if reason == "PodTopologySpread":
            return self._counts(there)
        found = dict.fromkeys(other.key for other in self._blocking_pods(there, reason))
        names = list(found)
        more = len(names) - _BLOCKERS_SHOWN
        return (*names[:_BLOCKERS_SHOWN], f"{more} others") if more > 0 else names

    def _blocking_pods(self, node: NodeInfo, reason: str) -> Iterator[PodInfo]:
        pod = self._pod
        if reason == "NodePorts":
            wanted = {(port.protocol, port.port) for port in pod.host_ports}
            for other in node.pods.values():
                if any((port.protocol, port.port) in wanted for port in other.host_ports):
                    yield other
            return
        existing = "existing pods" in reason
        for place in self._nodes:
            for other in place.pods.values():
                for term in other.anti_affinity if existing else pod.anti_affinity:
                    value = node.labels.get(term.topology_key)
                    if value is None or place.labels.get(term.topology_key) != value:
                        continue
                    if term.matches(*((pod,) if existing else (other,)), self._namespaces):
                        yield other

    def _counts(self, node: NodeInfo) -> list[str]:
        texts = []
        for constraint in self._constraints:
            here = node.labels.get(constraint.key)
            if not constraint.hard or here is None:
                continue
            counts: dict[str, int] = {}
            for place in self._nodes:
                value = place.labels.get(constraint.key)
                if value is not None and constraint.counts(self._pod, place):
                    matching = [
                        one
                        for one in place.pods.values()
                        if one.namespace == self._pod.namespace and constraint.matches(one.labels)
                    ]
                    counts[value] = counts.get(value, 0) + len(matching)
            least = min(counts, key=lambda value: counts[value], default="")
            if counts.get(here, 0) + 1 - counts.get(least, 0) > constraint.skew:
                texts.append(
                    f"{constraint.key}={here} has {counts.get(here, 0)} such pods, {least} has "
                    f"{counts.get(least, 0)}, and maxSkew is {constraint.skew}"
                )
        return texts


_FILTERS = (
    filters.node_unschedulable,
    filters.node_name,
    filters.taint_toleration,
    filters.node_affinity,
    filters.node_ports,
)
