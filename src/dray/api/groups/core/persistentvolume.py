"""Persistent volumes: storage that exists, to the extent that claims need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core import resourcenames
from dray.api.groups.core.persistentvolumeclaim import (
    CLASS_ANNOTATION,
    VOLUME_MODES,
    check_access_modes,
    modes,
)
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context, StatusStrategy, SubdomainStrategy, immutable, keep_fields
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError
from dray.api.validation.nodeselectors import check_node_selector

if TYPE_CHECKING:
    from dray.api.types.core import PersistentVolume

_RECLAIM_POLICIES: Final = ("Delete", "Recycle", "Retain")
#: Fields of the spec that say something else than where the storage is.
_NOT_SOURCES: Final = frozenset(
    {
        "capacity",
        "accessModes",
        "claimRef",
        "persistentVolumeReclaimPolicy",
        "storageClassName",
        "mountOptions",
        "volumeMode",
        "nodeAffinity",
        "volumeAttributesClassName",
    }
)


def _default(obj: PersistentVolume) -> None:
    spec = obj.setdefault("spec", {})
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
    spec.setdefault("volumeMode", "Filesystem")
    if spec.get("capacity"):
        spec["capacity"] = resourcenames.rounded(spec["capacity"])
    if (path := spec.get("hostPath")) is not None and path.get("type") is None:
        path["type"] = ""


class PersistentVolumeStrategy(SubdomainStrategy["PersistentVolume"]):
    delete_returns_object = True

    def prepare_create(self, obj: PersistentVolume, ctx: Context) -> None:
        obj["status"] = {"phase": "Pending"}

    def validate(self, obj: PersistentVolume, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        found = check_access_modes(spec.get("accessModes") or (), SPEC.child("accessModes"))
        capacity, path = spec.get("capacity") or {}, SPEC.child("capacity")
        if not capacity:
            found.append(field.required(path))
        elif set(capacity) != {"storage"}:
            found.append(field.not_supported(path, dict(capacity), ("storage",)))
        for name, amount in sorted(capacity.items()):
            found += resourcenames.check_positive(amount, path.key(name))
        policy = spec.get("persistentVolumeReclaimPolicy", "")
        found += checks.one_of(policy, SPEC.child("persistentVolumeReclaimPolicy"), _RECLAIM_POLICIES)
        if (affinity := (spec.get("nodeAffinity") or {}).get("required")) is not None:
            found += check_node_selector(affinity, SPEC.child("nodeAffinity", "required"))
        sources = [part for part in spec if part not in _NOT_SOURCES]
        if not sources:
            found.append(field.required(SPEC, "must specify a volume type"))
        for part in sources[1:]:
            found.append(field.forbidden(SPEC.child(part), "may not specify more than 1 volume type"))
        if spec.get("storageClassName"):
            found += checks.dns_subdomain(spec["storageClassName"], SPEC.child("storageClassName"))
        mode = spec.get("volumeMode", "")
        return found + checks.one_of(mode, SPEC.child("volumeMode"), VOLUME_MODES, needed=False)

    def prepare_update(self, new: PersistentVolume, old: PersistentVolume, ctx: Context) -> None:
        keep_fields(new, old, "status")

    def validate_update(
        self, new: PersistentVolume, old: PersistentVolume, ctx: Context
    ) -> Sequence[FieldError]:
        found = list(self.validate(new, ctx))
        spec, before = new.get("spec", {}), old.get("spec", {})
        for part in sorted({*spec, *before} - _NOT_SOURCES):
            if spec.get(part) != before.get(part):
                words = "spec.persistentvolumesource is immutable after creation"
                found.append(field.forbidden(SPEC.child("persistentvolumesource"), words))
                break
        return [
            *found,
            *immutable(spec.get("volumeMode"), before.get("volumeMode"), SPEC.child("volumeMode")),
        ]


def _cells(obj: PersistentVolume, now: float) -> Sequence[object]:
    spec, status, meta = obj.get("spec", {}), obj.get("status", {}), obj["metadata"]
    claim = spec.get("claimRef")
    annotated = (meta.get("annotations") or {}).get(CLASS_ANNOTATION)
    return (
        printers.name(obj),
        (spec.get("capacity") or {}).get("storage", "0"),
        modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        "Terminating" if meta.get("deletionTimestamp") else status.get("phase", ""),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim is not None else "",
        annotated if annotated is not None else spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        status.get("reason", ""),
        printers.age(obj, now),
        spec.get("volumeMode", "<unset>"),
    )


KIND = Kind(
    group="",
    kind="PersistentVolume",
    plural="persistentvolumes",
    namespaced=False,
    short_names=("pv",),
    versions=(Version(name="v1", type="core/v1.PersistentVolume", default=_default),),
    storage="v1",
    strategy=PersistentVolumeStrategy(),
    subresources={"status": StatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Capacity", description="How much it holds."),
            Column("Access Modes", description="How it can be mounted."),
            Column("Reclaim Policy", description="What becomes of it when its claim is gone."),
            Column("Status", description="Whether it is free, bound or released."),
            Column("Claim", description="The claim it is bound to."),
            Column("StorageClass", description="The class it belongs to."),
            Column("VolumeAttributesClass", description="The attributes it has."),
            Column("Reason", description="Why it is in a failed state."),
            printers.AGE,
            Column("VolumeMode", priority=1, description="Filesystem or Block."),
        ),
        _cells,
    ),
)
