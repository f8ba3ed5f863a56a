"""A cluster's devices, claims, nodes and pods at one moment, as one value and as one file."""

from __future__ import annotations

import gzip
import io
import re
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeGuard, cast

import msgspec

from dray.api import on_demand
from dray.api.identity import ObjectKey, object_key

if TYPE_CHECKING:
    from typing import TypedDict

    from dray.api.types import Object, ObjectList
    from dray.api.types.core import (
        ConfigMap,
        Event,
        Namespace,
        Node,
        PersistentVolume,
        PersistentVolumeClaim,
        Pod,
    )
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import (
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
    )
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        ResourceClaimParameters,
        ResourceClass,
        ResourceClassParameters,
    )
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate
    from dray.api.types.resource_v1alpha2 import ResourceSlice as ClassicSlice
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.api.types.storage import StorageClass

    class SnapshotHeader(TypedDict, total=False):
        """A snapshot file, its lists of objects aside."""

        apiVersion: str
        kind: str
        release: str
        gates: Sequence[str]
        unread: Sequence[str]


API_VERSION: Final = "dray.dev/v1"
KIND: Final = "Snapshot"
#: how a snapshot of any version begins
_SNAPSHOT: Final = re.compile(
    rb'\s*\{\s*"apiVersion"\s*:\s*"(dray\.dev/[^"]*)"\s*,\s*"kind"\s*:\s*"Snapshot"'
)

#: The lists of objects in a snapshot.
SnapshotField = Literal[
    "namespaces", "nodes", "pods", "classes", "slices", "claims", "templates", "taint_rules", "volume_claims",
    "volumes", "storage_classes", "events", "on_demand", "groups", "classic_claims", "classic_templates",
    "classic_slices", "resource_classes", "claim_parameters", "class_parameters", "scheduling_contexts",
]  # fmt: skip
#: Field of the snapshot → kind of its objects.
KINDS: Final[Mapping[SnapshotField, str]] = {
    "namespaces": "Namespace",
    "nodes": "Node",
    "pods": "Pod",
    "classes": "DeviceClass",
    "slices": "ResourceSlice",
    "claims": "ResourceClaim",
    "templates": "ResourceClaimTemplate",
    "taint_rules": "DeviceTaintRule",
    "volume_claims": "PersistentVolumeClaim",
    "volumes": "PersistentVolume",
    "storage_classes": "StorageClass",
    "events": "Event",
    "on_demand": "ConfigMap",
    "groups": "PodGroup",
}
#: The same for the kinds of the classic API.
CLASSIC_KINDS: Final[Mapping[SnapshotField, str]] = {
    "classic_claims": "ResourceClaim",
    "classic_templates": "ResourceClaimTemplate",
    "classic_slices": "ResourceSlice",
    "resource_classes": "ResourceClass",
    "claim_parameters": "ResourceClaimParameters",
    "class_parameters": "ResourceClassParameters",
    "scheduling_contexts": "PodSchedulingContext",
}
FIELDS: Final[Mapping[str, str]] = {kind: name for name, kind in KINDS.items()}
_CLASSIC_FIELDS: Final[Mapping[str, str]] = {
    **{kind: name for name, kind in CLASSIC_KINDS.items()},
    "PodScheduling": "scheduling_contexts",  # 1.26's name
}
_CLASSIC_VERSIONS: Final = frozenset({"resource.k8s.io/v1alpha1", "resource.k8s.io/v1alpha2"})


#: What a compressed file may hold.
_MOST_BYTES: Final = 1 << 30


