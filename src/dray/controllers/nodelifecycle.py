"""The node lifecycle controller: it marks nodes that it does not hear from, and taints nodes after their conditions.

A node shows that it is alive by renewing its Lease or by posting its status. The conditions of a node that does neither
become Unknown. A node that never had a Lease is left alone, as there may be no kubelet that could renew it.

NoSchedule taints follow the conditions at once. NoExecute taints, which evict pods, are set at a limited rate, and not at
all while no node is ready: then the control plane is probably cut off from the nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.errors import NotFound
from dray.api.pods import condition as pod_condition
from dray.api.pods import is_ready
from dray.api.times import from_epoch
from dray.client.client import PatchType
from dray.client.resources import LEASES, NODES, PODS
from dray.controllers.controller import Controller, ControllerContext, for_each
from dray.controllers.pod_status import condition_patch

if TYPE_CHECKING:
    from dray.api.types.coordination import Lease
    from dray.api.types.core import Node, NodeCondition, NodeStatus, Pod, PodCondition, Taint
    from dray.api.types.meta import ObjectMeta


LEASE_NAMESPACE: Final = "kube-node-lease"
MONITOR_GRACE_SECONDS: Final = 50.0
#: Nodes per second and zone from which pods are evicted; fewer in a large zone with many unhealthy nodes.
EVICTION_RATE: Final = 0.1
SECONDARY_EVICTION_RATE: Final = 0.01
LARGE_ZONE_NODES: Final = 50
UNHEALTHY_ZONE_THRESHOLD: Final = 0.55

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_UNSCHEDULABLE: Final = "node.kubernetes.io/unschedulable"
#: Which taint a condition brings, by its type and status.
_CONDITION_TAINTS: Final[Mapping[tuple[str, str], str]] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
}
_MANAGED_TAINTS: Final = frozenset({*_CONDITION_TAINTS.values(), _UNSCHEDULABLE})
#: The kubelet does not report the condition NetworkUnavailable.
_KUBELET_CONDITIONS: Final = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_BETA_LABELS: Final[Mapping[str, str]] = {
    "kubernetes.io/os": "beta.kubernetes.io/os",
    "kubernetes.io/arch": "beta.kubernetes.io/arch",
}


# -- decisions ------------------------------------------------------------------------------------------------------


class TaintID(NamedTuple):
    key: str
    effect: str


def conditions_of(node: Node) -> Sequence[NodeCondition]:
    return (node.get("status") or {}).get("conditions") or ()


def ready_status(node: Node) -> str:
    """True, False or Unknown; empty where the node has not said anything yet."""
    return next((c["status"] for c in conditions_of(node) if c["type"] == "Ready"), "")


def unknown_conditions(node: Node, *, now: str) -> list[NodeCondition] | None:
    """The conditions of a node that shows no sign of life; None if it has them already."""
    present = conditions_of(node)
    known = {c["type"] for c in present}
    changed: list[NodeCondition] = []
    for condition in present:
        if condition["type"] in _KUBELET_CONDITIONS and condition["status"] != "Unknown":
            condition = {
                **condition,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            }
        changed.append(condition)
    changed += [
        {
            "type": kind,
            "status": "Unknown",
            "reason": "NodeStatusNeverUpdated",
            "message": "Kubelet never posted node status.",
            "lastHeartbeatTime": node["metadata"]["creationTimestamp"],
            "lastTransitionTime": now,
        }
        for kind in _KUBELET_CONDITIONS
        if kind not in known
    ]
    return changed if changed != list(present) else None


def taints_for(node: Node) -> tuple[set[TaintID], TaintID | None]:
    """The taints that keep pods away for a node's conditions, and the one that evicts them off, if any."""
    keys = [_CONDITION_TAINTS.get((c["type"], c["status"])) for c in conditions_of(node)]
    away = {TaintID(key, "NoSchedule") for key in keys if key is not None}
    if (node.get("spec") or {}).get("unschedulable"):
        away.add(TaintID(_UNSCHEDULABLE, "NoSchedule"))
    key = _CONDITION_TAINTS.get(("Ready", ready_status(node)))
    return away, TaintID(key, "NoExecute") if key is not None else None


