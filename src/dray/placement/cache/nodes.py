"""The cache of nodes with their pods, and the log of changed nodes from which a ``ShapeIndex`` is brought up to date."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dray.api.compute import ComputeResources, compute_resources, minus, plus, whole
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES, HostPort, PodInfo

if TYPE_CHECKING:
    from dray.api.types.core import Node, Taint


class NodeInfo:
    """One node: what it offers, what is requested, and its pods. ``generation`` changes with every change."""

    __slots__ = (
        "allocatable", "document", "generation", "labels", "loosened", "max_pods", "name", "pods", "pods_with_node_allocatable",
        "ports", "requested", "score_cpu", "score_memory", "taints", "unschedulable",
    )  # fmt: skip

    def __init__(self, name: str) -> None:
        self.name = name
        self.document: Node | None = None
        self.labels: Mapping[str, str] = {}
        self.taints: Sequence[Taint] = ()
        self.unschedulable = False
        self.allocatable = ComputeResources()
        self.max_pods = 0
        self.requested = ComputeResources()
        self.score_cpu = self.score_memory = 0
        self.pods: dict[str, PodInfo] = {}
        self.pods_with_node_allocatable = 0  # pods whose claims take something of the node's own resources
        self.ports: dict[HostPort, int] = {}
        self.generation = 0
        self.loosened = 0  # the generation since which the node has only got fuller

    def describe(self, document: Node) -> None:
        spec, status = document.get("spec") or {}, document.get("status") or {}
        offered = status.get("allocatable") or {}
        self.document = document
        self.labels = document["metadata"].get("labels") or {}
        self.taints = spec.get("taints") or ()
        self.unschedulable = bool(spec.get("unschedulable"))
        self.allocatable = compute_resources(offered)
        self.max_pods = whole(str(offered.get("pods", 0)))

    def add_pod(self, pod: PodInfo) -> None:
        self.pods[pod.uid] = pod
        self.requested = plus(self.requested, pod.requests)
        self.score_cpu += pod.score_cpu
        self.score_memory += pod.score_memory
        if _has_node_allocatable(pod):
            self._count_node_allocatable(pod.node_allocatable, 1)
        for port in pod.host_ports:
            self.ports[port] = self.ports.get(port, 0) + 1

    def remove_pod(self, uid: str) -> PodInfo | None:
        pod = self.pods.pop(uid, None)
        if pod is None:
            return None
        self.requested = minus(self.requested, pod.requests)
        self.score_cpu -= pod.score_cpu
        self.score_memory -= pod.score_memory
        if _has_node_allocatable(pod):
            self._count_node_allocatable(pod.node_allocatable, -1)
        for port in pod.host_ports:
            left = self.ports[port] - 1
            if left:
                self.ports[port] = left
            else:
                del self.ports[port]
        return pod

    def _count_node_allocatable(self, taken: ComputeResources, sign: int) -> None:
        self.pods_with_node_allocatable += sign
        self.requested = (plus if sign > 0 else minus)(self.requested, taken)
        self.score_cpu += sign * taken.cpu
        self.score_memory += sign * taken.memory

    def without(self, uids: frozenset[str]) -> NodeInfo:
        """A copy of the node without some of its pods; preemption filters it."""
        copy = NodeInfo(self.name)
        for slot in ("document", "labels", "taints", "unschedulable", "allocatable", "max_pods"):
            setattr(copy, slot, getattr(self, slot))
        for uid, pod in self.pods.items():
            if uid not in uids:
                copy.add_pod(pod)
        return copy


class ClusterCache:
    """All nodes, and an append-only log of those that changed; each reader remembers its position in the log."""

    def __init__(self) -> None:
        self.by_name: dict[str, NodeInfo] = {}  # also nodes of which only their pods are known
        self._where: dict[str, str] = {}  # pod uid → node name
        self._groups: dict[tuple[str, str], dict[str, PodInfo]] = {}  # PodGroup → its pods that have a node
        self._unknown: set[str] = set()  # nodes that no Node object is known of, only pods bound to them
        self._generation = 0
        self.loosened = 0  # changes when something may have come free
        self._log: list[str] = []
        self._log_start = 0
        self.loosened_at = 0  # the position in the log since which nodes have only got fuller
        self.era = 0  # changes when something has changed that any node may depend on
        self.membership = 0  # changes when a node comes or goes
        self.pods_with_affinity = 0  # how many of the pods have affinity terms, which may concern new pods
        self._priorities: dict[int, int] = {}  # of pods, and how many have each
        self.prefer_no_schedule_nodes: set[str] = set()  # their score depends on that of other nodes

    def __len__(self) -> int:
        return len(self.by_name) - len(self._unknown)

    def __iter__(self) -> Iterator[NodeInfo]:
        """The nodes of which a Node object is known."""
        return (n for n in self.by_name.values() if n.document is not None)

    def get(self, name: str) -> NodeInfo | None:
        node = self.by_name.get(name)
        return node if node is not None and node.document is not None else None

    @property
    def position(self) -> int:
        return self._log_start + len(self._log)

    def changed_since(self, position: int) -> set[str] | None:
        """Names of nodes touched after ``position``; None when that is too long ago to tell."""
        if position < self._log_start:
            return None
        return set(self._log[position - self._log_start :])

    @property
    def generation(self) -> int:
        """The highest generation of all nodes."""
        return self._generation

    def touch(self, name: str, *, fuller: bool = False) -> None:
        """``fuller``: the node has something less to offer, and nothing more."""
        node = self.by_name.get(name)
        if not fuller:
            self.loosened += 1
        if node is not None:
            self._generation += 1
            node.generation = self._generation
            if not fuller:
                node.loosened = self._generation
        self._log.append(name)
        if not fuller:
            self.loosened_at = self.position
        if len(self._log) > 100_000:
            del self._log[:50_000]
            self._log_start += 50_000

    def touch_all(self) -> None:
        """Something changed that any node may depend on: no reader can use what it knows of any node."""
        self._log_start = self.position + 1
        self._log.clear()
        self.era += 1
        self.loosened += 1

    def touch_nodes(self, names: set[str] | None) -> None:
        """Devices came free on these nodes; None: on any."""
        if names is None:
            self.touch_all()
        else:
            for name in names:
                self.touch(name)

    def set_node(self, document: Node) -> NodeInfo:
        name = document["metadata"]["name"]
        node = self.by_name.get(name)
        if node is None:
            node = self.by_name[name] = NodeInfo(name)
        self._unknown.discard(name)
        if node.document is None:
            self.membership += 1
        node.describe(document)
        avoid = any(t.get("effect") == "PreferNoSchedule" for t in node.taints)
        (self.prefer_no_schedule_nodes.add if avoid else self.prefer_no_schedule_nodes.discard)(name)
        self.touch(name)
        return node

    def remove_node(self, name: str) -> None:
        node = self.by_name.get(name)
        if node is None:
            return
        self.prefer_no_schedule_nodes.discard(name)
        self.membership += 1
        if node.pods:
            node.document = None  # the node is forgotten when its last pod is deleted
            self._unknown.add(name)
        else:
            self._forget(name)
        self.touch(name)

    def _forget(self, name: str) -> None:
        del self.by_name[name]
        self._unknown.discard(name)

    def add_pod(self, pod: PodInfo, name: str) -> None:
        """The pod is bound, or assumed to be bound, to the node. Adding it again replaces the earlier version."""
        self.remove_pod(pod.uid)
        node = self.by_name.get(name)
        if node is None:
            node = self.by_name[name] = NodeInfo(name)
            self._unknown.add(name)
        node.add_pod(pod)
        self._where[pod.uid] = name
        if pod.group:
            self._groups.setdefault((pod.namespace, pod.group), {})[pod.uid] = pod
        self.pods_with_affinity += _has_affinity_terms(pod)
        self._priorities[pod.priority] = self._priorities.get(pod.priority, 0) + 1
        self.touch(name, fuller=True)

    def confirm(self, pod: PodInfo, name: str) -> bool:
        """Replace the pod on its node if the new version requests the same; False: it has to be added."""
        node = self.by_name.get(name)
        if node is None or (known := node.pods.get(pod.uid)) is None:
            return False
        if known.requests != pod.requests or known.labels != pod.labels or known.host_ports != pod.host_ports:
            return False
        if (
            _has_node_allocatable(known) or _has_node_allocatable(pod)
        ) and known.node_allocatable != pod.node_allocatable:
            return False
        node.pods[pod.uid] = pod
        return True

    def remove_pod(self, uid: str) -> PodInfo | None:
        name = self._where.pop(uid, None)
        if name is None:
            return None
        node = self.by_name[name]
        pod = node.remove_pod(uid)
        if pod is not None:
            self.pods_with_affinity -= _has_affinity_terms(pod)
            if pod.group:
                self._leave_group(pod)
            self._priorities[pod.priority] -= 1
            if not self._priorities[pod.priority]:
                del self._priorities[pod.priority]
        if node.document is None and not node.pods:
            self._forget(name)
        self.touch(name)
        return pod

    def _leave_group(self, pod: PodInfo) -> None:
        key = (pod.namespace, pod.group)
        members = self._groups.get(key, {})
        members.pop(pod.uid, None)
        if not members:
            self._groups.pop(key, None)

    def pods_of_group(self, namespace: str, group: str) -> Mapping[str, PodInfo]:
        """The pods of a PodGroup that have a node, or are about to get one, by uid."""
        return self._groups.get((namespace, group), {})

    def has_pods_below(self, priority: int) -> bool:
        """Whether some pod on a node has a lower priority."""
        return any(one < priority for one in self._priorities)

    def node_of(self, uid: str) -> str | None:
        return self._where.get(uid)

    def missing_pods(self, copy: NodeInfo) -> list[PodInfo]:
        """The pods of a node that are missing from a copy of it."""
        node = self.get(copy.name)
        return [p for uid, p in node.pods.items() if uid not in copy.pods] if node is not None else []


def _has_node_allocatable(pod: PodInfo) -> bool:
    """Whether claims of the pod take some of the node's own resources; few pods have such claims."""
    return "status" in pod.document and NODE_ALLOCATABLE_CLAIM_STATUSES in pod.document["status"]


def _has_affinity_terms(pod: PodInfo) -> bool:
    return bool(pod.anti_affinity or pod.affinity or pod.preferred_affinity or pod.preferred_anti_affinity)
