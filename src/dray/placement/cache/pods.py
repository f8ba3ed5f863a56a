"""A pod as the scheduler sees it: everything that decides where it may go, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple

import msgspec

from dray.api import nodeaffinity
from dray.api.claims import claim_and_template_names
from dray.api.compute import ComputeResources, compute_resources, nonzero_requests, plus, pod_requests
from dray.api.validation.cache import content_key

_encode = msgspec.json.Encoder(order="deterministic").encode

#: where a pod's status tells what its claims take of the node's own resources
NODE_ALLOCATABLE_CLAIM_STATUSES = "nodeAllocatableResourceClaimStatuses"


_NOTHING = ComputeResources()


class HostPort(NamedTuple):
    protocol: str
    ip: str
    port: int


class AffinityTerm:
    """One pod (anti-)affinity term of a pod: which pods it speaks of, over which topology."""

    __slots__ = (
        "_all_namespaces",
        "_namespace_selector",
        "_namespaces",
        "matches_labels",
        "topology_key",
        "weight",
    )

    def __init__(
        self, term: Mapping[str, Any], namespace: str, labels: nodeaffinity.Labels, *, weight: int = 0
    ) -> None:
        selector = term.get("labelSelector")
        extra = [
            *({"key": k, "operator": "In", "values": [labels[k]]} for k in term.get("matchLabelKeys") or () if k in labels),
            *({"key": k, "operator": "NotIn", "values": [labels[k]]} for k in term.get("mismatchLabelKeys") or () if k in labels),
        ]  # fmt: skip
        if selector is not None and extra:
            selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
        self.matches_labels = nodeaffinity.label_selector(selector)
        self.topology_key: str = term.get("topologyKey") or ""
        self.weight = weight
        chosen = term.get("namespaceSelector")
        self._all_namespaces = chosen == {}
        self._namespace_selector = nodeaffinity.label_selector(chosen) if chosen else None
        named = term.get("namespaces") or ()
        self._namespaces = frozenset(named or (() if chosen is not None else (namespace,)))

    def matches(self, pod: PodInfo, namespace_labels: Mapping[str, nodeaffinity.Labels]) -> bool:
        if not (
            self._all_namespaces
            or pod.namespace in self._namespaces
            or (
                self._namespace_selector is not None
                and self._namespace_selector(namespace_labels.get(pod.namespace) or {})
            )
        ):
            return False
        return self.matches_labels(pod.labels)


class PodInfo(msgspec.Struct, eq=False):
    """An immutable view of a pod document. ``shape`` is equal for pods that every node treats alike.

    All but the document is worked out from it; as a struct, a view is copied in one step.
    """

    document: Mapping[str, Any]
    uid: str = ""
    name: str = ""
    namespace: str = ""
    created: str = ""
    labels: Mapping[str, str] = {}
    priority: int = 0
    requests: ComputeResources = ComputeResources()
    score_cpu: int = 0
    score_memory: int = 0
    tolerations: Sequence[Mapping[str, Any]] = ()
    node_test: nodeaffinity.NodeTest | None = None
    pinned: frozenset[str] | None = None  # the nodes that required affinity names outright, as daemon pods do
    preferred_nodes: tuple[tuple[int, nodeaffinity.NodeTest], ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    claims: Sequence[Mapping[str, Any]] = ()
    named_claims: tuple[str, ...] = ()  # those that it has in common with others, perhaps
    spread: Sequence[Mapping[str, Any]] = ()
    volume_claims: tuple[str, ...] = ()
    affinity: tuple[AffinityTerm, ...] = ()
    anti_affinity: tuple[AffinityTerm, ...] = ()
    preferred_affinity: tuple[AffinityTerm, ...] = ()
    preferred_anti_affinity: tuple[AffinityTerm, ...] = ()
    shape: bytes = b""

    def __post_init__(self) -> None:
        self._read_metadata(self.document["metadata"])
        spec = self.document["spec"]
        self.labels = self.document["metadata"].get("labels") or {}
        self.priority = spec.get("priority") or 0
        self.requests = pod_requests(spec)
        self.score_cpu, self.score_memory = nonzero_requests(spec, self.requests)
        self.tolerations = spec.get("tolerations") or ()
        self.node_test = nodeaffinity.required_node_affinity(spec)
        self.host_ports = _host_ports(spec)
        self.claims = spec.get("resourceClaims") or ()
        self.named_claims = tuple(
            name for e in self.claims if (name := claim_and_template_names(e)[0]) is not None
        )
        self.spread = spec.get("topologySpreadConstraints") or ()
        self.volume_claims = tuple(
            v["persistentVolumeClaim"]["claimName"]
            for v in spec.get("volumes") or ()
            if v.get("persistentVolumeClaim")
        )
        affinity = spec.get("affinity") or {}
        nodes = affinity.get("nodeAffinity") or {}
        self.affinity = self._terms(affinity.get("podAffinity"))
        self.anti_affinity = self._terms(affinity.get("podAntiAffinity"))
        self.preferred_affinity = self._preferences(affinity.get("podAffinity"))
        self.preferred_anti_affinity = self._preferences(affinity.get("podAntiAffinity"))
        self.pinned = _pinned(nodes.get("requiredDuringSchedulingIgnoredDuringExecution") or {})
        self.preferred_nodes = tuple(
            (p["weight"], nodeaffinity.node_selector_term(p.get("preference") or {}))
            for p in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        )
        self.shape = _encode(
            (
                self.requests, self.score_cpu, self.score_memory, self.tolerations, spec.get("nodeSelector"),
                affinity.get("nodeAffinity"), self.host_ports,
            )
        )  # fmt: skip

    def _read_metadata(self, metadata: Mapping[str, Any]) -> None:
        self.uid = metadata["uid"]
        self.name = metadata["name"]
        self.namespace = metadata["namespace"]
        self.created = metadata.get("creationTimestamp") or ""

    def updated(self, document: Mapping[str, Any]) -> PodInfo:
        """The view of a newer document; cheap when only its status has changed, or it was given its node."""
        if (document["metadata"].get("labels") or {}) != self.labels or not _same_spec(
            document["spec"], self.document["spec"]
        ):
            return PodInfo(document)
        new = copy(self)
        new.document = document
        return new

    def of_another(self, document: Mapping[str, Any]) -> PodInfo:
        """The view of another pod that has the same namespace, labels and spec."""
        new = copy(self)
        new.document = document
        new._read_metadata(document["metadata"])
        return new

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def has_affinity_or_spread(self) -> bool:
        """Whether feasibility or score depend on where other pods are."""
        return bool(
            self.spread
            or self.affinity
            or self.anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

    @property
    def node_allocatable(self) -> ComputeResources:
        """What the pod's claims take of its node's resources, beyond what the pod asks for itself."""
        document = self.document
        if "status" not in document or not document["status"].get(NODE_ALLOCATABLE_CLAIM_STATUSES):
            return _NOTHING
        named = (document["spec"].get("resources") or {}).get("requests") or ()
        total = _NOTHING
        for status in document["status"][NODE_ALLOCATABLE_CLAIM_STATUSES]:
            resources = status.get("resources") or {}
            total = plus(
                total, compute_resources({name: v for name, v in resources.items() if name not in named})
            )
        return total

    def with_node_allocatable(self, statuses: Sequence[Mapping[str, Any]]) -> PodInfo:
        """The view of the pod as it will be when its claims take so much of its node's resources."""
        status = {**(self.document.get("status") or {}), NODE_ALLOCATABLE_CLAIM_STATUSES: statuses}
        return self.updated({**self.document, "status": status})

    @property
    def nominated_node(self) -> str:
        return (self.document.get("status") or {}).get("nominatedNodeName") or ""

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in self.document["metadata"]

    def _terms(self, kind: Mapping[str, Any] | None) -> tuple[AffinityTerm, ...]:
        required = (kind or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple(AffinityTerm(t, self.namespace, self.labels) for t in required)

    def _preferences(self, kind: Mapping[str, Any] | None) -> tuple[AffinityTerm, ...]:
        preferred = (kind or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple(
            AffinityTerm(p["podAffinityTerm"], self.namespace, self.labels, weight=p["weight"])
            for p in preferred
        )


class PodInfoFactory:
    """Makes views of pods, of which thousands may be made from one template: what they ask for is read once."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int = 64) -> None:
        self._known: dict[bytes, PodInfo] = {}
        self._size = size

    def of(self, document: Mapping[str, Any]) -> PodInfo:
        metadata = document["metadata"]
        key = content_key(metadata["namespace"], metadata.get("labels"), document["spec"])
        known = self._known.get(key)
        if known is not None:
            return known.of_another(document)
        pod = PodInfo(document)
        if key:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[key] = pod
        return pod


def _same_spec(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether two specs are equal, but perhaps for the node that the newer one has got."""
    return new == old or ("nodeName" not in old and new == {**old, "nodeName": new.get("nodeName")})


def _pinned(required: Mapping[str, Any]) -> frozenset[str] | None:
    """The nodes named outright; none at all where terms contradict themselves, None where any node may be meant."""
    terms = required.get("nodeSelectorTerms")
    if not terms:
        return None
    named: set[str] = set()
    for term in terms:
        names: set[str] | None = None
        for f in term.get("matchFields") or ():
            if f.get("key") == "metadata.name" and f.get("operator") == "In":
                values = set(f.get("values") or ())
                names = values if names is None else names & values
        if names is None:
            return None
        named |= names
    return frozenset(named)


def _host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    ports: list[HostPort] = []
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if number:
                ports.append(HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return tuple(ports)