def reconciled_taints(node: Node, *, evict: bool, now: str) -> list[Taint] | None:
    """The node's taints as its conditions want them, others untouched; None if they are so already."""
    present = list((node.get("spec") or {}).get("taints") or ())
    wanted, evicting = taints_for(node)
    if evicting is not None and evict:
        wanted.add(evicting)
    kept = [t for t in present if not _is_managed(t) or TaintID(t["key"], t["effect"]) in wanted]
    there = {TaintID(t["key"], t["effect"]) for t in kept}
    added: list[Taint] = [
        {"key": t.key, "effect": t.effect, "timeAdded": now} for t in sorted(wanted - there)
    ]
    return kept + added if added or len(kept) != len(present) else None


def _is_no_execute(taint: Taint) -> bool:
    return taint["effect"] == "NoExecute" and taint["key"] in (NOT_READY, UNREACHABLE)


def _is_managed(taint: Taint) -> bool:
    return _is_no_execute(taint) or (taint["effect"] == "NoSchedule" and taint["key"] in _MANAGED_TAINTS)


def zone_of(node: Node) -> tuple[str, str]:
    labels = node["metadata"].get("labels") or {}
    return labels.get("topology.kubernetes.io/region", ""), labels.get("topology.kubernetes.io/zone", "")


def eviction_rate(zone: Collection[Node], *, any_ready: bool) -> float:
    """From how many of a zone's nodes per second pods may be evicted."""
    if not any_ready:
        return 0.0
    unhealthy = sum(1 for node in zone if ready_status(node) != "True")
    if unhealthy == len(zone) or unhealthy <= 2 or unhealthy / len(zone) < UNHEALTHY_ZONE_THRESHOLD:
        return EVICTION_RATE
    return SECONDARY_EVICTION_RATE if len(zone) > LARGE_ZONE_NODES else 0.0


def reconciled_labels(node: Node) -> dict[str, str]:
    """The labels that older software still looks for, where they are missing or wrong."""
    labels = node["metadata"].get("labels") or {}
    wanted = {old: labels[new] for new, old in _BETA_LABELS.items() if new in labels}
    return {name: value for name, value in wanted.items() if labels.get(name) != value}


# -- the controller -------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class NodeHealth:
    """The last sign of life of a node, and when we saw it by our own clock."""

    heard: float
    sign: tuple[str, str] = ("", "")  # when the lease was renewed, when the status was posted
    leased: bool = False


