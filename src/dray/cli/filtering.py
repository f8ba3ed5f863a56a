"""The scheduler's own filters, for the tools that say what keeps a pod off a node."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dray.explain.placing import Judge, Load, Refusal, Scheduling
from dray.scheduler import extended, filters, neighbours
from dray.scheduler.nodes import Cluster as Nodes
from dray.scheduler.nodes import Node
from dray.scheduler.pods import Pod
from dray.scheduler.verdicts import Rejection
from dray.scheduler.volumes import Storage

if TYPE_CHECKING:
    from dray.explain import Cluster
    from dray.explain.snapshot import Document

_WHO_SHOWN = 3
_STORAGE = ("PersistentVolumeClaim", "PersistentVolume", "StorageClass")


def scheduling(cluster: Cluster) -> Scheduling:
    """Nodes and pods of a snapshot as the scheduler has them."""
    return _Scheduling(cluster)


class _Scheduling:
    def __init__(self, cluster: Cluster) -> None:
        snapshot = cluster.snapshot
        self.nodes = Nodes()
        for node in snapshot.nodes:
            self.nodes.set_node(node)
        for pod in snapshot.pods:
            spec = pod.get("spec") or {}
            if spec.get("nodeName") and (pod.get("status") or {}).get("phase") not in ("Succeeded", "Failed"):
                self.nodes.place(_read(pod), spec["nodeName"])
        self.classes = extended.ClassNames()
        if "DRAExtendedResource" in cluster.gates:
            for one in snapshot.classes:
                self.classes.set(one)
        self.namespaces: neighbours.Namespaces = {
            name: (one.get("metadata") or {}).get("labels") or {} for name, one in cluster.namespaces.items()
        }
        self.storage = None if set(_STORAGE) & set(snapshot.unread) else _storage(cluster)

    def judge(self, pod: Document) -> Judge:
        return _Judge(self, _read(pod))

    def place(self, pod: Document, node: str) -> None:
        self.nodes.place(_read(pod), node)


def _read(pod: Document) -> Pod:
    """A pod from a manifest may still lack what the server would give it."""
    metadata = pod.get("metadata") or {}
    name, namespace = metadata.get("name") or "", metadata.get("namespace") or "default"
    known = {"name": name, "namespace": namespace, "uid": f"{namespace}/{name}"}
    return Pod({**pod, "metadata": {**known, **metadata}, "spec": pod.get("spec") or {}})


def _storage(cluster: Cluster) -> Storage:
    snapshot = cluster.snapshot
    by_name: list[Mapping[tuple[str, str], Document]] = [
        {(one["metadata"].get("namespace") or "", one["metadata"]["name"]): one for one in documents}
        for documents in (snapshot.volume_claims, snapshot.volumes, snapshot.storage_classes)
    ]
    claims, volumes, classes = by_name
    return Storage(
        volume_claim=lambda namespace, name: claims.get((namespace, name)),
        volume=lambda name: volumes.get(("", name)),
        storage_class=lambda name: classes.get(("", name)),
    )


class _Judge:
    def __init__(self, scheduling: _Scheduling, pod: Pod) -> None:
        self._nodes = scheduling.nodes
        self._classes = scheduling.classes
        self._namespaces = scheduling.namespaces
        self._pod = pod
        everyone = list(self._nodes)
        self._storage = scheduling.storage if pod.volume_claims else None
        self._affinity = self._spread = None
        self._constraints = [neighbours.Constraint.of(spec, pod.labels) for spec in pod.spread]
        if pod.affinity or pod.anti_affinity or self._nodes.picky_pods:
            self._affinity = neighbours.Affinity(pod, everyone, self._namespaces)
        if any(one.hard for one in self._constraints):
            self._spread = neighbours.Spread(pod, everyone, self._constraints)
        self._resources = extended.wanted(pod, self._classes)
        self._generated: dict[tuple[str, ...], Document | None] = {}

    def before(self) -> Refusal | None:
        rejection = self._storage.reject(self._pod) if self._storage is not None else None
        return None if rejection is None else Refusal(rejection.plugin, rejection.reasons)

    def on(self, node: str) -> Sequence[Refusal]:
        there = self._nodes.get(node)
        if there is None:
            return ()
        return [Refusal(one.plugin, one.reasons) for one in self._rejections(there) if one is not None]

    def _rejections(self, node: Node) -> Iterator[Rejection | None]:
        pod = self._pod
        for test in _FILTERS:
            yield test(pod, node)
        if (((node.document or {}).get("status") or {}).get("allocatable")) is not None:
            # A node from a manifest may not say what it has; that is not held against it.
            yield filters.resources_fit(pod, node, served_by_devices=self._classes)
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
        wanted = extended.requests(self._pod, served, self._classes.serving).requests
        if not wanted:
            return None
        claim: dict[str, Any] = extended.template(self._pod)
        metadata = {**claim["metadata"], "name": f"{self._pod.name}-extended-resources"}
        return {**claim, "metadata": metadata, "spec": {"devices": {"requests": wanted}}}

    def load(self, node: str) -> Load:
        there = self._nodes.get(node)
        if there is None:
            return Load()
        return Load(there.allocatable, there.requested, len(there.pods), there.max_pods)

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

    def _in_the_way(self, node: Node, reason: str) -> Iterator[Pod]:
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

    def _counts(self, node: Node) -> list[str]:
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
