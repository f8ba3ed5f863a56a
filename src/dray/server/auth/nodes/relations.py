"""Which node has to do with which object, kept up to date as pods come, change and go."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from dray.server.auth.nodes.references import Reference, references
from dray.server.cache import Change, Collection
from dray.server.documents import Document
from dray.server.resources import Resources

_NOTHING: Final[frozenset[Reference]] = frozenset()


class _Placed(NamedTuple):
    """A pod on a node, and what it refers to."""

    node: str
    references: frozenset[Reference]


class Relations:
    """An index from objects to nodes, by way of the pods on them."""

    def __init__(self, resources: Resources, *, fixed_names: bool = False) -> None:
        self._resources = resources
        self._fixed_names = fixed_names
        self._placed: dict[str, _Placed] = {}
        self._nodes: dict[Reference, Counter[str]] = {}
        pods = resources.resource("", "pods")
        if pods is not None:
            for document in pods.stored:
                self._place(document)
            pods.stored.subscribe(self._changed)

    def _changed(self, change: Change) -> None:
        if change.after is not None:
            self._place(change.after)
        elif change.before is not None:
            self._put(change.before.key, _Placed("", _NOTHING))

    def _place(self, document: Document) -> None:
        pod = document.hub
        node = pod["spec"].get("nodeName") or ""
        found = references(pod, fixed_names=self._fixed_names) if node else _NOTHING
        self._put(document.key, _Placed(node, found))

    def _put(self, key: str, new: _Placed) -> None:
        old = self._placed.get(key)
        if old == new:
            return
        if old is not None:
            for reference in old.references:
                counts = self._nodes[reference]
                counts[old.node] -= 1
                if not counts[old.node]:
                    del counts[old.node]
                if not counts:
                    del self._nodes[reference]
        if not new.node:
            self._placed.pop(key, None)
            return
        self._placed[key] = new
        for reference in new.references:
            self._nodes.setdefault(reference, Counter())[new.node] += 1

    # -- asking

    def related(self, node: str, resource: str, namespace: str, name: str, *, version: str = "") -> bool:
        """Whether an object is some business of a node's. Slices of two generations may have the same name."""
        match resource:
            case "pods":
                placed = self._placed.get(f"{namespace}/{name}")
                return placed is not None and placed.node == node
            case "resourceslices":
                return self._slice_of_node(version, name, node)
            case "volumeattachments":
                return self._names_node("storage.k8s.io", resource, name, node)
            case "persistentvolumes":
                volume = self._object("", resource, name)
                return volume is not None and self._mounts(node, volume)
        if node in self._nodes.get(Reference(resource, namespace, name), ()):
            return True
        return resource == "secrets" and self._through_volume(node, namespace, name)

    def _slice_of_node(self, version: str, name: str, node: str) -> bool:
        found = self._resources.find("resource.k8s.io", version, "resourceslices")
        document = None if found is None or found[0].collection is None else found[0].collection.get(name)
        return document is not None and (document.hub.get("spec") or document.hub).get("nodeName") == node

    def _names_node(self, group: str, resource: str, name: str, node: str) -> bool:
        found = self._object(group, resource, name)
        return found is not None and found["spec"].get("nodeName") == node

    def _mounts(self, node: str, volume: Mapping[str, Any]) -> bool:
        claim = volume["spec"].get("claimRef") or {}
        reference = Reference("persistentvolumeclaims", claim.get("namespace", ""), claim.get("name", ""))
        return node in self._nodes.get(reference, ())

    def _through_volume(self, node: str, namespace: str, name: str) -> bool:
        """A secret that a mounted persistent volume needs. Few clusters have many such volumes."""
        volumes = self._collection("", "persistentvolumes")
        return volumes is not None and any(
            (namespace, name) in set(_volume_secrets(d.hub)) and self._mounts(node, d.hub) for d in volumes
        )

    def _collection(self, group: str, plural: str) -> Collection | None:
        found = self._resources.resource(group, plural)
        return None if found is None else found.collection

    def _object(self, group: str, plural: str, name: str) -> Mapping[str, Any] | None:
        collection = self._collection(group, plural)
        document = None if collection is None else collection.get(name)
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
