"""``PodInfo``: a pod with everything that decides where it may run, read from its document once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import msgspec

from dray.api import nodeaffinity
from dray.api.claims import claim_and_template_names
from dray.api.compute import ComputeResources, compute_resources, nonzero_requests, plus, pod_requests
from dray.api.validation.cache import content_key

if TYPE_CHECKING:
    from dray.api.types.core import (
        NodeAllocatableResourceClaimStatus,
        NodeSelector,
        Pod,
        PodAffinity,
        PodAffinityTerm,
        PodAntiAffinity,
        PodResourceClaim,
        PodSpec,
        PodStatus,
        Toleration,
        TopologySpreadConstraint,
    )
    from dray.api.types.meta import LabelSelector, LabelSelectorRequirement, ObjectMeta

_encode = msgspec.json.Encoder(order="deterministic").encode

#: the field of a pod's status that says what its claims take of the node's own resources
NODE_ALLOCATABLE_CLAIM_STATUSES: Final = "nodeAllocatableResourceClaimStatuses"


_NOTHING = ComputeResources()


class HostPort(NamedTuple):
    protocol: str
    ip: str
    port: int


def with_label_keys(
    selector: LabelSelector, labels: nodeaffinity.Labels, keys: Sequence[str] | None, operator: str
) -> LabelSelector:
    """The selector, which also asks for (``In``) or rules out (``NotIn``) the pod's own values of these labels."""
    own: list[LabelSelectorRequirement] = [
        {"key": k, "operator": operator, "values": [labels[k]]} for k in keys or () if k in labels
    ]
    if not own:
        return selector
    return {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *own]}


class AffinityTerm:
    """One pod (anti-)affinity term of a pod: which other pods it is about, over which topology."""

    __slots__ = (
        "_all_namespaces",
        "_namespace_selector",
        "_namespaces",
        "matches_labels",
        "topology_key",
        "weight",
    )

    def __init__(
        self, term: PodAffinityTerm, namespace: str, labels: nodeaffinity.Labels, *, weight: int = 0
    ) -> None:
        selector: LabelSelector | None = term.get("labelSelector")
        if selector is not None:
            selector = with_label_keys(selector, labels, term.get("matchLabelKeys"), "In")
            selector = with_label_keys(selector, labels, term.get("mismatchLabelKeys"), "NotIn")
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


def node_allocatable_amounts(status: NodeAllocatableResourceClaimStatus) -> Iterator[Mapping[str, str]]:
    """What one claim takes of its node's resources: 1.36's sum, or since 1.37 what devices stand for and overhead."""
    yield status.get("resources") or {}
    yield {one["name"]: one["quantity"] for one in status.get("mapping") or ()}
    overhead = status.get("overhead") or ()
    yield {one["name"]: one["perPod"] for one in overhead if "perPod" in one}
    for _ in status.get("containers") or ():
        yield {one["name"]: one["perContainer"] for one in overhead if "perContainer" in one}


