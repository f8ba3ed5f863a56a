"""Queueing hints: whether an event in the cluster may make an unschedulable pod schedulable.

An event is looked at for the plugins that rejected the pod. A pod stays unschedulable if the event cannot change what
any of them said.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from dray.api import claims
from dray.placement.plugins import filters
from dray.placement.plugins.dynamic_resources import PLUGIN as DYNAMIC_RESOURCES

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo

#: The plugin that rejects whoever has to wait for a group that is first in line.
IN_LINE: Final = "GangScheduling"
_NODE_FILTERS: Mapping[str, filters.Filter] = {
    "NodeUnschedulable": filters.node_unschedulable,
    "TaintToleration": filters.taint_toleration,
    "NodeAffinity": filters.node_affinity,
    "NodePorts": filters.node_ports,
    "NodeName": filters.node_name,
    "NodeResourcesFit": filters.node_resources_fit,
}
#: these plugins look at other pods, and at their labels
_POD_PLUGINS = frozenset({"InterPodAffinity", "PodTopologySpread"})
_FREED_BY_PODS = frozenset({"NodeResourcesFit", "NodePorts"}) | _POD_PLUGINS
_VOLUME_PLUGINS = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"})


def after_node_event(entry: QueuedPodInfo, node: NodeInfo | None) -> bool:
    """The node was added or updated, or (None) some node was deleted."""
    by = entry.rejected_by
    if node is None:
        return bool(by & _POD_PLUGINS)
    for plugin, test in _NODE_FILTERS.items():
        if plugin in by and test(entry.pod, node) is None:
            return True
    return bool(by & (_POD_PLUGINS | _VOLUME_PLUGINS)) or DYNAMIC_RESOURCES in by


def after_assigned_pod_event(entry: QueuedPodInfo, old: PodInfo | None, new: PodInfo | None) -> bool:
    """A pod on some node was added, updated, or deleted (``new`` is None)."""
    by = entry.rejected_by
    if new is None:
        return bool(by & _FREED_BY_PODS)
    if by & _POD_PLUGINS:
        return True
    return old is not None and "NodeResourcesFit" in by and old.requests != new.requests


def after_claim_event(entry: QueuedPodInfo, old: ResourceClaim | None, new: ResourceClaim | None) -> bool:
    """A claim was added (``old`` is None), updated, or deleted (``new`` is None)."""
    if DYNAMIC_RESOURCES not in entry.rejected_by:
        return False
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


def after_event(entry: QueuedPodInfo, kind: str) -> bool:
    """An object of another kind was added, updated or deleted; ``Classic`` is any kind of the classic generation."""
    by = entry.rejected_by
    if kind in by:
        return True
    match kind:
        case "ResourceSlice" | "DeviceTaintRule" | "Classic":
            return DYNAMIC_RESOURCES in by
        case "DeviceClass":
            return DYNAMIC_RESOURCES in by or ("NodeResourcesFit" in by and bool(entry.pod.requests.scalars))
        case "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass":
            return bool(by & _VOLUME_PLUGINS)
    return False
