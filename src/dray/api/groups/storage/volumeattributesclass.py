"""Volume attributes classes: what may be changed about volumes while they are in use."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.groups.storage.storageclass import check_parameters, check_provisioner
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import Context, SubdomainStrategy
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.storage import VolumeAttributesClass


class VolumeAttributesClassStrategy(SubdomainStrategy["VolumeAttributesClass"]):
    delete_returns_object = True

    def validate(self, obj: VolumeAttributesClass, ctx: Context) -> Sequence[FieldError]:
        parameters, path = obj.get("parameters") or {}, Path("parameters")
        found = check_provisioner(obj.get("driverName", ""), Path("driverName"))
        found += check_parameters(parameters, path)
        if not parameters:
            found.append(field.required(path, "must contain at least one key/value pair"))
        return found

    def validate_update(
        self, new: VolumeAttributesClass, old: VolumeAttributesClass, ctx: Context
    ) -> Sequence[FieldError]:
        found: list[FieldError] = []
        if new.get("driverName") != old.get("driverName"):
            found.append(field.forbidden(Path("driverName"), "updates to driverName are forbidden."))
        if (new.get("parameters") or {}) != (old.get("parameters") or {}):
            found.append(field.forbidden(Path("parameters"), "updates to parameters are forbidden."))
        return [*found, *self.validate(new, ctx)]


KIND = Kind(
    group="storage.k8s.io",
    kind="VolumeAttributesClass",
    plural="volumeattributesclasses",
    short_names=("vac",),
    namespaced=False,
    versions=(Version(name="v1", type="storage/v1.VolumeAttributesClass"),),
    storage="v1",
    strategy=VolumeAttributesClassStrategy(),
    printer=printers.printer(
        (printers.NAME, Column("DriverName", description="The driver of the volumes."), printers.AGE),
        lambda obj, now: (printers.name(obj), obj.get("driverName", ""), printers.age(obj, now)),
    ),
)
