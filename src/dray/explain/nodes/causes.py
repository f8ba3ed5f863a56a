"""What keeps a pod off a node, devices aside, in words.

The scheduler's filters decide whether a node takes a pod (``filters``). This module puts their rejections into words
that a person can act on, and only for the few nodes that an explanation describes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

from dray.api import nodeaffinity
from dray.api.compute import ComputeResources, pod_requests
from dray.api.quantity import Quantity
from dray.explain.classic import unsuitable_detail

if TYPE_CHECKING:
    from dray.api.types.core import NodeSelectorTerm, Pod, PodAffinity, PodAntiAffinity, PodSpec, Taint
    from dray.explain.model.cluster import Cluster
    from dray.explain.nodes.filters import PodFilters
    from dray.placement.status import Rejection

_UNSUITABLE = "resourceclaim cannot be allocated for the node (unsuitable)"
_CORDON = "node.kubernetes.io/unschedulable"


class NodeCause(NamedTuple):
    """One reason why a node does not take the pod; ``kind`` is equal for nodes with the same reason."""

    kind: str
    rejection: Rejection


class CauseMessage(NamedTuple):
    """A cause in words, and what would help."""

    detail: str
    advice: str = ""


class NodeCauses:
    """The causes that keep one pod off nodes."""

    def __init__(self, cluster: Cluster, pod: Pod, pod_filters: PodFilters) -> None:
        self._cluster = cluster
        self._spec = pod.get("spec") or {}
        self._requests = pod_requests(self._spec)
        self._pod_filters = pod_filters

    def causes(self, name: str) -> tuple[NodeCause, ...]:
        rejections = self._pod_filters.filter(name)
        return tuple(self._causes(name, rejections)) if rejections else ()

    def _causes(self, name: str, rejections: Sequence[Rejection]) -> Iterator[NodeCause]:
        for rejection in rejections:
            match rejection.plugin:
                case "NodeUnschedulable":
                    yield NodeCause("cordoned", rejection)
                case "TaintToleration":
                    text = self._taint(name)
                    if not text.startswith(_CORDON):
                        yield NodeCause(f"untolerated node taint {text}", rejection)
                case "NodeResourcesFit":
                    for reason in rejection.reasons:
                        kind = reason[0].lower() + reason[1:]
                        yield NodeCause(kind, rejection._replace(reasons=(reason,)))
                case _:
                    kinds = [_KINDS.get(reason, reason) for reason in rejection.reasons]
                    yield NodeCause(", ".join(kinds), rejection)

    def message(self, name: str, cause: NodeCause) -> CauseMessage:
        reasons = cause.rejection.reasons
        match cause.rejection.plugin:
            case "NodeUnschedulable":
                return CauseMessage("the node is cordoned", f"kubectl uncordon {name}")
            case "TaintToleration":
                text = self._taint(name)
                help = f"give the pod a toleration for {text}, or remove the taint from the node"
                return CauseMessage(f"the node has taint {text}", help)
            case "NodeName":
                return CauseMessage(f"the pod is for node {self._spec.get('nodeName')}")
            case "NodeAffinity":
                help = "change the pod's nodeSelector or affinity, or label a node"
                return CauseMessage(f"the pod wants {_wanted(self._spec)}", help)
            case "NodePorts":
                return self._ports(name)
            case "NodeResourcesFit":
                return self._shortage(name, reasons[0])
            case "InterPodAffinity":
                return self._neighbours(name, reasons[0])
            case "PodTopologySpread":
                return self._spread(name, reasons[0])
            case "DynamicResources" if self._pod_filters.classic is not None and reasons[0] == _UNSUITABLE:
                detail = unsuitable_detail(self._cluster, self._pod_filters.classic, name)
                return CauseMessage(detail or cause.kind)
            case _:
                return CauseMessage(cause.kind)

    def shortfall(self, name: str, cause: NodeCause) -> int:
        """How much of a resource is missing on a node; 0 where it is not about amounts."""
        reason = cause.rejection.reasons[0]
        if not reason.startswith("Insufficient "):
            return 0
        usage, resource = self._pod_filters.node_usage(name), reason.removeprefix("Insufficient ")
        free = _amount(usage.allocatable, resource) - _amount(usage.requested, resource)
        return _amount(self._requests, resource) - free

    def _taint(self, name: str) -> str:
        taints = (self._cluster.nodes[name].get("spec") or {}).get("taints") or ()
        effects = ("NoSchedule", "NoExecute")
        found = nodeaffinity.find_untolerated_taint(taints, self._spec.get("tolerations") or [], effects)
        taint = cast("Taint", found or {})
        value = f"={taint['value']}" if taint.get("value") else ""
        return f"{taint.get('key')}{value}:{taint.get('effect')}"

    def _ports(self, name: str) -> CauseMessage:
        holders = ", ".join(self._pod_filters.blockers(name, "NodePorts"))
        detail = f"the host ports of the pod are in use by {holders}"
        return CauseMessage(detail, f"use another hostPort, or none, or free {name} of {holders}")

    def _shortage(self, name: str, reason: str) -> CauseMessage:
        usage = self._pod_filters.node_usage(name)
        if reason == "Too many pods":
            return CauseMessage(
                f"{usage.pods} of {usage.max_pods} pods are there", f"move pods away from {name}"
            )
        resource = reason.removeprefix("Insufficient ")
        want = _amount(self._requests, resource)
        have, used = _amount(usage.allocatable, resource), _amount(usage.requested, resource)
        shown = _shown(resource)
        detail = f"{resource}: {shown(want)} wanted, {shown(max(have - used, 0))} of {shown(have)} free"
        if not have and "/" in resource:
            help = f"no device plugin offers {resource} on {name}, and no device class stands for it"
        elif want > have:
            help = f"no pod of this size fits {name}: ask for less {resource}, or add a larger node"
        else:
            help = f"free {shown(want - have + used)} of {resource} on {name}, or ask for less"
        return CauseMessage(detail, help)

    def _neighbours(self, name: str, reason: str) -> CauseMessage:
        who = ", ".join(self._pod_filters.blockers(name, reason))
        affinity = self._spec.get("affinity") or {}
        match _KINDS.get(reason, reason):
            case "pod anti-affinity":
                keys = _topologies(affinity.get("podAntiAffinity"))
                detail = f"the pod must not share {keys} with {who}"
                return CauseMessage(detail, f"move {who}, add nodes, or make the anti-affinity a preference")
            case "anti-affinity of other pods":
                return CauseMessage(
                    f"{who} will not have the pod near it", f"change the labels of the pod, or move {who}"
                )
            case _:
                keys = _topologies(affinity.get("podAffinity"))
                detail = f"no pod that the pod affinity asks for shares {keys} with the node"
                return CauseMessage(
                    detail, "start the pods it wants to be near to, or make the affinity a preference"
                )

    def _spread(self, name: str, reason: str) -> CauseMessage:
        if "missing required label" in reason:
            keys = ", ".join(
                one.get("topologyKey", "") for one in self._spec.get("topologySpreadConstraints") or ()
            )
            return CauseMessage(f"the node lacks a label that pods are spread over: {keys}", f"label {name}")
        counts = "; ".join(self._pod_filters.blockers(name, "PodTopologySpread"))
        help = "let pods start where there are fewer, raise maxSkew, or use whenUnsatisfiable: ScheduleAnyway"
        return CauseMessage(f"one more pod here would be too uneven: {counts}", help)


_KINDS = {
    _UNSUITABLE: "a classic claim cannot be allocated there",
    "excluded by resource class node filter": "the resource class of a claim excludes the node",
    "resourceclaim not available on the node": "a claim of the pod is allocated for other nodes",
    "node(s) didn't match the requested node name": "pod names another node",
    "node(s) didn't match Pod's node affinity/selector": "node selector or affinity does not match",
    "node(s) didn't have free ports for the requested pod ports": "host port taken",
    "node(s) didn't match pod affinity rules": "pod affinity",
    "node(s) didn't match pod anti-affinity rules": "pod anti-affinity",
    "node(s) didn't satisfy existing pods anti-affinity rules": "anti-affinity of other pods",
    "node(s) didn't match pod topology spread constraints": "topology spread",
    "node(s) didn't match pod topology spread constraints (missing required label)": "topology label missing",
    "node(s) didn't match PersistentVolume's node affinity": "a volume of the pod is elsewhere",
    "node(s) didn't find available persistent volumes to bind": "no volume to bind",
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)": "a volume is gone",
}


def _amount(amounts: ComputeResources, resource: str) -> int:
    match resource:
        case "cpu":
            return amounts.cpu
        case "memory":
            return amounts.memory
        case "ephemeral-storage":
            return amounts.ephemeral
    return amounts.scalars.get(resource, 0)


def _shown(resource: str) -> Callable[[int], str]:
    if resource == "cpu":
        return lambda amount: str(Quantity(amount, -3).reduced()) if amount % 1000 else str(amount // 1000)
    if resource in ("memory", "ephemeral-storage"):
        return _bytes
    return str


def _bytes(amount: int) -> str:
    for unit, size in (("Gi", 1 << 30), ("Mi", 1 << 20), ("Ki", 1 << 10)):
        if amount >= size:
            return f"{amount / size:.4g}{unit}"
    return str(amount)


def _wanted(spec: PodSpec) -> str:
    wanted = [f"{key}={value}" for key, value in (spec.get("nodeSelector") or {}).items()]
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution")
    if required:
        wanted.append(" or ".join(map(_term, required.get("nodeSelectorTerms") or ())))
    return " and ".join(wanted) or "certain nodes"


def _term(term: NodeSelectorTerm) -> str:
    parts = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
    return " and ".join(
        f"{one.get('key')} {one.get('operator')} {','.join(one.get('values') or ())}".strip() for one in parts
    )


def _topologies(affinity: PodAffinity | PodAntiAffinity | None) -> str:
    terms = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or () if affinity else ()
    return " or ".join(dict.fromkeys(one.get("topologyKey", "") for one in terms)) or "its place"
