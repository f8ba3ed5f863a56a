"""Which node has to do with which object, by way of the pods on it.

Where each pod is, is kept up to date as pods come, change and go. What a pod refers to is read when its node asks:
pods change more often than nodes ask, and a node has few of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from dray.server.auth.nodes.references import Reference, references
from dray.server.registry.resources import Resources
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import Change, WatchCache


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
        node: str = document.hub["spec"].get("nodeName") or ""
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
        pod = self._object("", "pods", key)
        return frozenset() if pod is None else references(pod, fixed_names=self._fixed_names)

    # -- asking

    def related(self, node: str, resource: str, namespace: str, name: str, *, version: str = "") -> bool:
        """Whether an object is some business of a node's. Slices of two generations may have the same name."""
        match resource:
            case "pods":
                return self._placed.get(f"{namespace}/{name}") == node
            case "resourceslices":
                return self._slice_of_node(version, name, node)
            case "volumeattachments":
                return self._names_node("storage.k8s.io", resource, name, node)
            case "persistentvolumes":
                volume = self._object("", resource, name)
                return volume is not None and self._mounts(node, volume)
        if self._refers(node, Reference(resource, namespace, name)):
            return True
        return resource == "secrets" and self._through_volume(node, namespace, name)

    def _slice_of_node(self, version: str, name: str, node: str) -> bool:
        found = self._resources.find("resource.k8s.io", version, "resourceslices")
        document = None if found is None else found[0].cache.get(name)
        return document is not None and (document.hub.get("spec") or document.hub).get("nodeName") == node

    def _names_node(self, group: str, resource: str, name: str, node: str) -> bool:
        found = self._object(group, resource, name)
        return found is not None and found["spec"].get("nodeName") == node

    def _mounts(self, node: str, volume: Mapping[str, Any]) -> bool:
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

    def _object(self, group: str, plural: str, key: str) -> Mapping[str, Any] | None:
        cache = self._cache(group, plural)
        document = None if cache is None else cache.get(key)
        return None if document is None else document.hub


def _volume_secrets(volume: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Secrets of a persistent volume that a kubelet has to read."""
    spec = volume["spec"]
    own = (spec.get("claimRef") or {}).get("namespace", "")
    csi = spec.get("csi") or {}
    for source, key in (
        (csi, "nodePublishSecretRef"),
        (csi, "nodeStageSecretRef"),
        (csi, "nodeExpandSecretRef"),
        (spec.get("cephfs") or {}, "secretRef"),
        (spec.get("flexVolume") or {}, "secretRef"),
        (spec.get("rbd") or {}, "secretRef"),
        (spec.get("scaleIO") or {}, "secretRef"),
        (spec.get("iscsi") or {}, "secretRef"),
        (spec.get("storageos") or {}, "secretRef"),
    ):
        reference = source.get(key) or {}
        if reference.get("name"):
            yield reference.get("namespace") or own, reference["name"]
    azure = spec.get("azureFile") or {}
    if azure.get("secretName"):
        yield azure.get("secretNamespace") or own, azure["secretName"]
