"""What happens in the cluster: informers keep cluster, ledger and queue in step, and wake the pods that it may help."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from dray.api import claims
from dray.api.groups.resource.classic import bridge
from dray.client.informers import Informers
from dray.client.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
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

Document = Mapping[str, Any]

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

    def start(self, informers: Informers, *, devices: bool, taint_rules: bool) -> None:
        """``devices``: there are claims, slices and classes; ``taint_rules``: and rules that taint devices."""
        get = informers.get
        get(NODES).add_handler(
            on_add=self._node_set, on_update=lambda o, n: self._node_set(n, o), on_delete=self._node_gone
        )
        if devices:
            get(RESOURCE_CLAIMS).add_handler(
                on_add=partial(self._claim_set, None),
                on_update=self._claim_set,
                on_delete=self._claim_gone,
            )
            get(RESOURCE_SLICES).add_handler(
                on_add=self._slice_set,
                on_update=lambda o, n: self._slice_set(n, o),
                on_delete=self._slice_gone,
            )
            get(DEVICE_CLASSES).add_handler(
                on_set=self._class_set,
                on_delete=lambda o: self._claim_cache.remove_class(o["metadata"]["name"]),
            )
            if taint_rules:
                get(DEVICE_TAINT_RULES).add_handler(
                    on_set=self._rule_set, on_delete=lambda o: self._rule_gone(o["metadata"]["name"])
                )
        for kind, resource in _VOLUME_RESOURCES.items():
            get(resource).add_handler(on_set=partial(self._volumes_changed, kind))
        get(PODS).add_handler(on_set=self._pod_set, on_delete=self._pod_gone)

    # -- nodes and volumes ------------------------------------------------------------------------------------------

    def _node_set(self, document: Document, old: Document | None = None) -> None:
        if old is not None and _same_for_scheduling(old, document):
            return
        node = self._cluster.set_node(document)
        self._pending.requeue("Node", "update" if old is not None else "add", old, node)

    def _node_gone(self, document: Document) -> None:
        name = document["metadata"]["name"]
        self._cluster.remove_node(name)
        self._claim_cache.inventory.forget_node(name)
        self._pending.requeue("Node", "delete", document, None)

    def _volumes_changed(self, kind: str, document: Document) -> None:
        self._pending.requeue(kind, "update", None, document)

    # -- devices and claims -----------------------------------------------------------------------------------------

    def _slice_set(self, document: Document, old: Document | None = None) -> None:
        self._claim_cache.set_slice(document)
        self._pending.requeue("ResourceSlice", "update" if old is not None else "add", old, document)

    def _slice_gone(self, document: Document) -> None:
        self._claim_cache.remove_slice(document["metadata"]["name"])

    def _class_set(self, document: Document) -> None:
        self._claim_cache.set_class(document)
        self._pending.requeue("DeviceClass", "add", None, document)

    def _rule_set(self, rule: Document) -> None:
        self._claim_cache.set_taint_rule(rule)
        self._pending.requeue("DeviceTaintRule", "add", None, rule)

    def _rule_gone(self, name: str) -> None:
        self._claim_cache.remove_taint_rule(name)
        self._pending.requeue("DeviceTaintRule", "delete")

    def _claim_set(self, old: Document | None, new: Document) -> None:
        if bridge.is_classic(new):
            return  # a view of a claim that is dealt with elsewhere
        self._claim_cache.set_claim(new)
        self._claims_changed()
        if old is None or not _same_claim_and_owner(old["metadata"], new["metadata"]):
            self._pending.recheck(new)
        self._pending.requeue("ResourceClaim", "add" if old is None else "update", old, new)

    def _claim_gone(self, claim: Document) -> None:
        if bridge.is_classic(claim):
            return
        self._claim_cache.remove_claim(claim)
        self._claims_changed()
        if claims.allocation(claim) is not None:
            self._pending.requeue("ResourceClaim", "delete", claim, None)

    # -- pods -------------------------------------------------------------------------------------------------------

    def _pod_set(self, document: Document) -> None:
        metadata, spec = document["metadata"], document["spec"]
        uid, node = metadata["uid"], spec.get("nodeName")
        if (document.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._leave(uid)
        elif node:
            self._placed(uid, node, document)
        elif (
            uid not in self._pending.assumed
            and spec.get("schedulerName", "default-scheduler") in self._profiles.by_name
        ):
            self._pending.add_or_update(uid, document)

    def _placed(self, uid: str, node: str, document: Document) -> None:
        self._pending.delete(uid)
        known = self._known(uid)
        pod = known.updated(document) if known is not None else PodInfo(document)
        if known is not None and self._cluster.confirm(pod, node):
            if pod.labels is not known.labels and pod.labels != known.labels:
                self._pending.requeue("AssignedPod", "update", known, pod)
            return
        self._cluster.add_pod(pod, node)
        self._pending.requeue("AssignedPod", "add" if known is None else "update", known, pod)

    def _known(self, uid: str) -> PodInfo | None:
        where = self._cluster.node_of(uid)
        if where is None:
            return None
        node = self._cluster.get(where)
        return node.pods.get(uid) if node is not None else None

    def _leave(self, uid: str) -> None:
        """The pod needs no room any more."""
        self._pending.delete(uid)
        gone = self._cluster.remove_pod(uid)
        if gone is not None:
            self._pending.requeue("AssignedPod", "delete", gone, None)

    def _pod_gone(self, document: Document) -> None:
        self._leave(document["metadata"]["uid"])


def _same_for_scheduling(old: Document, new: Document) -> bool:
    """Heartbeats change a node's conditions all the time; only what decisions look at counts."""
    return (
        old["spec"] == new["spec"]
        and (old["metadata"].get("labels") or {}) == (new["metadata"].get("labels") or {})
        and (old.get("status") or {}).get("allocatable") == (new.get("status") or {}).get("allocatable")
    )


def _same_claim_and_owner(old: Document, new: Document) -> bool:
    """Whether a claim is still the same one and belongs to the same pod: then it opens no gate that was closed."""
    return old["uid"] == new["uid"] and old.get("ownerReferences") == new.get("ownerReferences")
