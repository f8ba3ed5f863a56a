"""The scheduler's own filters, for the tools that say what keeps a pod off a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from dray.explain.nodes.causes import NodeFilters, NodeUsage, PodFilters, Refusal
from dray.placement.cache.nodes import ClusterCache as Nodes
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.plugins import extended_resources, filters, inter_pod_affinity, pod_topology_spread
from dray.placement.plugins.volume_binding import VolumeBinding
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.explain import Cluster
    from dray.explain.model.snapshot import Document

_WHO_SHOWN = 3
_STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


def node_filters(cluster: Cluster) -> NodeFilters:
    """Nodes and pods of a snapshot as the scheduler has them."""
    return _NodeFilters(cluster)


class _NodeFilters:
    def __init__(self, cluster: Cluster) -> None:
        snapshot = cluster.snapshot
        self.nodes = Nodes()
        for node in snapshot.nodes:
            self.nodes.set_node(node)
        for pod in snapshot.pods:
            spec = pod.get("spec") or {}
            if spec.get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                self.nodes.add_pod(_read(pod), spec["nodeName"])
        self.classes = extended_resources.DeviceClassResolver()
        if "DRAExtendedResource" in cluster.gates:
            for one in snapshot.classes:
                self.classes.set(one)
        self.namespaces: inter_pod_affinity.Namespaces = {
            name: (one.get("metadata") or {}).get("labels") or {} for name, one in cluster.namespaces.items()
        }
        self.storage = None if set(_STORAGE) & set(snapshot.unread) else _storage(cluster)

    def pod_filters(self, pod: Document) -> PodFilters:
        return _PodFilters(self, _read(pod))

    def place(self, pod: Document, node: str) -> None:
        self.nodes.add_pod(_read(pod), node)


def _read(pod: Document) -> PodInfo:
    """A pod from a manifest may still lack what the server would give it."""
    metadata = pod.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or "default"
    known = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return PodInfo(cast("Pod", {**pod, "metadata": {**known, **metadata}, "spec": pod.get("spec") or {}}))


def _storage(cluster: Cluster) -> VolumeBinding:
    snapshot = cluster.snapshot
    by_name: list[Mapping[tuple[str, str], Document]] = [
        {(one["metadata"].get("namespace") or "", one["metadata"]["name"]): one for one in documents}
        for documents in (snapshot.volume_claims, snapshot.volumes, snapshot.storage_classes)
    ]
    claims, volumes, classes = by_name
    return VolumeBinding(
        volume_claim=lambda namespace, name: claims.get((namespace, name)),
        volume=lambda name: volumes.get(("", name)),
        storage_class=lambda name: classes.get(("", name)),
    )


class _PodFilters:
    def __init__(self, node_filters: _NodeFilters, pod: PodInfo) -> None:
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
        self._generated: dict[tuple[str, ...], Document | None] = {}

    def before(self) -> Refusal | None:
        rejection = self._storage.reject(self._pod) if self._storage is not None else None
        return None if rejection is None else Refusal(rejection.plugin, rejection.reasons)

    def on(self, node: str) -> Sequence[Refusal]:
        there = self._nodes.get(node)
        if there is None:
            return ()
        return [Refusal(one.plugin, one.reasons) for one in self._rejections(there) if one is not None]

    def _rejections(self, node: NodeInfo) -> Iterator[Rejection | None]:
        pod = self._pod
        for test in _FILTERS:
            yield test(pod, node)
        if (((node.document or {}).get("status") or {}).get("allocatable")) is not None:
            # A node from a manifest may not say what it has; that is not held against it.
            yield filters.node_resources_fit(pod, node, served_by_devices=self._classes)
        if self._storage is not None:
            yield self._storage.on(pod, node)
        if self._spread is not None:
            yield self._spread.reject(node)
        if self._affinity is not None:
            yield self._affinity.reject(node)

    def generated(self, node: str) -> Document | None:
        there = self._nodes.get(node)
        if not self._resources or there is None:
            return None
        served = tuple(name for name in self._resources if not there.allocatable.scalars.get(name))
        if served not in self._generated:
            self._generated[served] = self._claim_for(served)
        return self._generated[served]

    def _claim_for(self, served: tuple[str, ...]) -> Document | None:
        wanted = extended_resources.requests(self._pod, served, self._classes.device_class_of).requests
        if not wanted:
            return None
        claim = extended_resources.new_claim(self._pod, wanted)
        metadata = {**claim["metadata"], "name": f"{self._pod.name}-extended-resources"}
        return {**claim, "metadata": metadata}

    def load(self, node: str) -> NodeUsage:
        there = self._nodes.get(node)
        if there is None:
            return NodeUsage()
        return NodeUsage(there.allocatable, there.requested, len(there.pods), there.max_pods)

    # -- who is in the way --

    def evidence(self, node: str, reason: str) -> Sequence[str]:
        there = self._nodes.get(node)
        if there is None:
            return ()
        if reason == "PodTopologySpread":
            return self._counts(there)
        found = dict.fromkeys(other.key for other in self._in_the_way(there, reason))
        names = list(found)
        more = len(names) - _WHO_SHOWN
        return (*names[:_WHO_SHOWN], f"{more} others") if more > 0 else names

    def _in_the_way(self, node: NodeInfo, reason: str) -> Iterator[PodInfo]:
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
        told = []
        for constraint in self._constraints:
            here = node.labels.get(constraint.key)
            if not constraint.hard or here is None:
                continue
            counts: dict[str, int] = {}
            for place in self._nodes:
                value = place.labels.get(constraint.key)
                if value is not None and constraint.counts(self._pod, place):
                    alike = [
                        one
                        for one in place.pods.values()
                        if one.namespace == self._pod.namespace and constraint.matches(one.labels)
                    ]
                    counts[value] = counts.get(value, 0) + len(alike)
            least = min(counts, key=lambda value: counts[value], default="")
            if counts.get(here, 0) + 1 - counts.get(least, 0) > constraint.skew:
                told.append(
                    f"{constraint.key}={here} has {counts.get(here, 0)} such pods, {least} has "
                    f"{counts.get(least, 0)}, and maxSkew is {constraint.skew}"
                )
        return told


_FILTERS = (
    filters.node_unschedulable,
    filters.node_name,
    filters.taint_toleration,
    filters.node_affinity,
    filters.node_ports,
)
