"""Which objects a node may read because of the pods that are bound to it.

The graph follows the watch cache of pods to know the node of each pod. What a pod refers to is read when its node
asks: pods change more often than nodes ask, and a node has few pods.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dray.server.auth.nodes.references import Reference, references
from dray.server.registry.resources import Resources
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import Change, WatchCache

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolume, Pod
    from dray.api.types.resource import ResourceSliceSpec
    from dray.api.types.storage import VolumeAttachment


class Graph:
    """The pods of each node, and what they refer to."""

    def __init__(self, resources: Resources, *, fixed_names: bool = False) -> None:
        self._resources = resources
        self._fixed_names = fixed_names
        self._placed: dict[str, str] = {}  # pod → node
        # node → pod → what it refers to; None: it has changed since anybody asked
        self._pods: dict[str, dict[str, frozenset[Reference] | None]] = {}
        pods = resources.resource("", "pods")
        if pods is not None:
            for document in pods.cache:
                self._place(document)
            pods.cache.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.after is not None:
            self._place(change.after)
        elif change.before is not None:
            self._leave(change.before.key)

    def _place(self, document: Document) -> None:
        key = document.key
        pod: Pod = document.hub
        node = pod["spec"].get("nodeName") or ""
        if self._placed.get(key, "") != node:
            self._leave(key)
        if node:
            self._placed[key] = node
            self._pods.setdefault(node, {})[key] = None

    def _leave(self, key: str) -> None:
        node = self._placed.pop(key, "")
        if node:
            del self._pods[node][key]
            if not self._pods[node]:
                del self._pods[node]

    def _refers(self, node: str, reference: Reference) -> bool:
        """Whether some pod of a node refers to something."""
        pods = self._pods.get(node, {})
        for key, found in pods.items():
            if found is None:
                found = pods[key] = self._read(key)
            if reference in found:
                return True
        return False

    def _read(self, key: str) -> frozenset[Reference]:
        pod: Pod | None = self._object("", "pods", key)
        return frozenset() if pod is None else references(pod, fixed_names=self._fixed_names)

    # -- asking

    def related(self, node: str, resource: str, namespace: str, name: str, *, version: str = "") -> bool:
        """Whether a node may read an object. Slices of two generations may have the same name."""
        match resource:
            case "pods":
                return self._placed.get(f"{namespace}/{name}") == node
            case "resourceslices":
                return self._slice_of_node(version, name, node)
            case "volumeattachments":
                attachment: VolumeAttachment | None = self._object("storage.k8s.io", resource, name)
                return attachment is not None and attachment["spec"].get("nodeName") == node
            case "persistentvolumes":
                volume: PersistentVolume | None = self._object("", resource, name)
                return volume is not None and self._mounts(node, volume)
        if self._refers(node, Reference(resource, namespace, name)):
            return True
        return resource == "secrets" and self._through_volume(node, namespace, name)

    def _slice_of_node(self, version: str, name: str, node: str) -> bool:
        found = self._resources.find("resource.k8s.io", version, "resourceslices")
        document = None if found is None else found[0].cache.get(name)
        if document is None:
            return False
        spec: ResourceSliceSpec = document.hub.get("spec") or document.hub  # 1.30's slices are flat
        return spec.get("nodeName") == node

    def _mounts(self, node: str, volume: PersistentVolume) -> bool:
        claim = volume["spec"].get("claimRef") or {}
        reference = Reference("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        return self._refers(node, reference)

    def _through_volume(self, node: str, namespace: str, name: str) -> bool:
        """A secret that a mounted persistent volume needs. Few clusters have many such volumes."""
        volumes = self._cache("", "persistentvolumes")
        return volumes is not None and any(
            (namespace, name) in set(_volume_secrets(d.hub)) and self._mounts(node, d.hub) for d in volumes
        )

    def _cache(self, group: str, plural: str) -> WatchCache | None:
        found = self._resources.resource(group, plural)
        return None if found is None else found.cache

    def _object(self, group: str, plural: str, key: str) -> Any:
        cache = self._cache(group, plural)
        document = None if cache is None else cache.get(key)
        return None if document is None else document.hub


def _volume_secrets(volume: PersistentVolume) -> Iterator[tuple[str, str]]:
    """Secrets of a persistent volume that a kubelet has to read."""
    spec = volume["spec"]
    own = (spec.get("claimRef") or {}).get("namespace", "")
    csi = spec.get("csi") or {}
    for reference in (
        csi.get("nodePublishSecretRef"),
        csi.get("nodeStageSecretRef"),
        csi.get("nodeExpandSecretRef"),
        (spec.get("cephfs") or {}).get("secretRef"),
        (spec.get("flexVolume") or {}).get("secretRef"),
        (spec.get("rbd") or {}).get("secretRef"),
        (spec.get("scaleIO") or {}).get("secretRef"),
        (spec.get("iscsi") or {}).get("secretRef"),
        (spec.get("storageos") or {}).get("secretRef"),
    ):
        if reference and reference.get("name"):
            yield reference.get("namespace") or own, reference["name"]
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or own, azure["secretName"]
