"""What there is to claim: DeviceClasses, ResourceSlices, DeviceTaintRules and questions about pools."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource.strategy.common import finalizers, metadata_update
from dray.api.groups.resource.strategy.disabledfields import drop_class_fields, drop_slice_fields
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.deviceclass import class_spec
from dray.api.groups.resource.validation.poolstatus import pool_status, pool_status_spec
from dray.api.groups.resource.validation.resourceslice import slice_spec
from dray.api.groups.resource.validation.taints import taint_rule_spec
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    StatusStrategy,
    SubdomainStrategy,
    UpdateStrategy,
    keep_fields,
    update_generation,
)
from dray.api.validation import field, objectmeta
from dray.api.validation.cache import Interner
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.resource import (
        DeviceClass,
        DeviceTaintRule,
        ResourceSlice,
    )
    from dray.api.types.resource_v1alpha3 import ResourcePoolStatusRequest


def _count_change(
    new: DeviceClass | DeviceTaintRule | ResourceSlice, old: DeviceClass | DeviceTaintRule | ResourceSlice
) -> None:
    update_generation(new, old, changed=not checks.equal(new.get("spec"), old.get("spec")))


class DeviceClassStrategy(SubdomainStrategy["DeviceClass"]):
    has_declared_rules = True
    delete_returns_object = True

    def prepare_create(self, obj: DeviceClass, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1
        drop_class_fields(obj, None, ctx.gates)

    def validate(self, obj: DeviceClass, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(obj), declared=ctx.quirks.declares_rules)
        class_spec((obj.get("spec") or {}), None, SPEC, ctx, errs)
        return errs.all()

    def prepare_update(self, new: DeviceClass, old: DeviceClass, ctx: Context) -> None:
        drop_class_fields(new, old, ctx.gates)
        _count_change(new, old)

    def validate_update(self, new: DeviceClass, old: DeviceClass, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(new) + metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        class_spec((new.get("spec") or {}), (old.get("spec") or {}), SPEC, ctx, errs)
        return errs.all()


_devices: Final = Interner()
_values: Final = Interner()


class ResourceSliceStrategy(SubdomainStrategy["ResourceSlice"]):
    has_declared_rules = True
    delete_returns_object = True

    def prepare_create(self, obj: ResourceSlice, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1
        drop_slice_fields(obj, None, ctx.gates)
        _forget_empty_lists(obj, ctx)
        _date_taints(obj, ctx)

    def canonicalize(self, obj: ResourceSlice) -> None:
        """Hold once what many slices say: the whole device where nodes are alike, else the values it has in common."""
        devices: Any = (obj.get("spec") or {}).get("devices") or []
        for i, device in enumerate(devices):
            known = _devices.one(device)
            if known is not device:
                devices[i] = known
                continue
            for part in ("attributes", "capacity"):
                if values := device.get(part):
                    device[part] = {name: _values.one(value) for name, value in values.items()}

    def validate(self, obj: ResourceSlice, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(obj), declared=ctx.quirks.declares_rules)
        slice_spec((obj.get("spec") or {}), None, SPEC, ctx.gates, errs)
        return _in_callers_version(errs.all(), ctx)

    def warn(self, obj: ResourceSlice, ctx: Context) -> Sequence[str]:
        driver = (obj.get("spec") or {}).get("driver", "")
        if driver == driver.lower():
            return ()
        shown = field.quote(driver)
        return (f"spec.driver: driver names should be lowercase; {shown} contains uppercase characters",)

    def prepare_update(self, new: ResourceSlice, old: ResourceSlice, ctx: Context) -> None:
        _forget_empty_lists(new, ctx)
        _date_taints(new, ctx)
        # Counted before gated fields are dropped, as upstream does.
        _count_change(new, old)
        drop_slice_fields(new, old, ctx.gates)

    def validate_update(self, new: ResourceSlice, old: ResourceSlice, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        slice_spec((new.get("spec") or {}), (old.get("spec") or {}), SPEC, ctx.gates, errs)
        return _in_callers_version(errs.all(), ctx)

    def warn_update(self, new: ResourceSlice, old: ResourceSlice, ctx: Context) -> Sequence[str]:
        return self.warn(new, ctx)


#: The fields of a device with declared rules. Other rules are the same for all versions.
_is_declared = re.compile(
    r"(spec\.devices\[\d+\]\.)"
    r"(attributes\[[^]]*\]|taints\[\d+\]\.effect|binding(?:Failure)?Conditions"
    r"|consumesCounters(?:\[\d+\](?:\.counterSet|\.counters|\.compatibilityGroups(?:\[\d+\])?)?)?)"
).fullmatch


def _in_callers_version(found: list[FieldError], ctx: Context) -> list[FieldError]:
    """Declared rules are those of the version's own types, and in v1beta1 these have devices below ``basic``."""
    if ctx.version != "v1beta1" or not ctx.quirks.declares_rules:
        return found
    return [
        replace(problem, field=f"{match[1]}basic.{match[2]}")
        if (match := _is_declared(problem.field)) and not _counts_counters(problem)
        else problem
        for problem in found
    ]


