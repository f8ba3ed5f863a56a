"""Upstream's VolumeBinding for bound claims: a claim must exist and be bound, and its volume must fit the node."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from dray.api import nodeaffinity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolume, PersistentVolumeClaim
    from dray.api.types.storage import StorageClass
    from dray.placement.quirks import PlacementQuirks

PLUGIN = "VolumeBinding"

_UNBOUND = Rejection(PLUGIN, ("pod has unbound immediate PersistentVolumeClaims",), resolvable=False)
_NODE_AFFINITY = Rejection(
    PLUGIN, ("node(s) didn't match PersistentVolume's node affinity",), resolvable=False
)
_NODE_AFFINITY_CONFLICT = Rejection(PLUGIN, ("node(s) had volume node affinity conflict",), resolvable=False)
_NO_VOLUME = Rejection(
    PLUGIN, ("node(s) didn't find available persistent volumes to bind",), resolvable=False
)
_LOST = Rejection(
    PLUGIN, ("node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",), resolvable=False
)


class VolumeBinding:
    """Reads volume claims, volumes and storage classes through three functions."""

    def __init__(
        self,
        *,
        volume_claim: Callable[[str, str], PersistentVolumeClaim | None],
        volume: Callable[[str], PersistentVolume | None],
        storage_class: Callable[[str], StorageClass | None],
        quirks: PlacementQuirks | None = None,
    ) -> None:
        self._volume_claim = volume_claim
        self._volume = volume
        self._storage_class = storage_class
        conflict = quirks is not None and quirks.names_volume_conflict
        self._node_affinity = _NODE_AFFINITY_CONFLICT if conflict else _NODE_AFFINITY

    def reject(self, pod: PodInfo) -> Rejection | None:
        """Why no node fits."""
        for name in pod.volume_claims:
            claim = self._volume_claim(pod.namespace, name)
            if claim is None:
                return Rejection(PLUGIN, (f'persistentvolumeclaim "{name}" not found',), resolvable=False)
            if (claim.get("status") or {}).get("phase") == "Lost":
                lost = claim["spec"].get("volumeName") or ""
                text = f'persistentvolumeclaim "{name}" bound to non-existent persistentvolume "{lost}"'
                return Rejection(PLUGIN, (text,), resolvable=False)
            if "deletionTimestamp" in claim["metadata"]:
                return Rejection(
                    PLUGIN, (f'persistentvolumeclaim "{name}" is being deleted',), resolvable=False
                )
            if not claim["spec"].get("volumeName") and not self._waits(claim):
                return _UNBOUND
        return None

    def on(self, pod: PodInfo, node: NodeInfo) -> Rejection | None:
        for name in pod.volume_claims:
            claim = self._volume_claim(pod.namespace, name)
            bound = claim["spec"].get("volumeName") if claim is not None else None
            if not bound:
                return _NO_VOLUME
            volume = self._volume(bound)
            if volume is None:
                return _LOST
            affinity = ((volume.get("spec") or {}).get("nodeAffinity") or {}).get("required")
            if affinity and not nodeaffinity.node_selector(affinity)(node.name, node.labels):
                return self._node_affinity
        return None

    def _waits(self, claim: PersistentVolumeClaim) -> bool:
        storage = self._storage_class(claim["spec"].get("storageClassName") or "")
        return storage is not None and storage.get("volumeBindingMode") == "WaitForFirstConsumer"