class PodInfo(msgspec.Struct, eq=False):
    """An immutable view of a pod. ``shape`` is equal for pods that every node treats alike.

    Everything else is read from the document. A struct can be copied in one step.
    """

    document: Pod
    uid: str = ""
    name: str = ""
    namespace: str = ""
    created: str = ""
    labels: Mapping[str, str] = {}
    priority: int = 0
    requests: ComputeResources = ComputeResources()
    score_cpu: int = 0
    score_memory: int = 0
    tolerations: Sequence[Toleration] = ()
    node_test: nodeaffinity.NodeTest | None = None
    pinned: frozenset[str] | None = (
        None  # the nodes that required affinity names, as that of daemon pods does
    )
    preferred_nodes: tuple[tuple[int, nodeaffinity.NodeTest], ...] = ()
    host_ports: tuple[HostPort, ...] = ()
    group: str = ""  # the PodGroup that the pod is scheduled with
    claims: Sequence[PodResourceClaim] = ()
    named_claims: tuple[str, ...] = ()  # the claims that are named in the spec; other pods may use them too
    spread: Sequence[TopologySpreadConstraint] = ()
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
        if "schedulingGroup" in spec:
            self.group = spec["schedulingGroup"].get("podGroupName") or ""
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

    def _read_metadata(self, metadata: ObjectMeta) -> None:
        self.uid = metadata["uid"]
        self.name = metadata["name"]
        self.namespace = metadata["namespace"]
        self.created = metadata.get("creationTimestamp") or ""

    def updated(self, document: Pod) -> PodInfo:
        """The view of a newer version; cheap when only its status has changed, or it was bound."""
        if (document["metadata"].get("labels") or {}) != self.labels or not _same_spec(
            document["spec"], self.document["spec"]
        ):
            return PodInfo(document)
        new = _copy(self)
        new.document = document
        return new

    def of_another(self, document: Pod) -> PodInfo:
        """The view of another pod that has the same namespace, labels and spec."""
        new = _copy(self)
        new.document = document
        new._read_metadata(document["metadata"])
        return new

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def is_plain(self) -> bool:
        """Whether of the filters that look at one node alone only resources, taints and cordons can reject the pod."""
        return self.node_test is None and not self.host_ports and "nodeName" not in self.document["spec"]

    @property
    def ignores_identity_of_nodes(self) -> bool:
        """Whether filters do not look at names and labels of nodes."""
        return self.node_test is None and not self.document["spec"].get("nodeName")

    @property
    def has_affinity_or_spread(self) -> bool:
        """Whether filters or scores depend on where other pods run."""
        return bool(
            self.spread
            or self.affinity
            or self.anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

    @property
    def node_allocatable(self) -> ComputeResources:
        """What the pod's claims take of its node's resources, beyond what the pod requests itself."""
        document = self.document
        if "status" not in document or not document["status"].get(NODE_ALLOCATABLE_CLAIM_STATUSES):
            return _NOTHING
        named = (document["spec"].get("resources") or {}).get("requests") or ()
        total = _NOTHING
        for status in document["status"][NODE_ALLOCATABLE_CLAIM_STATUSES]:
            for resources in node_allocatable_amounts(status):
                total = plus(
                    total, compute_resources({name: v for name, v in resources.items() if name not in named})
                )
        return total

    def with_node_allocatable(self, statuses: Sequence[NodeAllocatableResourceClaimStatus]) -> PodInfo:
        """The view of the pod as it will be when its status says what its claims take of the node's resources."""
        status: PodStatus = {**(self.document.get("status") or {}), NODE_ALLOCATABLE_CLAIM_STATUSES: statuses}
        return self.updated({**self.document, "status": status})

    @property
    def nominated_node(self) -> str:
        return (self.document.get("status") or {}).get("nominatedNodeName") or ""

    @property
    def terminating(self) -> bool:
        return "deletionTimestamp" in self.document["metadata"]

    def _terms(self, affinity: PodAffinity | PodAntiAffinity | None) -> tuple[AffinityTerm, ...]:
        required = (affinity or {}).get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple(AffinityTerm(t, self.namespace, self.labels) for t in required)

    def _preferences(self, affinity: PodAffinity | PodAntiAffinity | None) -> tuple[AffinityTerm, ...]:
        preferred = (affinity or {}).get("preferredDuringSchedulingIgnoredDuringExecution") or ()
        return tuple(
            AffinityTerm(p["podAffinityTerm"], self.namespace, self.labels, weight=p["weight"])
            for p in preferred
        )


#: The fields of a spec that a ``PodInfo`` is made from; of containers and volumes it reads only parts.
_FIELDS: Final = (
    "priority", "resources", "overhead", "tolerations", "nodeSelector", "affinity", "schedulingGroup", "resourceClaims",
    "topologySpreadConstraints",
)  # fmt: skip


def _what_is_read(document: Pod) -> bytes:
    """Equal for pods whose views differ in nothing but their metadata.

    The rest of a spec may differ from pod to pod: the volume with the token of the service account has a name that is
    drawn for each.
    """
    metadata, spec = document["metadata"], document["spec"]
    field = spec.get
    return content_key(
        metadata["namespace"],
        metadata.get("labels"),
        [field(name) for name in _FIELDS],
        [(c.get("resources"), c.get("ports")) for c in spec.get("containers") or ()],
        [
            (c.get("resources"), c.get("ports"), c.get("restartPolicy"))
            for c in spec.get("initContainers") or ()
        ],
        [v["persistentVolumeClaim"] for v in spec.get("volumes") or () if "persistentVolumeClaim" in v],
    )


class PodInfoFactory:
    """Makes views of pods. Thousands of pods may be made from one template: their spec is read once."""

    __slots__ = ("_known", "_size")

    def __init__(self, size: int = 64) -> None:
        self._known: dict[bytes, PodInfo] = {}
        self._size = size

    def of(self, document: Pod) -> PodInfo:
        key = _what_is_read(document)
        known = self._known.get(key)
        if known is not None:
            return known.of_another(document)
        pod = PodInfo(document)
        if key:
            if len(self._known) >= self._size:
                del self._known[next(iter(self._known))]
            self._known[key] = pod
        return pod


def _copy(pod: PodInfo) -> PodInfo:
    """What ``copy.copy`` does, without its search for the way to do it."""
    copied: PodInfo = pod.__copy__()  # type: ignore[attr-defined]
    return copied


def _same_spec(new: PodSpec, old: PodSpec) -> bool:
    """Whether two specs are equal, except that the newer one may have a nodeName.

    The generation does not tell: releases that do not keep it take from a client whatever it says.
    """
    return new == old or ("nodeName" not in old and new == {**old, "nodeName": new.get("nodeName")})


def _pinned(required: NodeSelector) -> frozenset[str] | None:
    """The nodes that every term names; empty if terms contradict themselves, None if a term names no nodes."""
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


def _host_ports(spec: PodSpec) -> tuple[HostPort, ...]:
    ports: list[HostPort] = []
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*sidecars, *(spec.get("containers") or ())):
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if number:
                ports.append(HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return tuple(ports)
