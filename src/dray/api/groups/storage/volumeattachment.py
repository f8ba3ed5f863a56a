"""Volume attachments: that a volume is to be attached to a node, and whether it is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.storage.csi import check_driver_name
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    StatusStrategy,
    SubdomainStrategy,
    immutable,
    keep_fields,
)
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.storage import VolumeAttachment, VolumeError

_SOURCE: Final = SPEC.child("source")
_LONGEST_METADATA: Final = 256 * 1024
_LONGEST_MESSAGE: Final = 1024
_ONE_SOURCE: Final = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"


def _check_error(error: VolumeError | None, path: Path) -> list[FieldError]:
    error = error or {}
    found = []
    if names.size(error.get("message", "")) > _LONGEST_MESSAGE:
        found.append(field.too_long(path.child("message"), _LONGEST_METADATA))  # upstream's number
    if (code := error.get("errorCode")) is not None and code < 0:
        found.append(
            field.invalid(path.child("errorCode"), code, "must be between 0 and 2147483647, inclusive")
        )
    return found


class VolumeAttachmentStrategy(SubdomainStrategy["VolumeAttachment"]):
    unconditional_update = False
    delete_returns_object = True

    def prepare_create(self, obj: VolumeAttachment, ctx: Context) -> None:
        obj["status"] = {"attached": False}

    def prepare_update(self, new: VolumeAttachment, old: VolumeAttachment, ctx: Context) -> None:
        keep_fields(new, old, "status")

    def validate(self, obj: VolumeAttachment, ctx: Context) -> Sequence[FieldError]:
        spec, status = obj["spec"], obj.get("status", {})
        source = spec.get("source") or {}
        found = check_driver_name(spec.get("attacher", ""), SPEC.child("attacher"))
        volume = source.get("persistentVolumeName")
        if (volume is None) == (source.get("inlineVolumeSpec") is None):
            found.append((field.required if volume is None else field.forbidden)(_SOURCE, _ONE_SOURCE))
        elif volume == "":
            words = "must specify non empty persistentVolumeName"
            found.append(field.required(_SOURCE.child("persistentVolumeName"), words))
        found += checks.dns_subdomain(spec.get("nodeName", ""), SPEC.child("nodeName"))
        pairs = status.get("attachmentMetadata") or {}
        if sum(names.size(k) + names.size(v) for k, v in pairs.items()) > _LONGEST_METADATA:
            found.append(field.too_long(STATUS.child("attachmentMetadata"), _LONGEST_METADATA))
        found += _check_error(status.get("attachError"), STATUS.child("attachError"))
        found += _check_error(status.get("detachError"), STATUS.child("detachError"))
        if volume is not None:
            found += checks.dns_subdomain(volume, _SOURCE.child("persistentVolumeName"))
        return found

    def validate_update(
        self, new: VolumeAttachment, old: VolumeAttachment, ctx: Context
    ) -> Sequence[FieldError]:
        same = immutable(new["spec"], old["spec"], SPEC, type_name="storage/v1.VolumeAttachmentSpec")
        return [*self.validate(new, ctx), *same]


_STRATEGY: Final = VolumeAttachmentStrategy()


class VolumeAttachmentStatusStrategy(StatusStrategy["VolumeAttachment"]):
    def validate_update(
        self, new: VolumeAttachment, old: VolumeAttachment, ctx: Context
    ) -> Sequence[FieldError]:
        return _STRATEGY.validate(new, ctx)


def _cells(obj: VolumeAttachment, now: float) -> Sequence[object]:
    spec = obj["spec"]
    return (
        printers.name(obj),
        spec.get("attacher", ""),
        (spec.get("source") or {}).get("persistentVolumeName", ""),
        spec.get("nodeName", ""),
        obj.get("status", {}).get("attached", False),
        printers.age(obj, now),
    )


KIND = Kind(
    group="storage.k8s.io",
    kind="VolumeAttachment",
    plural="volumeattachments",
    namespaced=False,
    versions=(Version(name="v1", type="storage/v1.VolumeAttachment"),),
    storage="v1",
    strategy=_STRATEGY,
    subresources={"status": VolumeAttachmentStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Attacher", format="name", description="The driver that attaches the volume."),
            Column("PV", description="The volume."),
            Column("Node", description="The node that it is attached to."),
            Column("Attached", type="boolean", description="Whether it is attached."),
            printers.AGE,
        ),
        _cells,
    ),
)
