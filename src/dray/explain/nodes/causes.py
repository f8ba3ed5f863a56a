"""What keeps a pod off a node, devices aside, in words.

Whether a node takes a pod is for the scheduler's own filters to say; they come in from outside as a ``Scheduling``.
Here their refusals are put into words a person can act on, and only for the few nodes that are told about.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dray.api import nodeaffinity
from dray.api.compute import ComputeResources, pod_requests
from dray.api.quantity import Quantity
from dray.explain.model.snapshot import Document

if TYPE_CHECKING:
    from dray.explain.model.cluster import Cluster

_CORDON = "node.kubernetes.io/unschedulable"
_TERM = "requiredDuringSchedulingIgnoredDuringExecution"


class Refusal(NamedTuple):
    """What one filter says, in the scheduler's words."""

    plugin: str
    reasons: tuple[str, ...]


class NodeUsage(NamedTuple):
    """What a node offers, and what its pods have asked for."""

    offered: ComputeResources = ComputeResources()
    requested: ComputeResources = ComputeResources()
    pods: int = 0
    most_pods: int = 0


class PodFilters(Protocol):
    """One pod before the scheduler's filters."""

    def before(self) -> Refusal | None:
        """Why no node at all will do."""

    def on(self, node: str) -> Sequence[Refusal]:
        """Every filter that turns the pod away from a node."""

    def generated(self, node: str) -> Document | None:
        """The claim that would be made on this node for extended resources that devices stand for."""

    def load(self, node: str) -> NodeUsage: ...

    def evidence(self, node: str, plugin: str) -> Sequence[str]:
        """Who is in the way: pods, or counts of a topology."""


class NodeFilters(Protocol):
    """The nodes as the scheduler sees them; they can be filled up in thought."""

    def pod_filters(self, pod: Document) -> PodFilters: ...

    def place(self, pod: Document, node: str) -> None: ...


class NodeCause(NamedTuple):
    """One reason; ``kind`` is the same for all nodes of its kind."""

    kind: str
    refusal: Refusal


class CauseMessage(NamedTuple):
    detail: str
    advice: str = ""


class NodeCauses:
    """One pod, read once for all nodes."""

    def __init__(self, cluster: Cluster, pod: Document, pod_filters: PodFilters) -> None:
        self._cluster = cluster
        self._spec = pod.get("spec") or {}
        self._requests = pod_requests(self._spec)
        self._pod_filters = pod_filters

    def causes(self, name: str) -> tuple[NodeCause, ...]:
        refusals = self._pod_filters.on(name)
        return tuple(self._causes(name, refusals)) if refusals else ()

    def _causes(self, name: str, refusals: Sequence[Refusal]) -> Iterator[NodeCause]:
        for refusal in refusals:
            match refusal.plugin:
                case "NodeUnschedulable":
                    yield NodeCause("cordoned", refusal)
                case "TaintToleration":
                    text = self._taint(name)
                    if not text.startswith(_CORDON):
                        yield NodeCause(f"untolerated node taint {text}", refusal)
                case "NodeResourcesFit":
                    for reason in refusal.reasons:
                        kind = reason[0].lower() + reason[1:]
                        yield NodeCause(kind, Refusal(refusal.plugin, (reason,)))
                case _:
                    kinds = [_KINDS.get(reason, reason) for reason in refusal.reasons]
                    yield NodeCause(", ".join(kinds), refusal)

    def told(self, name: str, cause: NodeCause) -> CauseMessage:
        plugin, reasons = cause.refusal
        match plugin:
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
            case _:
                return CauseMessage(cause.kind)

    def shortfall(self, name: str, cause: NodeCause) -> int:
        """How much of a resource is missing on a node; 0 where it is not about amounts."""
        reason = cause.refusal.reasons[0]
        if not reason.startswith("Insufficient "):
            return 0
        load, resource = self._pod_filters.load(name), reason.removeprefix("Insufficient ")
        free = _amount(load.offered, resource) - _amount(load.requested, resource)
        return _amount(self._requests, resource) - free

    def _taint(self, name: str) -> str:
        taints = (self._cluster.nodes[name].get("spec") or {}).get("taints") or ()
        effects = ("NoSchedule", "NoExecute")
        taint = (
            nodeaffinity.find_untolerated_taint(taints, self._spec.get("tolerations") or [], effects) or {}
        )
        value = f"={taint['value']}" if taint.get("value") else ""
        return f"{taint.get('key')}{value}:{taint.get('effect')}"

    def _ports(self, name: str) -> CauseMessage:
        holders = ", ".join(self._pod_filters.evidence(name, "NodePorts"))
        detail = f"the host ports of the pod are in use by {holders}"
        return CauseMessage(detail, f"use another hostPort, or none, or free {name} of {holders}")

    def _shortage(self, name: str, reason: str) -> CauseMessage:
        load = self._pod_filters.load(name)
        if reason == "Too many pods":
            return CauseMessage(
                f"{load.pods} of {load.most_pods} pods are there", f"move pods away from {name}"
            )
        resource = reason.removeprefix("Insufficient ")
        want = _amount(self._requests, resource)
        have, used = _amount(load.offered, resource), _amount(load.requested, resource)
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
        who = ", ".join(self._pod_filters.evidence(name, reason))
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
        counts = "; ".join(self._pod_filters.evidence(name, "PodTopologySpread"))
        help = "let pods start where there are fewer, raise maxSkew, or use whenUnsatisfiable: ScheduleAnyway"
        return CauseMessage(f"one more pod here would be too uneven: {counts}", help)


_KINDS = {
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


def _wanted(spec: Document) -> str:
    wanted = [f"{key}={value}" for key, value in (spec.get("nodeSelector") or {}).items()]
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_TERM)
    if required:
        wanted.append(" or ".join(map(_term, required.get("nodeSelectorTerms") or ())))
    return " and ".join(wanted) or "certain nodes"


def _term(term: Document) -> str:
    parts = (*(term.get("matchExpressions") or ()), *(term.get("matchFields") or ()))
    return " and ".join(
        f"{one.get('key')} {one.get('operator')} {','.join(one.get('values') or ())}".strip() for one in parts
    )


def _topologies(affinity: Document | None) -> str:
    terms = (affinity or {}).get(_TERM) or ()
    return " or ".join(dict.fromkeys(one.get("topologyKey", "") for one in terms)) or "its place"
