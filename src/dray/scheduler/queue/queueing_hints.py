"""Which sleeping pods a change may help: asked of the plugins that turned them down.

A change that cannot alter any of the reasons a pod was refused for leaves it asleep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api import claims
from dray.placement.cache.nodes import NodeInfo
from dray.placement.plugins import filters
from dray.placement.plugins.dynamic_resources import PLUGIN as DEVICES
from dray.scheduler.queue.scheduling_queue import ClusterEvent, QueuedPodInfo

_NODE_FILTERS: Mapping[str, filters.Filter] = {
    "NodeUnschedulable": filters.node_unschedulable,
    "TaintToleration": filters.taint_toleration,
    "NodeAffinity": filters.node_affinity,
    "NodePorts": filters.node_ports,
    "NodeName": filters.node_name,
    "NodeResourcesFit": filters.node_resources_fit,
}
#: refused because of other pods: any of them coming, going or changing its labels matters
_POD_PLUGINS = frozenset({"InterPodAffinity", "PodTopologySpread"})
_FREED_BY_PODS = frozenset({"NodeResourcesFit", "NodePorts"}) | _POD_PLUGINS
_VOLUME_PLUGINS = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"})


def should_queue(entry: QueuedPodInfo, change: ClusterEvent) -> bool:
    by = entry.rejected_by
    match change.resource:
        case "Node":
            return _node(entry, change)
        case "AssignedPod":
            if change.action == "delete":
                return bool(by & _FREED_BY_PODS)
            if change.action == "update" and change.old is not None:
                shrunk = change.old.requests != change.new.requests
                return bool(by & _POD_PLUGINS) or (shrunk and "NodeResourcesFit" in by)
            return bool(by & _POD_PLUGINS)
        case "ResourceClaim":
            return DEVICES in by and _claim(entry, change)
        case "ResourceSlice" | "DeviceTaintRule" | "Classic":
            return DEVICES in by
        case "DeviceClass":
            return DEVICES in by or ("NodeResourcesFit" in by and bool(entry.pod.requests.scalars))
        case "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass":
            return bool(by & _VOLUME_PLUGINS)
        case "Namespace":
            return "InterPodAffinity" in by
    return False


def _node(entry: QueuedPodInfo, change: ClusterEvent) -> bool:
    """A new node, or one that changed, helps if a filter that said no would now say yes to it."""
    node: NodeInfo = change.new
    by = entry.rejected_by
    if change.action == "delete":
        return bool(by & _POD_PLUGINS)
    for plugin, test in _NODE_FILTERS.items():
        if plugin in by and test(entry.pod, node) is None:
            return True
    return bool(by & (_POD_PLUGINS | _VOLUME_PLUGINS)) or DEVICES in by


def _claim(entry: QueuedPodInfo, change: ClusterEvent) -> bool:
    old: Mapping[str, Any] | None = change.old
    new: Mapping[str, Any] | None = change.new
    if (
        old is not None
        and claims.allocation(old) is not None
        and (new is None or claims.allocation(new) is None)
    ):
        return True  # devices came free
    if new is None:
        return False
    uses = any(
        r.claim == new["metadata"]["name"] and entry.pod.namespace == new["metadata"]["namespace"]
        for r in claims.references(entry.pod.document)
    )
    return uses and (old is None or old.get("status") != new.get("status"))


QueueingHint = Callable[[QueuedPodInfo, ClusterEvent], bool]
