"""Which sleeping pods a change may help: asked of the plugins that turned them down.

A change that cannot alter any of the reasons a pod was refused for leaves it asleep.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from dray.api import claims
from dray.scheduler import filters
from dray.scheduler.devices import PLUGIN as DEVICES
from dray.scheduler.nodes import Node
from dray.scheduler.queue import Change, Queued

_NODE_FILTERS: Mapping[str, filters.Filter] = {
    "NodeUnschedulable": filters.node_unschedulable,
    "TaintToleration": filters.taint_toleration,
    "NodeAffinity": filters.node_affinity,
    "NodePorts": filters.node_ports,
    "NodeName": filters.node_name,
    "NodeResourcesFit": filters.resources_fit,
}
#: refused because of other pods: any of them coming, going or changing its labels matters
_NEIGHBOURS = frozenset({"InterPodAffinity", "PodTopologySpread"})
_FREED_BY_PODS = frozenset({"NodeResourcesFit", "NodePorts"}) | _NEIGHBOURS
_VOLUMES = frozenset({"VolumeBinding", "VolumeRestrictions", "VolumeZone", "NodeVolumeLimits"})


def helps(entry: Queued, change: Change) -> bool:
    by = entry.rejected_by
    match change.resource:
        case "Node":
            return _node(entry, change)
        case "AssignedPod":
            if change.action == "delete":
                return bool(by & _FREED_BY_PODS)
            if change.action == "update" and change.old is not None:
                shrunk = change.old.requests != change.new.requests
                return bool(by & _NEIGHBOURS) or (shrunk and "NodeResourcesFit" in by)
            return bool(by & _NEIGHBOURS)
        case "ResourceClaim":
            return DEVICES in by and _claim(entry, change)
        case "ResourceSlice" | "DeviceTaintRule" | "Classic":
            return DEVICES in by
        case "DeviceClass":
            return DEVICES in by or ("NodeResourcesFit" in by and bool(entry.pod.requests.scalars))
        case "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass":
            return bool(by & _VOLUMES)
        case "Namespace":
            return "InterPodAffinity" in by
    return False


def _node(entry: Queued, change: Change) -> bool:
    """A new node, or one that changed, helps if a filter that said no would now say yes to it."""
    node: Node = change.new
    by = entry.rejected_by
    if change.action == "delete":
        return bool(by & _NEIGHBOURS)
    for plugin, test in _NODE_FILTERS.items():
        if plugin in by and test(entry.pod, node) is None:
            return True
    return bool(by & (_NEIGHBOURS | _VOLUMES)) or DEVICES in by


def _claim(entry: Queued, change: Change) -> bool:
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


Hint = Callable[[Queued, Change], bool]
