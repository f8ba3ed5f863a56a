"""The handlers of the scheduler's informers: they keep the caches and the queue up to date, and requeue pods."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from dray.api import claims, pods
from dray.api.groups.resource.classic import bridge
from dray.client.informers import Informers
from dray.client.resources import (
    COMPOSITE_POD_GROUPS,
    DEVICE_CLASSES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.profiles import Profiles
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.queueing_hints import IN_LINE

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Node, Pod
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.api.types.scheduling_v1beta1 import PodGroup

_VOLUME_RESOURCES: Mapping[str, Resource[Any]] = {
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "PersistentVolume": PERSISTENT_VOLUMES,
    "StorageClass": STORAGE_CLASSES,
}


class EventHandlers:
    """The handlers of the informers. ``claims_changed`` is called whenever some claim has changed."""

    def __init__(
        self,
        cluster: ClusterCache,
        claim_cache: ClaimCache,
        pending: PendingPods,
        profiles: Profiles,
        *,
        claims_changed: Callable[[], None],
    ) -> None:
        self._cluster = cluster
        self._claim_cache = claim_cache
        self._pending = pending
        self._profiles = profiles
        self._claims_changed = claims_changed

    def start(
        self,
        informers: Informers,
        *,
        devices: bool,
        taint_rules: Resource[DeviceTaintRule] | None,
        groups: Collection[Resource[Any]] = (),
    ) -> None:
        """``devices``: the server has claims, slices and classes; ``taint_rules``: DeviceTaintRules in its version.

        ``groups``: the kinds of groups of pods that the server has.
        """
        get = informers.get
        if (pending := self._pending.groups) is not None:
            if POD_GROUPS in groups:
                get(POD_GROUPS).add_handler(on_set=pending.set_group, on_delete=self._group_deleted)
            if COMPOSITE_POD_GROUPS in groups:
                get(COMPOSITE_POD_GROUPS).add_handler(
                    on_set=pending.set_composite, on_delete=pending.remove_composite
                )
        get(NODES).add_handler(
            on_add=self._node_set, on_update=self._node_updated, on_delete=self._node_deleted
        )
        if devices:
            get(RESOURCE_CLAIMS).add_handler(
                on_add=partial(self._claim_set, None),
                on_update=self._claim_set,
                on_delete=self._claim_deleted,
            )
            get(RESOURCE_SLICES).add_handler(
                on_set=self._slice_set,
                on_delete=lambda o: self._claim_cache.remove_slice(o["metadata"]["name"]),
            )
            get(DEVICE_CLASSES).add_handler(
                on_set=self._class_set,
                on_delete=lambda o: self._claim_cache.remove_class(o["metadata"]["name"]),
            )
            if taint_rules is not None:
                get(taint_rules).add_handler(on_set=self._rule_set, on_delete=self._rule_deleted)
        for kind, resource in _VOLUME_RESOURCES.items():
            get(resource).add_handler(on_set=partial(self._volumes_changed, kind))
        get(PODS).add_handler(on_set=self._pod_set, on_delete=self._pod_deleted)

    # -- nodes and volumes ------------------------------------------------------------------------------------------

    def _node_set(self, document: Node) -> None:
        self._pending.node_event(self._cluster.set_node(document))

    def _node_updated(self, old: Node, new: Node) -> None:
        if not _same_for_scheduling(old, new):
            self._node_set(new)

    def _node_deleted(self, document: Node) -> None:
        name = document["metadata"]["name"]
        self._cluster.remove_node(name)
        self._claim_cache.inventory.forget_node(name)
        self._pending.node_event(None)

    def _volumes_changed(self, kind: str, document: Object) -> None:
        self._pending.event(kind)

    # -- devices and claims -----------------------------------------------------------------------------------------

    def _slice_set(self, document: ResourceSlice) -> None:
        self._claim_cache.set_slice(document)
        self._pending.event("ResourceSlice")

    def _class_set(self, document: DeviceClass) -> None:
        self._claim_cache.set_class(document)
        self._pending.event("DeviceClass")

    def _rule_set(self, rule: DeviceTaintRule) -> None:
        self._claim_cache.set_taint_rule(rule)
        self._pending.event("DeviceTaintRule")

    def _rule_deleted(self, rule: DeviceTaintRule) -> None:
        self._claim_cache.remove_taint_rule(rule["metadata"]["name"])
        self._pending.event("DeviceTaintRule")

    def _claim_set(self, old: ResourceClaim | None, new: ResourceClaim) -> None:
        if bridge.is_classic(new):
            return  # the v1 view of a classic claim, which the classic event handlers deal with
        self._claim_cache.set_claim(new)
        self._claims_changed()
        if old is None or not _same_claim_and_owner(old["metadata"], new["metadata"]):
            self._pending.recheck(new)
        self._pending.claim_event(old, new)

    def _claim_deleted(self, claim: ResourceClaim) -> None:
        if bridge.is_classic(claim):
            return
        self._claim_cache.remove_claim(claim)
        self._claims_changed()
        if claims.allocation(claim) is not None:
            self._pending.claim_event(claim, None)

    # -- pods -------------------------------------------------------------------------------------------------------

    def _pod_set(self, document: Pod) -> None:
        metadata, spec = document["metadata"], document["spec"]
        uid, node = metadata["uid"], spec.get("nodeName")
        if pods.is_terminal(document):
            self._leave(uid)
            if "schedulingGroup" in spec:
                self._member_finished(document, deleted=False)
        elif node:
            self._bound(uid, node, document)
        elif (
            uid not in self._pending.assumed
            and spec.get("schedulerName", "default-scheduler") in self._profiles.by_name
        ):
            self._pending.add_or_update(uid, document)

    def _pod_deleted(self, document: Pod) -> None:
        self._leave(document["metadata"]["uid"])
        if "schedulingGroup" in document["spec"]:
            self._member_finished(document, deleted=True)

    def _member_finished(self, document: Pod, *, deleted: bool) -> None:
        groups, metadata = self._pending.groups, document["metadata"]
        if groups is not None and (deleted or document.get("status", {}).get("phase") == "Succeeded"):
            group = document["spec"]["schedulingGroup"].get("podGroupName") or ""
            groups.finished(metadata["namespace"], group, metadata["uid"], deleted=deleted)

    def _bound(self, uid: str, node: str, document: Pod) -> None:
        self._pending.delete(uid)
        known = self._known(uid)
        pod = known.updated(document) if known is not None else PodInfo(document)
        if known is not None and self._cluster.confirm(pod, node):
            if pod.labels is not known.labels and pod.labels != known.labels:
                self._pending.assigned_pod_event(known, pod)
            return
        self._cluster.add_pod(pod, node)
        self._pending.assigned_pod_event(known, pod)

    def _known(self, uid: str) -> PodInfo | None:
        where = self._cluster.node_of(uid)
        if where is None:
            return None
        node = self._cluster.get(where)
        return node.pods.get(uid) if node is not None else None

    def _group_deleted(self, group: PodGroup) -> None:
        assert self._pending.groups is not None
        self._pending.groups.remove_group(group)
        self._pending.event(IN_LINE)

    def _leave(self, uid: str) -> None:
        """The pod is terminal or deleted."""
        self._pending.delete(uid)
        self._profiles.forget_pod(uid)
        removed = self._cluster.remove_pod(uid)
        if removed is not None:
            self._pending.assigned_pod_event(removed, None)


def _same_for_scheduling(old: Node, new: Node) -> bool:
    """Heartbeats update the conditions of a node all the time; filters and scores do not read these."""
    return (
        old["spec"] == new["spec"]
        and (old["metadata"].get("labels") or {}) == (new["metadata"].get("labels") or {})
        and (old.get("status") or {}).get("allocatable") == (new.get("status") or {}).get("allocatable")
    )


def _same_claim_and_owner(old: ObjectMeta, new: ObjectMeta) -> bool:
    """Whether a claim is the same object and has the same owner: then no pod waits for the update."""
    return old["uid"] == new["uid"] and old.get("ownerReferences") == new.get("ownerReferences")
