"""A pod as the scheduler sees it: everything that decides where it may go, worked out once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from dray.api import matching
from dray.api.amounts import Amounts, pod_requests, scoring_requests

_encode = msgspec.json.Encoder(order="deterministic").encode
_NO_ITEMS: tuple[Any, ...] = ()


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
        self, term: Mapping[str, Any], namespace: str, labels: matching.Labels, *, weight: int = 0
    ) -> None:
        selector = term.get("labelSelector")
        extra = [
            *({"key": k, "operator": "In", "values": [labels[k]]} for k in term.get("matchLabelKeys") or () if k in labels),
            *({"key": k, "operator": "NotIn", "values": [labels[k]]} for k in term.get("mismatchLabelKeys") or () if k in labels),
        ]  # fmt: skip
        if selector is not None and extra:
            selector = {**selector, "matchExpressions": [*(selector.get("matchExpressions") or ()), *extra]}
        self.matches_labels = matching.label_selector(selector)
        self.topology_key: str = term.get("topologyKey") or ""
        self.weight = weight
        chosen = term.get("namespaceSelector")
        self._all_namespaces = chosen == {}
        self._namespace_selector = matching.label_selector(chosen) if chosen else None
        named = term.get("namespaces") or ()
        self._namespaces = frozenset(named or (() if chosen is not None else (namespace,)))

    def matches(self, pod: Pod, namespace_labels: Mapping[str, matching.Labels]) -> bool:
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


class Pod:
    """An immutable view of a pod document. ``shape`` is equal for pods that every node treats alike."""

    __slots__ = (
        "affinity",
        "anti_affinity",
        "claims",
        "created",
        "document",
        "host_ports",
        "labels",
        "name",
        "namespace",
        "node_test",
        "preferred_affinity",
        "preferred_anti_affinity",
        "preferred_nodes",
        "priority",
        "requests",
        "score_cpu",
        "score_memory",
        "shape",
        "spread",
        "tolerations",
        "uid",
        "volume_claims",
    )  # fmt: skip

    def __init__(self, document: Mapping[str, Any]) -> None:
        metadata, spec = document["metadata"], document["spec"]
        self.document = document
        self.uid: str = metadata["uid"]
        self.name: str = metadata["name"]
        self.namespace: str = metadata["namespace"]
        self.labels: Mapping[str, str] = metadata.get("labels") or {}
        self.created: str = metadata.get("creationTimestamp") or ""
        self.priority: int = spec.get("priority") or 0
        self.requests: Amounts = pod_requests(spec)
        self.score_cpu, self.score_memory = scoring_requests(spec, self.requests)
        self.tolerations: Sequence[Mapping[str, Any]] = spec.get("tolerations") or _NO_ITEMS
        self.node_test = matching.pod_node_test(spec)
        self.host_ports = _host_ports(spec)
        self.claims: Sequence[Mapping[str, Any]] = spec.get("resourceClaims") or _NO_ITEMS
        self.spread: Sequence[Mapping[str, Any]] = spec.get("topologySpreadConstraints") or _NO_ITEMS
        self.volume_claims = tuple(
            v["persistentVolumeClaim"]["claimName"]
            for v in spec.get("volumes") or ()
            if v.get("persistentVolumeClaim")
        )
        affinity = spec.get("affinity") or {}
        self.affinity = self._terms(affinity.get("podAffinity"))
        self.anti_affinity = self._terms(affinity.get("podAntiAffinity"))
        self.preferred_affinity = self._preferences(affinity.get("podAffinity"))
        self.preferred_anti_affinity = self._preferences(affinity.get("podAntiAffinity"))
        self.preferred_nodes = tuple(
            (p["weight"], matching.node_term(p.get("preference") or {}))
            for p in (affinity.get("nodeAffinity") or {}).get(
                "preferredDuringSchedulingIgnoredDuringExecution"
            )
            or ()
        )
        self.shape: bytes = _encode(
            (
                self.requests, self.score_cpu, self.score_memory, self.tolerations, spec.get("nodeSelector"),
                affinity.get("nodeAffinity"), self.host_ports,
            )
        )  # fmt: skip

    def updated(self, document: Mapping[str, Any]) -> Pod:
        """The view of a newer document; cheap when only its status has changed, or it was given its node."""
        if (document["metadata"].get("labels") or {}) != self.labels or not _asks_the_same(
            document["spec"], self.document["spec"]
        ):
            return Pod(document)
        copy = Pod.__new__(Pod)
        for slot in Pod.__slots__:
            setattr(copy, slot, getattr(self, slot))
        copy.document = document
        return copy

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def looks_at_other_pods(self) -> bool:
        """Whether feasibility or score depend on where other pods are."""
        return bool(
            self.spread
            or self.affinity
            or self.anti_affinity
            or self.preferred_affinity
            or self.preferred_anti_affinity
        )

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


def _asks_the_same(new: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    if len(new) == len(old):
        return new == old
    return {k: v for k, v in new.items() if k != "nodeName"} == old


def _host_ports(spec: Mapping[str, Any]) -> tuple[HostPort, ...]:
    ports: list[HostPort] = []
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        if container.get("restartPolicy") not in (None, "Always"):
            continue
        for port in container.get("ports") or ():
            number = port.get("hostPort")
            if number:
                ports.append(HostPort(port.get("protocol") or "TCP", port.get("hostIP") or "0.0.0.0", number))
    return tuple(ports)
