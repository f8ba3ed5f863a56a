"""Filters that look at one pod and one node: name, cordon, taints, affinity, ports and resources.

Each returns None or the ``Rejection`` of upstream's plugin of the same name.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import TYPE_CHECKING

from dray.api import nodeaffinity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import HostPort, PodInfo
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import Taint

Filter = Callable[[PodInfo, NodeInfo], Rejection | None]

_UNSCHEDULABLE = Rejection("NodeUnschedulable", ("node(s) were unschedulable",), resolvable=False)
_OTHER_NAME = Rejection("NodeName", ("node(s) didn't match the requested node name",), resolvable=False)
_TAINTED = Rejection("TaintToleration", ("node(s) had untolerated taint(s)",), resolvable=False)
_AFFINITY = Rejection(
    "NodeAffinity", ("node(s) didn't match Pod's node affinity/selector",), resolvable=False
)
_PORTS = Rejection("NodePorts", ("node(s) didn't have free ports for the requested pod ports",))

_CORDON: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}


def node_unschedulable(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if not node.unschedulable or any(nodeaffinity.tolerates(t, _CORDON) for t in pod.tolerations):
        return None
    return _UNSCHEDULABLE


def node_name(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    wanted = pod.document["spec"].get("nodeName")
    return None if not wanted or wanted == node.name else _OTHER_NAME


def taint_toleration(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if (
        not node.taints
        or nodeaffinity.find_untolerated_taint(node.taints, pod.tolerations, ("NoSchedule", "NoExecute"))
        is None
    ):
        return None
    return _TAINTED


def taint_toleration_naming_taint(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    """The same with a reason that names the taint."""
    taint = nodeaffinity.find_untolerated_taint(node.taints, pod.tolerations, ("NoSchedule", "NoExecute"))
    if taint is None:
        return None
    reason = f"node(s) had untolerated taint {{{taint['key']}: {taint.get('value') or ''}}}"
    return Rejection("TaintToleration", (reason,), resolvable=False)


def node_affinity(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    return None if pod.node_test is None or pod.node_test(node.name, node.labels) else _AFFINITY


def node_ports(pod: PodInfo, node: NodeInfo) -> Rejection | None:
    if pod.host_ports and any(_clash(port, node) for port in pod.host_ports):
        return _PORTS
    return None


def _clash(port: HostPort, node: NodeInfo) -> bool:
    if port.ip == "0.0.0.0":
        return any(p.port == port.port and p.protocol == port.protocol for p in node.ports)
    return port in node.ports or port._replace(ip="0.0.0.0") in node.ports


def node_resources_fit(
    pod: PodInfo,
    node: NodeInfo,
    *,
    served_by_devices: Container[str] = (),
    small_nodes_are_unresolvable: bool = True,
) -> Rejection | None:
    """Everything the pod requests must be free. ``served_by_devices``: extended resources that device classes serve.

    ``small_nodes_are_unresolvable``: preemption does not help on a node that is too small even without its pods.
    """
    asked, offered, taken = pod.requests, node.allocatable, node.requested
    if (
        len(node.pods) < node.max_pods
        and asked.cpu <= offered.cpu - taken.cpu
        and asked.memory <= offered.memory - taken.memory
        and not asked.ephemeral
        and not asked.scalars
    ):
        return None
    reasons: list[str] = []
    resolvable = True
    if len(node.pods) + 1 > node.max_pods:
        reasons.append("Too many pods")
    for name, want, have, used in (
        ("cpu", asked.cpu, offered.cpu, taken.cpu),
        ("memory", asked.memory, offered.memory, taken.memory),
        ("ephemeral-storage", asked.ephemeral, offered.ephemeral, taken.ephemeral),
    ):
        if want and want > have - used:
            reasons.append(f"Insufficient {name}")
            resolvable &= want <= have or not small_nodes_are_unresolvable
    for name, want in asked.scalars.items():
        have = offered.scalars.get(name, 0)
        if want and want > have - taken.scalars.get(name, 0):
            if not have and name in served_by_devices:
                continue
            reasons.append(f"Insufficient {name}")
            resolvable &= want <= have or not small_nodes_are_unresolvable
    return Rejection("NodeResourcesFit", tuple(reasons), resolvable) if reasons else None