class SnapshotError(Exception):
    """A file that cannot be used, with the reason."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Snapshot:
    """The objects of a cluster, in the newest shape of their generation whatever version they were read in."""

    namespaces: tuple[Namespace, ...] = ()
    nodes: tuple[Node, ...] = ()
    pods: tuple[Pod, ...] = ()
    classes: tuple[DeviceClass, ...] = ()
    slices: tuple[ResourceSlice, ...] = ()
    claims: tuple[ResourceClaim, ...] = ()
    templates: tuple[ResourceClaimTemplate, ...] = ()
    taint_rules: tuple[DeviceTaintRule, ...] = ()
    volume_claims: tuple[PersistentVolumeClaim, ...] = ()
    volumes: tuple[PersistentVolume, ...] = ()
    storage_classes: tuple[StorageClass, ...] = ()
    events: tuple[Event, ...] = ()  # warnings about pods and claims
    groups: tuple[PodGroup, ...] = ()  # pods that are scheduled together
    on_demand: tuple[ConfigMap, ...] = ()  # devices that drivers publish once a class names them
    classic_claims: tuple[ClassicClaim, ...] = ()
    classic_templates: tuple[ClassicTemplate, ...] = ()
    classic_slices: tuple[ClassicSlice, ...] = ()
    resource_classes: tuple[ResourceClass, ...] = ()
    claim_parameters: tuple[ResourceClaimParameters, ...] = ()
    class_parameters: tuple[ResourceClassParameters, ...] = ()
    scheduling_contexts: tuple[PodSchedulingContext, ...] = ()
    unread: tuple[str, ...] = ()  # kinds that the user may not read: nothing can be said about them
    release: str = ""  # of the cluster, such as 1.36; empty: the newest
    gates: frozenset[str] | None = None  # those that are on; None: not known, the release's defaults

    def applied(self, manifests: Iterable[Object]) -> Snapshot:
        """The same cluster once somebody has typed ``kubectl apply``."""
        there: dict[ObjectKey, Object] = {object_key(one): one for one in self.pods}
        claims: dict[ObjectKey, Object] = {
            object_key(one): one for one in (*self.claims, *self.classic_claims)
        }
        known = {"Pod": there, "ResourceClaim": claims}
        return self.with_objects(
            one
            if (old := known.get(one.get("kind", ""), {}).get(object_key(one))) is None
            else _kept(one, old)
            for one in manifests
        )

    def with_objects(self, objects: Iterable[Object]) -> Snapshot:
        """The same cluster once these objects are applied: they replace what has their name.

        Drivers that wait for a class among them have published their devices.
        """
        added: dict[str, dict[ObjectKey, Object]] = {}
        for obj in objects:
            fields = _CLASSIC_FIELDS if obj.get("apiVersion") in _CLASSIC_VERSIONS else FIELDS
            name = fields.get(obj.get("kind", ""))
            if name is not None:
                added.setdefault(name, {})[object_key(obj)] = obj
        changes: dict[str, Any] = {
            name: (*(one for one in getattr(self, name) if object_key(one) not in new), *new.values())
            for name, new in added.items()
        }
        found = replace(self, **changes)
        if not (classes := changes.get("classes")) or not found.on_demand:
            return found
        return replace(found, slices=(*found.slices, *found._published_for(classes)))

    def _published_for(self, classes: Iterable[DeviceClass]) -> Iterator[ResourceSlice]:
        """The slices of drivers that publish their devices once there are such classes."""
        published = {one["spec"]["driver"] for one in self.slices}
        for config in self.on_demand:
            driver = on_demand.announced_driver(config)
            if driver and driver not in published and any(on_demand.names_driver(c, driver) for c in classes):
                yield from on_demand.announced_slices(config, (object_key(node).name for node in self.nodes))

    def dump(self) -> bytes:
        header: SnapshotHeader = {"apiVersion": API_VERSION, "kind": KIND, "release": self.release}
        if self.gates is not None:
            header["gates"] = sorted(self.gates)
        if self.unread:
            header["unread"] = self.unread
        return msgspec.json.encode(
            {**header, **{name: getattr(self, name) for name in (*KINDS, *CLASSIC_KINDS)}}
        )


_IDENTITY: Final = ("uid", "creationTimestamp", "resourceVersion", "ownerReferences", "finalizers")


def _kept(manifest: Object, there: Object) -> Object:
    """A manifest for an object that is there: its identity, owners, status and node are not for the manifest to say."""
    new, old = cast("Pod", manifest), cast("Pod", there)  # or claims, which have no node
    own = {name: value for name, value in old["metadata"].items() if name in _IDENTITY}
    kept: Pod = {**new, "metadata": {**cast("ObjectMeta", own), **new["metadata"]}}
    kept["status"] = old.get("status") or {}
    if node := (old.get("spec") or {}).get("nodeName"):
        kept["spec"] = {"nodeName": node, **(new.get("spec") or {})}
    return cast("Object", kept)


def save(snapshot: Snapshot, path: Path) -> None:
    """Write a file, compressed if its name ends in .gz."""
    data = snapshot.dump()
    path.write_bytes(gzip.compress(data, 6) if path.suffix == ".gz" else data)


def load(path: Path) -> Snapshot:
    """Read a snapshot, or any file of objects in YAML or JSON such as ``kubectl get -o yaml`` writes; ``-`` is stdin."""
    try:
        data = sys.stdin.buffer.read() if str(path) == "-" else path.read_bytes()
        if data[:2] == b"\x1f\x8b":
            data = _decompressed(data, path)
    except OSError as error:  # of which BadGzipFile is one
        raise SnapshotError(f"{path}: {error.strerror or error}") from None
    except (EOFError, zlib.error) as error:
        raise SnapshotError(f"{path}: {error}") from None
    return parse(data, str(path))


def _decompressed(data: bytes, path: Path) -> bytes:
    with gzip.GzipFile(fileobj=io.BytesIO(data)) as file:
        found = file.read(_MOST_BYTES + 1)
    if len(found) > _MOST_BYTES:
        raise SnapshotError(f"{path}: more than {_MOST_BYTES >> 20} MiB once it is decompressed")
    return found


def parse(data: bytes, name: str = "") -> Snapshot:
    found = _parsed(data, name)
    if found is not None:
        return found
    from dray.explain.model import manifests

    listed = _listed(data)
    if listed is not None:
        found_objects = [manifests.manifest(one) for one in listed]
        if wrong := next((one for one in found_objects if one.malformed), None):
            raise SnapshotError(f"{name}: {wrong.malformed}")
        return Snapshot().with_objects(one.document for one in found_objects)
    return Snapshot().with_objects(m.document for m in manifests.read(data, name))


def _is_mapping(content: object) -> TypeGuard[Object]:
    return isinstance(content, dict)


def _listed(data: bytes) -> Sequence[Any] | None:
    """A list as ``kubectl get -o json`` writes it, which may be too long to be read as YAML; None: something else."""
    if not data.startswith(b"{"):
        return None
    try:
        document: ObjectList = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return None
    items = document.get("items")
    if document.get("kind") != "List" or not isinstance(items, list):
        return None
    return items if all(isinstance(one, dict) for one in items) else None


def _parsed(data: bytes, name: str) -> Snapshot | None:
    """A snapshot that ``save`` has written; None if it is something else."""
    other = _SNAPSHOT.match(data)
    if other is not None and other[1].decode() != API_VERSION:
        raise SnapshotError(
            f"{name}: a snapshot of version {other[1].decode()}, and this dray reads {API_VERSION}: "
            "write it anew with dray snapshot"
        )
    if not data.startswith(b'{"apiVersion":"%s"' % API_VERSION.encode()):
        return None
    try:
        content = msgspec.json.decode(data)
    except msgspec.DecodeError as error:
        raise SnapshotError(f"{name}: damaged snapshot: {error}") from None
    for kind in (*KINDS, *CLASSIC_KINDS):
        objects = content.get(kind) or []
        if not isinstance(objects, list) or not all(
            _is_mapping(one) and isinstance(one.get("metadata"), dict) for one in objects
        ):
            raise SnapshotError(f"{name}: damaged snapshot: its {kind} are no objects")
    header: SnapshotHeader = content
    gates = header.get("gates")
    return Snapshot(
        release=header.get("release") or "",
        gates=None if gates is None else frozenset(gates),
        unread=tuple(header.get("unread") or ()),
        **{name: tuple(content.get(name) or ()) for name in (*KINDS, *CLASSIC_KINDS)},
    )
