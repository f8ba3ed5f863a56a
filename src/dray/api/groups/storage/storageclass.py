"""Storage classes: what makes volumes, and how."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy, immutable
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.storage import StorageClass

_RECLAIM: Final = ("Delete", "Retain")
_BINDING: Final = ("Immediate", "WaitForFirstConsumer")
_MOST_PARAMETERS: Final = 512
_LONGEST_PARAMETERS: Final = 256 * 1024
_DEFAULT_CLASS: Final = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)


def _default(obj: StorageClass) -> None:
    obj.setdefault("reclaimPolicy", "Delete")
    obj.setdefault("volumeBindingMode", "Immediate")


def check_provisioner(name: str, path: Path) -> list[FieldError]:
    if not name:
        return [field.required(path)]
    return checks.each(name.lower(), path, names.qualified_name(name.lower()))


def check_parameters(parameters: Mapping[str, str], path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    if len(parameters) > _MOST_PARAMETERS:
        found.append(field.too_long(path, _MOST_PARAMETERS))
    elif "" in parameters:
        found.append(field.invalid(path, "", "field can not be empty."))
    if sum(names.size(k) + names.size(v) for k, v in parameters.items()) > _LONGEST_PARAMETERS:
        found.append(field.too_long(path, _LONGEST_PARAMETERS))
    return found


class StorageClassStrategy(SubdomainStrategy["StorageClass"]):
    delete_returns_object = True

    def validate(self, obj: StorageClass, ctx: Context) -> Sequence[FieldError]:
        found = check_provisioner(obj.get("provisioner", ""), Path("provisioner"))
        found += check_parameters(obj.get("parameters") or {}, Path("parameters"))
        found += checks.one_of(obj.get("reclaimPolicy", ""), Path("reclaimPolicy"), _RECLAIM, needed=False)
        return found + checks.one_of(obj.get("volumeBindingMode", ""), Path("volumeBindingMode"), _BINDING)

    def validate_update(self, new: StorageClass, old: StorageClass, ctx: Context) -> Sequence[FieldError]:
        parts = ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode")
        return [p for part in parts for p in immutable(new.get(part), old.get(part), Path(part))]


def _cells(obj: StorageClass, now: float) -> Sequence[object]:
    annotations = obj["metadata"].get("annotations") or {}
    is_default = any(annotations.get(key) == "true" for key in _DEFAULT_CLASS)
    return (
        printers.name(obj) + (" (default)" if is_default else ""),
        obj.get("provisioner", ""),
        obj.get("reclaimPolicy", "Delete"),
        obj.get("volumeBindingMode", "Immediate"),
        bool(obj.get("allowVolumeExpansion")),
        printers.age(obj, now),
    )


STORAGE_CLASS = Kind(
    group="storage.k8s.io",
    kind="StorageClass",
    plural="storageclasses",
    namespaced=False,
    short_names=("sc",),
    versions=(Version(name="v1", type="storage/v1.StorageClass", default=_default),),
    storage="v1",
    strategy=StorageClassStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Provisioner", description="What makes its volumes."),
            Column("ReclaimPolicy", description="What becomes of a volume when its claim is gone."),
            Column("VolumeBindingMode", description="When volumes are made."),
            Column("AllowVolumeExpansion", description="Whether volumes can grow."),
            printers.AGE,
        ),
        _cells,
    ),
)
