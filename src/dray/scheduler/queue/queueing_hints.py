"""Queueing hints: whether an event in the cluster may make an unschedulable pod schedulable.

An event is looked at for the plugins that rejected the pod. A pod stays unschedulable if the event cannot change what
any of them said.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dray.api import claims
from dray.api.identity import ObjectKey, object_key
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
_DEVICE_PLUGINS = frozenset({DYNAMIC_RESOURCES})
#: these plugins may accept a node that is new or has changed, whatever it is like
_HELPED_BY_ANY_NODE = _POD_PLUGINS | _VOLUME_PLUGINS | _DEVICE_PLUGINS

#: What an event may change and a pod waits for: the verdict of a plugin, or a claim.
Subject: TypeAlias = str | ObjectKey
#: The subject of groups. They are asked at every event: a group that waits in line is tried again whatever happens, and
#: members of a group may use other claims while the group is in the queue.
EVERY_EVENT: Final = "*"


class ClusterEvent(NamedTuple):
    """What has happened, as far as pods wait for it. It concerns only pods that have one of its subjects."""

    subjects: Collection[Subject]
    may_help: Callable[[QueuedPodInfo], bool]


def subjects_of(entry: QueuedPodInfo) -> Collection[Subject]:
    """What the pod waits for: no event about anything else helps it."""
    if entry.gang is not None:
        return (EVERY_EVENT,)
    if DYNAMIC_RESOURCES not in entry.rejected_by:
        return entry.rejected_by
    return entry.rejected_by | _claims_of(entry.pod)


def after_node_event(node: NodeInfo | None) -> ClusterEvent:
    """The node was added or updated, or (None) some node was deleted."""
    if node is None:
        return _about(_POD_PLUGINS)

    def may_help(entry: QueuedPodInfo) -> bool:
        by = entry.rejected_by
        return not by.isdisjoint(_HELPED_BY_ANY_NODE) or any(
            plugin in by and test(entry.pod, node) is None for plugin, test in _NODE_FILTERS.items()
        )

    return ClusterEvent(_HELPED_BY_ANY_NODE | _NODE_FILTERS.keys(), may_help)


def after_assigned_pod_event(old: PodInfo | None, new: PodInfo | None) -> ClusterEvent:
    """A pod on some node was added, updated, or deleted (``new`` is None)."""
    if new is None:
        return _about(_FREED_BY_PODS)
    if old is not None and old.requests != new.requests:
        return _about(_POD_PLUGINS | {"NodeResourcesFit"})
    return _about(_POD_PLUGINS)


def after_claim_event(old: ResourceClaim | None, new: ResourceClaim | None) -> ClusterEvent:
    """A claim was added (``old`` is None), updated, or deleted (``new`` is None).

    As upstream has it, devices that came free may help whoever waits for devices, and a claim whose status has changed
    those that use it.
    """
    if (
        old is not None
        and claims.allocation(old) is not None
        and (new is None or claims.allocation(new) is None)
    ):
        return _about(_DEVICE_PLUGINS)
    if new is None or (old is not None and old.get("status") == new.get("status")):
        return _about(frozenset())
    claim = object_key(new)
    return ClusterEvent(
        (claim,), lambda entry: DYNAMIC_RESOURCES in entry.rejected_by and claim in _claims_of(entry.pod)
    )


def after_event(kind: str) -> ClusterEvent:
    """An object of another kind was added, updated or deleted; ``Classic`` is any kind of the classic generation."""
    match kind:
        case "ResourceSlice" | "DeviceTaintRule" | "Classic":
            return _about(_DEVICE_PLUGINS)
        case "DeviceClass":
            return ClusterEvent(_DEVICE_PLUGINS | {"NodeResourcesFit"}, _device_class_may_help)
        case "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass":
            return _about(_VOLUME_PLUGINS)
    return _about(frozenset({kind}))


def _device_class_may_help(entry: QueuedPodInfo) -> bool:
    """A class may also serve an extended resource that no node has enough of."""
    by = entry.rejected_by
    return DYNAMIC_RESOURCES in by or ("NodeResourcesFit" in by and bool(entry.pod.requests.scalars))


def _about(plugins: frozenset[str]) -> ClusterEvent:
    """The event may help every pod that one of these plugins rejected."""
    return ClusterEvent(plugins, lambda entry: not plugins.isdisjoint(entry.rejected_by))


def _claims_of(pod: PodInfo) -> frozenset[ObjectKey]:
    return frozenset(ObjectKey(pod.namespace, r.claim) for r in claims.references(pod.document) if r.claim)
