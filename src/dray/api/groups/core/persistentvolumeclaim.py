"""Persistent volume claims: a wish for storage, fixed once made except for its size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core import resourcenames
from dray.api.quantity import Quantity
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    METADATA,
    SPEC,
    STATUS,
    Context,
    SubdomainStrategy,
    UpdateStrategy,
    immutable,
    keep_fields,
)
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import (
        PersistentVolumeClaim,
        PersistentVolumeClaimSpec,
    )

#: As kubectl abbreviates them, in the order it prints them.
ACCESS_MODES: Final = {
    "ReadWriteOnce": "RWO",
    "ReadOnlyMany": "ROX",
    "ReadWriteMany": "RWX",
    "ReadWriteOncePod": "RWOP",
}
VOLUME_MODES: Final = ("Block", "Filesystem")
CLASS_ANNOTATION: Final = "volume.beta.kubernetes.io/storage-class"


def default_spec(spec: PersistentVolumeClaimSpec) -> None:
    spec.setdefault("volumeMode", "Filesystem")
    for part in ("requests", "limits"):
        if spec.get("resources", {}).get(part):
            spec["resources"][part] = resourcenames.rounded(spec["resources"][part])


def _default(obj: PersistentVolumeClaim) -> None:
    default_spec(obj.setdefault("spec", {}))
    obj.setdefault("status", {}).setdefault("phase", "Pending")
    for part in ("capacity", "allocatedResources"):
        if obj["status"].get(part):
            obj["status"][part] = resourcenames.rounded(obj["status"][part])


def check_access_modes(modes: Sequence[str], path: Path) -> list[FieldError]:
    if not modes:
        return [field.required(path, "at least 1 access mode is required")]
    found = [field.not_supported(path, m, sorted(ACCESS_MODES)) for m in modes if m not in ACCESS_MODES]
    others = [m for m in modes if m in ACCESS_MODES and m != "ReadWriteOncePod"]
    if "ReadWriteOncePod" in modes and others:
        found.append(field.forbidden(path, "may not use ReadWriteOncePod with other access modes"))
    return found


def check_spec(spec: PersistentVolumeClaimSpec, path: Path) -> list[FieldError]:
    found = check_access_modes(spec.get("accessModes") or (), path.child("accessModes"))
    found += checks.label_selector(spec.get("selector"), path.child("selector"))
    storage_path = path.child("resources").key("storage")
    storage = (spec.get("resources", {}).get("requests") or {}).get("storage")
    found += (
        [field.required(storage_path)]
        if storage is None
        else resourcenames.check_positive(storage, storage_path)
    )
    if name := spec.get("storageClassName"):
        found += checks.dns_subdomain(name, path.child("storageClassName"))
    if name := spec.get("volumeAttributesClassName"):
        found += checks.dns_subdomain(name, path.child("volumeAttributesClassName"))
    found += checks.one_of(spec.get("volumeMode", ""), path.child("volumeMode"), VOLUME_MODES, needed=False)
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None:
        found += _check_source(source, path.child("dataSource"))
    if reference is not None:
        found += _check_source(reference, path.child("dataSourceRef"))
    if source is not None and reference is not None:
        if reference.get("namespace"):
            words = "may not be specified when dataSourceRef.namespace is specified"
            found.append(field.invalid(path, str(path.child("dataSource")), words))
        elif source != reference:
            found.append(field.invalid(path, str(path.child("dataSource")), "must match dataSourceRef"))
    return found


def _check_source(source: Mapping[str, Any], path: Path) -> list[FieldError]:
    found = [field.required(path.child(part)) for part in ("name", "kind") if not source.get(part)]
    group = source.get("apiGroup") or ""
    if not group and source.get("kind") != "PersistentVolumeClaim":
        words = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        found.append(field.invalid(path, source.get("kind", ""), words))
    if group:
        found += checks.dns_subdomain(group, path.child("apiGroup"))
    if namespace := source.get("namespace"):
        found += checks.each(namespace, path.child("namespace"), names.dns1123_label(namespace))
    return found


def _same_sources(spec: PersistentVolumeClaimSpec) -> None:
    """Either way of naming the source fills in the other, unless it lies in another namespace."""
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and reference is None:
        copied: Any = dict(source)
        spec["dataSourceRef"] = copied
    elif source is None and reference is not None and not reference.get("namespace"):
        copied = dict(reference)
        spec["dataSource"] = copied


class PersistentVolumeClaimStrategy(SubdomainStrategy["PersistentVolumeClaim"]):
    rechecks_metadata = True
    delete_returns_object = True

    def prepare_create(self, obj: PersistentVolumeClaim, ctx: Context) -> None:
        obj["status"] = {"phase": "Pending"}
        _same_sources(obj["spec"])

    def validate(self, obj: PersistentVolumeClaim, ctx: Context) -> Sequence[FieldError]:
        return check_spec(obj.get("spec", {}), SPEC)

    def prepare_update(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, ctx: Context) -> None:
        keep_fields(new, old, "status")
        _same_sources(new["spec"])

    def validate_update(
        self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, ctx: Context
    ) -> Sequence[FieldError]:
        found = list(self.validate(new, ctx))
        spec, before = new.get("spec", {}), old.get("spec", {})
        annotations = [x["metadata"].get("annotations", {}).get(CLASS_ANNOTATION, "") for x in (new, old)]
        if annotations[0] != annotations[1]:
            path = METADATA.child("annotations").key(CLASS_ANNOTATION)
            found.append(field.invalid(path, annotations[0], "field is immutable"))
        if _frozen(spec, before, bound=new.get("status", {}).get("phase") == "Bound") != before:
            words = (
                "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound "
                "claims"
            )
            found.append(field.forbidden(SPEC, words))
        if _size(spec) < _size(before):
            size = SPEC.child("resources", "requests", "storage")
            capacity = (old.get("status", {}).get("capacity") or {}).get("storage", "0")
            if _size(spec) <= Quantity.parse(capacity):
                found.append(field.forbidden(size, "field can not be less than status.capacity"))
        found += immutable(spec.get("volumeMode"), before.get("volumeMode"), Path("volumeMode"))
        return found


def _size(spec: PersistentVolumeClaimSpec) -> Quantity:
    return Quantity.parse((spec.get("resources", {}).get("requests") or {}).get("storage", "0"))


def _frozen(
    spec: PersistentVolumeClaimSpec, before: PersistentVolumeClaimSpec, *, bound: bool
) -> PersistentVolumeClaimSpec:
    """The new spec with everything undone that may change."""
    undone = spec.copy()
    allowed = ["storageClassName"] if "storageClassName" not in before else []
    if not before.get("volumeName"):
        allowed.append("volumeName")
    if bound:
        allowed += ["resources", "volumeAttributesClassName"]
    keep_fields(undone, before, *allowed)
    return undone


class PersistentVolumeClaimStatusStrategy(UpdateStrategy["PersistentVolumeClaim"]):
    def prepare_update(self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, ctx: Context) -> None:
        keep_fields(new, old, "spec")

    def validate_update(
        self, new: PersistentVolumeClaim, old: PersistentVolumeClaim, ctx: Context
    ) -> Sequence[FieldError]:
        path = STATUS.child("capacity")
        capacity = new.get("status", {}).get("capacity") or {}
        return [
            field.invalid(path.key(name), Quantity.parse(amount).value(), "must be a valid resource quantity")
            for name, amount in sorted(capacity.items())
            if Quantity.parse(amount).sign < 0
        ]


def modes(given: Sequence[str] | None) -> str:
    return ",".join(short for mode, short in ACCESS_MODES.items() if mode in (given or ()))


def _cells(obj: PersistentVolumeClaim, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    bound = bool(spec.get("volumeName"))
    annotated = (obj["metadata"].get("annotations") or {}).get(CLASS_ANNOTATION)
    return (
        printers.name(obj),
        "Terminating" if obj["metadata"].get("deletionTimestamp") else status.get("phase", ""),
        spec.get("volumeName", ""),
        (status.get("capacity") or {}).get("storage", "0") if bound else "",
        modes(status.get("accessModes")) if bound else "",
        annotated if annotated is not None else spec.get("storageClassName", ""),
        spec.get("volumeAttributesClassName", "<unset>"),
        printers.age(obj, now),
        spec.get("volumeMode", "<unset>"),
    )


KIND = Kind(
    group="",
    kind="PersistentVolumeClaim",
    plural="persistentvolumeclaims",
    short_names=("pvc",),
    versions=(Version(name="v1", type="core/v1.PersistentVolumeClaim", default=_default),),
    storage="v1",
    strategy=PersistentVolumeClaimStrategy(),
    subresources={"status": PersistentVolumeClaimStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Status", description="Pending, Bound or Lost."),
            Column("Volume", description="The volume that was bound."),
            Column("Capacity", description="How much the volume holds."),
            Column("Access Modes", description="How the volume can be mounted."),
            Column("StorageClass", description="The class that was asked for."),
            Column("VolumeAttributesClass", description="The attributes that were asked for."),
            printers.AGE,
            Column("VolumeMode", priority=1, description="Filesystem or Block."),
        ),
        _cells,
    ),
)
