"""What keeps a pod off a node, devices aside: cordons, taints, selectors, and too little of something."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from dray.api import matching
from dray.api.amounts import Amounts, pod_requests
from dray.api.quantity import Quantity
from dray.explain.cluster import Cluster, NodeLoad, key_of
from dray.explain.snapshot import Document

_CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
_DEFAULT_MAX_PODS = 110


class NodeCause(NamedTuple):
    """One reason, the same for all nodes of its kind, and what it is on this node."""

    kind: str
    detail: str
    advice: str = ""


class Placing:
    """One pod, read once for all nodes."""

    def __init__(self, cluster: Cluster, pod: Document, loads: Mapping[str, NodeLoad] | None = None) -> None:
        """``loads``: what is on the nodes, if not what the snapshot has there."""
        spec = pod.get("spec") or {}
        self._loads = cluster.loads if loads is None else loads
        self._cluster = cluster
        self._spec = spec
        self._requests = pod_requests(spec)
        self._tolerations = spec.get("tolerations") or []
        self._node_test = matching.pod_node_test(spec)
        # What classes stand for is served by devices, not by the node.
        self._served = {
            name
            for one in cluster.classes.values()
            for name in (
                (one.get("spec") or {}).get("extendedResourceName"),
                f"deviceclass.resource.kubernetes.io/{key_of(one).name}",
            )
            if name
        }

    def causes(self, node: Document) -> tuple[NodeCause, ...]:
        return tuple(self._causes(node))

    def _causes(self, node: Document) -> Iterator[NodeCause]:
        name = key_of(node).name
        spec = node.get("spec") or {}
        wanted = self._spec.get("nodeName")
        if wanted and wanted != name:
            yield NodeCause("pod names another node", f"the pod is bound to {wanted}")
            return
        if spec.get("unschedulable") and not any(matching.tolerates(t, _CORDON) for t in self._tolerations):
            yield NodeCause("cordoned", "the node is cordoned", f"kubectl uncordon {name}")
        taint = matching.untolerated(spec.get("taints") or (), self._tolerations, ("NoSchedule", "NoExecute"))
        if taint is not None and taint.get("key") != _CORDON["key"]:
            value = f"={taint['value']}" if taint.get("value") else ""
            text = f"{taint.get('key')}{value}:{taint.get('effect')}"
            yield NodeCause(
                f"untolerated node taint {text}",
                f"the node has taint {text}",
                f"give the pod a toleration for {text}, or remove the taint from the node",
            )
        labels = (node.get("metadata") or {}).get("labels") or {}
        if self._node_test is not None and not self._node_test(name, labels):
            yield NodeCause(
                "node selector or affinity does not match",
                f"the pod wants {_wanted(self._spec)}",
                "change the pod's nodeSelector or affinity, or label a node",
            )
        yield from self._shortages(node)

    def _shortages(self, node: Document) -> Iterator[NodeCause]:
        name = key_of(node).name
        offered = self._cluster.allocatable(node)
        load = self._loads.get(name, NodeLoad())
        status = (node.get("status") or {}).get("allocatable") or {}
        most = int(status.get("pods", _DEFAULT_MAX_PODS)) if status else _DEFAULT_MAX_PODS
        if load.pods + 1 > most:
            yield NodeCause("too many pods", f"{load.pods} of {most} pods are there")
        if not status:
            return
        for resource, want, have, used in _compared(self._requests, offered, load.requested):
            if want and want > have - used and not (not have and resource in self._served):
                shown = _shown(resource)
                detail = (
                    f"{resource}: {shown(want)} wanted, {shown(max(have - used, 0))} of {shown(have)} free"
                )
                if want > have:
                    advice = f"no pod of this size fits {name}: ask for less {resource}, or add a larger node"
                else:
                    advice = f"free {shown(want - have + used)} of {resource} on {name}, or ask for less"
                yield NodeCause(f"insufficient {resource}", detail, advice)


def _compared(want: Amounts, have: Amounts, used: Amounts) -> Iterator[tuple[str, int, int, int]]:
    yield "cpu", want.cpu, have.cpu, used.cpu
    yield "memory", want.memory, have.memory, used.memory
    yield "ephemeral-storage", want.ephemeral, have.ephemeral, used.ephemeral
    for name, amount in want.scalars.items():
        yield name, amount, have.scalars.get(name, 0), used.scalars.get(name, 0)


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
    if (spec.get("affinity") or {}).get("nodeAffinity"):
        wanted.append("what its node affinity requires")
    return " and ".join(wanted) or "certain nodes"
