"""Taints of devices, tolerations of requests, and the rules that set taints."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.validation import field
from dray.api.validation.field import Path

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceTaint, DeviceTaintRuleSpec

_EFFECTS: Final = ("NoExecute", "NoSchedule", "None")


def taint(value: DeviceTaint, old: DeviceTaint | None, path: Path, errs: Errors) -> None:
    """One taint; an effect that is stored already may stay even if it is not known any more."""
    checks.label_key(value.get("key", ""), path.child("key"), errs)
    checks.label_value(value.get("value", ""), path.child("value"), errs)
    effect = value.get("effect", "")
    if old is None or old.get("effect", "") != effect:
        if not effect:
            errs.append(field.required(path.child("effect")))
        elif effect not in _EFFECTS:
            errs.append(field.not_supported(path.child("effect"), effect, _EFFECTS))


def toleration(value: Mapping[str, Any], path: Path, errs: Errors) -> None:
    if key := value.get("key", ""):
        checks.label_key(key, path.child("key"), errs)
    operator, text = value.get("operator", ""), value.get("value", "")
    if operator == "Exists":
        if text:
            errs.append(field.invalid(path.child("value"), text, "must be empty for operator `Exists`"))
    elif operator == "Equal":
        checks.label_value(text, path.child("value"), errs)
    elif operator:
        errs.append(field.not_supported(path.child("operator"), operator, ("Equal", "Exists")))
    else:
        errs.append(field.required(path.child("operator")))
    effect = value.get("effect", "")
    if effect and effect not in _EFFECTS:
        errs.append(field.not_supported(path.child("effect"), effect, _EFFECTS))


def taint_rule_spec(
    spec: DeviceTaintRuleSpec, old: DeviceTaintRuleSpec | None, path: Path, errs: Errors
) -> None:
    if selector := spec.get("deviceSelector"):
        here = path.child("deviceSelector")
        if (driver := selector.get("driver")) is not None:
            checks.driver_name(driver, here.child("driver"), errs)
        if (pool := selector.get("pool")) is not None:
            checks.pool_name(pool, here.child("pool"), errs)
        if (device := selector.get("device")) is not None:
            checks.label(device, here, "device", errs)
    old_taint = old.get("taint", {}) if old is not None else None
    taint(spec.get("taint") or {}, old_taint, path.child("taint"), errs)