def _counts_counters(problem: FieldError) -> bool:
    return problem.type is field.ErrorType.TOO_MANY and problem.field.endswith(".counters")


def _forget_empty_lists(obj: ResourceSlice, ctx: Context) -> None:
    """An empty list is as good as none, except that devices and counters exclude one another even when empty."""
    spec = obj.get("spec") or {}
    if spec.get("devices") == [] and spec.get("sharedCounters") is None:
        del spec["devices"]
    elif spec.get("sharedCounters") == [] and spec.get("devices") is None:
        del spec["sharedCounters"]
    if ctx.quirks.writes_missing_devices_as_null:
        document: Any = spec
        document.setdefault("devices", None)


def _date_taints(obj: ResourceSlice, ctx: Context) -> None:
    """A taint without a time gets the current one. Upstream does this while decoding; a pure codec has no clock."""
    for device in (obj.get("spec") or {}).get("devices") or ():
        for taint in device.get("taints") or ():
            if taint.get("timeAdded") is None:
                taint["timeAdded"] = ctx.now


class DeviceTaintRuleStrategy(SubdomainStrategy["DeviceTaintRule"]):
    has_declared_rules = True
    delete_returns_object = True

    def prepare_create(self, obj: DeviceTaintRule, ctx: Context) -> None:
        obj["status"] = {}
        obj["metadata"]["generation"] = 1
        _date_rule(obj, ctx)

    def validate(self, obj: DeviceTaintRule, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(obj))
        taint_rule_spec((obj.get("spec") or {}), None, SPEC, errs)
        return errs

    def prepare_update(self, new: DeviceTaintRule, old: DeviceTaintRule, ctx: Context) -> None:
        keep_fields(new, old, "status")
        _date_rule(new, ctx)
        taint, was = (new.get("spec") or {}).get("taint") or {}, (old.get("spec") or {}).get("taint") or {}
        # The time tells since when this *effect* holds, which is what tolerationSeconds count from.
        if taint.get("effect") != was.get("effect") and taint.get("timeAdded") == was.get("timeAdded"):
            taint["timeAdded"] = ctx.now
        _count_change(new, old)

    def validate_update(
        self, new: DeviceTaintRule, old: DeviceTaintRule, ctx: Context
    ) -> Sequence[FieldError]:
        errs = Errors(metadata_update(new, old, ctx))
        taint_rule_spec((new.get("spec") or {}), (old.get("spec") or {}), SPEC, errs)
        return errs


def _date_rule(obj: DeviceTaintRule, ctx: Context) -> None:
    taint = (obj.get("spec") or {}).get("taint")
    if taint is not None and taint.get("timeAdded") is None:
        taint["timeAdded"] = ctx.now


class DeviceTaintRuleStatusStrategy(StatusStrategy["DeviceTaintRule"]):
    has_declared_rules = True

    def prepare_update(self, new: DeviceTaintRule, old: DeviceTaintRule, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        new.setdefault("status", {})

    def validate_update(
        self, new: DeviceTaintRule, old: DeviceTaintRule, ctx: Context
    ) -> Sequence[FieldError]:
        errs = Errors(metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        conditions = new["status"].get("conditions") or ()
        errs += objectmeta.validate_conditions(conditions, STATUS.child("conditions"), declared=errs.declared)
        checks.within(conditions, 8, STATUS, "conditions", errs)
        return errs.all()


class ResourcePoolStatusRequestStrategy(SubdomainStrategy["ResourcePoolStatusRequest"]):
    """A request is asked once: its spec never changes, and the answer comes through the status subresource."""

    has_declared_rules = True
    delete_returns_object = True
    unconditional_update = False

    def prepare_create(self, obj: ResourcePoolStatusRequest, ctx: Context) -> None:
        obj.pop("status", None)

    def validate(self, obj: ResourcePoolStatusRequest, ctx: Context) -> Sequence[FieldError]:
        errs = Errors(finalizers(obj), declared=ctx.quirks.declares_rules)
        pool_status_spec((obj.get("spec") or {}), SPEC, errs)
        return errs.all()

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, ctx: Context
    ) -> None:
        keep_fields(new, old, "status")

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, ctx: Context
    ) -> Sequence[FieldError]:
        errs = Errors(metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        checks.fixed(new.get("spec"), old.get("spec"), SPEC, errs)
        return errs.all()


class ResourcePoolStatusRequestStatusStrategy(UpdateStrategy["ResourcePoolStatusRequest"]):
    has_declared_rules = True

    def prepare_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, ctx: Context
    ) -> None:
        keep_fields(new, old, "spec")

    def validate_update(
        self, new: ResourcePoolStatusRequest, old: ResourcePoolStatusRequest, ctx: Context
    ) -> Sequence[FieldError]:
        errs = Errors(metadata_update(new, old, ctx), declared=ctx.quirks.declares_rules)
        status, before = new.get("status"), old.get("status")
        if before is not None:
            type_ = "resource/v1alpha3.ResourcePoolStatusRequestStatus" if errs.declared else ""
            checks.immutable(status, before, STATUS, errs, type_=type_, release=ctx.quirks.release)
        elif status is not None:
            pool_status(status, STATUS, errs)
        return errs.all()