class NodeLifecycleController(Controller[str]):
    """Keys are names of nodes."""

    name = "node-lifecycle-controller"

    def __init__(self, context: ControllerContext, *, grace_seconds: float = MONITOR_GRACE_SECONDS) -> None:
        super().__init__(context)
        self._grace = grace_seconds
        self._health: dict[str, NodeHealth] = {}
        self._registered: set[str] = set()
        self._next_eviction: dict[tuple[str, str], float] = {}  # zone → when the next node may be cleared
        self._nodes = context.informers.get(NODES)
        self._leases = context.informers.get(LEASES, namespace=LEASE_NAMESPACE)
        self._pods = context.informers.get(PODS, indexers={"node": by_node})
        self._nodes.add_handler(on_set=self._node_set, on_delete=self._node_deleted)
        self._leases.add_handler(on_set=self._renewed)
        self._pods.add_handler(on_add=self._pod_added, on_update=self._pod_changed)

    # -- signs of life

    def _node_set(self, node: Node) -> None:
        name = node["metadata"]["name"]
        if name not in self._registered:
            self._registered.add(name)
            self._record_event(node, "RegisteredNode", f"event: Registered Node {name} in Controller")
        posted = next((c.get("lastHeartbeatTime") for c in conditions_of(node) if c["type"] == "Ready"), None)
        self._record_heartbeat(name, posted=posted or "")
        self.enqueue(name)

    def _renewed(self, lease: Lease) -> None:
        name = lease["metadata"]["name"]
        silent = name in self._health and not self._health[name].leased
        self._record_heartbeat(name, renewed=(lease.get("spec") or {}).get("renewTime") or "-")
        if silent:
            self.enqueue(name)  # from now on it is judged

    def _record_heartbeat(self, name: str, *, renewed: str = "", posted: str = "") -> None:
        life = self._health.setdefault(name, NodeHealth(self.context.clock()))
        sign = (renewed or life.sign[0], posted or life.sign[1])
        if sign != life.sign:
            life.sign, life.heard = sign, self.context.clock()
        life.leased = life.leased or bool(renewed)

    def _node_deleted(self, node: Node) -> None:
        name = node["metadata"]["name"]
        self._health.pop(name, None)
        self._registered.discard(name)
        self._record_event(node, "RemovingNode", f"event: Removing Node {name} from Controller")

    def _pod_added(self, pod: Pod) -> None:
        name = pod["spec"].get("nodeName")
        if name:
            node = self._nodes.get("", name)
            if node is not None and ready_status(node) in ("False", "Unknown"):
                self.enqueue(name)

    def _pod_changed(self, old: Pod, new: Pod) -> None:
        if not old["spec"].get("nodeName"):
            self._pod_added(new)

    # -- work

    async def sync(self, key: str) -> float | None:
        node = self._nodes.get("", key)
        if node is None:
            self._health.pop(key, None)
            return None
        wait = self._seconds_until_unknown(key)
        if wait == 0.0:
            node = await self._mark_unknown(node)
        if ready_status(node) in ("False", "Unknown"):
            await self._mark_pods_not_ready(key)
        labels = reconciled_labels(node)
        if labels:
            await self.context.client.patch(NODES, "", key, {"metadata": {"labels": labels}})
        paced = await self._taint(node)
        waits = [w for w in (wait or self._grace if wait is not None else None, paced) if w is not None]
        return min(waits, default=None)

    def _seconds_until_unknown(self, name: str) -> float | None:
        """How long a node may still be silent; 0 if it was for too long, None if it is not judged."""
        life = self._health.get(name)
        if life is None or not life.leased:
            return None
        return max(life.heard + self._grace - self.context.clock(), 0.0)

    async def _mark_unknown(self, node: Node) -> Node:
        conditions = unknown_conditions(node, now=from_epoch(self.context.clock()))
        if conditions is None:
            return node
        was_ready = ready_status(node) == "True"
        status: NodeStatus = {**(node.get("status") or {}), "conditions": conditions}
        node = await self.context.client.update_status(NODES, "", {**node, "status": status})
        if was_ready:
            self._record_event(node, "NodeNotReady", "status is now: NodeNotReady")
        return node

    async def _mark_pods_not_ready(self, node: str) -> None:
        """Nobody vouches any more for the pods of a node that is not ready."""
        now = from_epoch(self.context.clock())

        async def unready(pod: Pod) -> None:
            metadata, present = pod["metadata"], pod_condition(pod, "Ready")
            if present is None:
                return
            wanted: PodCondition = {**present, "status": "False"}
            with contextlib.suppress(NotFound):
                await self.context.client.patch_status(
                    PODS,
                    metadata["namespace"],
                    metadata["name"],
                    {"metadata": {"uid": metadata["uid"]}, "status": condition_patch(pod, wanted, now=now)},
                    type=PatchType.STRATEGIC,
                )
                self.context.recorder.event(PODS, pod, "Warning", "NodeNotReady", "Node is not ready")

        await for_each([pod for pod in self._pods.by_index("node", node) if is_ready(pod)], unready)

    async def _taint(self, node: Node) -> float | None:
        """Set the taints; returns in how many seconds to try again if pods cannot be evicted yet."""
        name, zone, now = node["metadata"]["name"], zone_of(node), self.context.clock()
        pace = self._eviction_rate(zone) if ready_status(node) != "True" else EVICTION_RATE
        # From not ready to unreachable and back there is nothing to wait for.
        evicts = any(_is_no_execute(taint) for taint in (node.get("spec") or {}).get("taints") or ())
        wait = 0.0 if evicts else self._next_eviction.get(zone, 0.0) - now
        evict = pace > 0 and wait <= 0
        taints = reconciled_taints(node, evict=evict, now=from_epoch(now))
        _, evicting = taints_for(node)
        if taints is not None:
            version: ObjectMeta = {"resourceVersion": node["metadata"]["resourceVersion"]}
            await self.context.client.patch(
                NODES, "", name, {"metadata": version, "spec": {"taints": taints}}
            )
            if evicting is not None and evict and not evicts:
                self._next_eviction[zone] = now + 1 / pace
        if evicting is None or evict:
            return None
        return wait if pace > 0 else self._grace

    def _eviction_rate(self, zone: tuple[str, str]) -> float:
        nodes = self._nodes.items()
        any_ready = any(ready_status(node) == "True" for node in nodes)
        return eviction_rate([n for n in nodes if zone_of(n) == zone], any_ready=any_ready)

    def _record_event(self, node: Node, reason: str, message: str) -> None:
        name = node["metadata"]["name"]
        about: Node = {"metadata": {"name": name, "uid": node["metadata"]["uid"]}}
        self.context.recorder.event(NODES, about, "Normal", reason, f"Node {name} {message}")


def by_node(pod: Pod) -> Sequence[str]:
    """Index: the node a pod is on."""
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()
