"""Limit ranges: bounds and defaults for what pods, containers and volume claims of a namespace ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.resources import check_container_resource
from dray.api.quantity import Quantity
from dray.api.scheme import printers
from dray.api.scheme.kinds import Kind, Version
from dray.api.scheme.strategy import SPEC, Context, SubdomainStrategy
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import LimitRange, LimitRangeItem

_TYPES: Final = ("Pod", "Container", "PersistentVolumeClaim")
_PARTS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


def _default(obj: LimitRange) -> None:
    for limit in obj.get("spec", {}).get("limits") or ():
        for part in _PARTS:
            if limit.get(part):
                limit[part] = resourcenames.rounded(limit[part])
        if limit.get("type") == "Container":
            default = {**(limit.get("max") or {}), **(limit.get("default") or {})}
            asked = limit.get("defaultRequest") or {}
            request = {**(limit.get("min") or {}), **default, **asked}
            if default:
                limit["default"] = default
            if request:
                limit["defaultRequest"] = request


def _check_type(limit_type: str, path: Path) -> list[FieldError]:
    if found := checks.qualified_name(limit_type, path):
        return found
    if "/" not in limit_type and limit_type not in _TYPES:
        return [field.invalid(path, limit_type, "must be a standard limit type or fully qualified")]
    return []


def _check_limit(limit: LimitRangeItem, path: Path) -> list[FieldError]:
    of_pods = limit.get("type") == "Pod"
    in_containers = of_pods or limit.get("type") == "Container"
    check: Callable[[str, Path], list[FieldError]]
    check = check_container_resource if in_containers else resourcenames.check_name
    found: list[FieldError] = []
    amounts: dict[str, Mapping[str, Quantity]] = {}
    for part in _PARTS:
        given = limit.get(part) or {}
        if of_pods and part.startswith("default"):
            if given:
                found.append(field.forbidden(path.child(part), "may not be specified when `type` is 'Pod'"))
            given = {}
        if part == "maxLimitRequestRatio" and limit.get("type") == "PersistentVolumeClaim":
            found += _check_storage_bound(amounts, path)
        for name in sorted(given):
            found += check(name, path.child(part).key(name))
        amounts[part] = {name: Quantity.parse(text) for name, text in given.items()}
    for name in sorted({name for given in amounts.values() for name in given}):
        found += _check_order(name, {part: given.get(name) for part, given in amounts.items()}, path)
    return found


def _check_storage_bound(amounts: Mapping[str, Mapping[str, Quantity]], path: Path) -> list[FieldError]:
    if "storage" in amounts["min"] or "storage" in amounts["max"]:
        return []
    words = "either minimum or maximum storage value is required, but neither was provided"
    return [field.required(path.child("limits"), words)]


def _check_order(name: str, amount: Mapping[str, Quantity | None], path: Path) -> list[FieldError]:
    """min ≤ default request ≤ default ≤ max, and a ratio that can be met."""
    low, high, default, request, ratio = (
        amount[part] for part in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")
    )
    found: list[FieldError] = []

    def wrong(part: str, shown: Quantity, words: str) -> None:
        found.append(field.invalid(path.child(part).key(name), str(shown), words))

    if low is not None and high is not None and low > high:
        wrong("min", low, f"min value {low} is greater than max value {high}")
    if request is not None and low is not None and low > request:
        wrong("defaultRequest", request, f"min value {low} is greater than default request value {request}")
    if request is not None and high is not None and request > high:
        wrong("defaultRequest", request, f"default request value {request} is greater than max value {high}")
    if request is not None and default is not None and request > default:
        words = f"default request value {request} is greater than default limit value {default}"
        wrong("defaultRequest", request, words)
    if default is not None and low is not None and low > default:
        wrong("default", low, f"min value {low} is greater than default value {default}")
    if default is not None and high is not None and default > high:
        wrong("default", high, f"default value {default} is greater than max value {high}")
    if ratio is not None and ratio < Quantity(1):
        wrong("maxLimitRequestRatio", ratio, f"ratio {ratio} is less than 1")
    if ratio is not None and low and high is not None:
        reachable = high.milli_value() / low.milli_value()
        if ratio.milli_value() / 1000 > reachable:
            words = f"ratio {ratio} is greater than max/min = {reachable:f}"
            wrong("maxLimitRequestRatio", ratio, words)
    if (
        not resourcenames.may_overcommit(name)
        and default is not None
        and request is not None
        and default != request
    ):
        words = f"default value {default} must equal to defaultRequest value {request} in {name}"
        wrong("defaultRequest", request, words)
    return found


class LimitRangeStrategy(SubdomainStrategy["LimitRange"]):
    create_on_update = True

    def validate(self, obj: LimitRange, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        seen: set[str] = set()
        for i, limit in enumerate(obj.get("spec", {}).get("limits") or ()):
            path, limit_type = SPEC.child("limits").index(i), limit.get("type", "")
            found += _check_type(limit_type, path.child("type"))
            if limit_type in seen:
                found.append(field.duplicate(path.child("type"), limit_type))
            seen.add(limit_type)
            found += _check_limit(limit, path)
        return found

    def validate_update(self, new: LimitRange, old: LimitRange, ctx: Context) -> Sequence[FieldError]:
        return self.validate(new, ctx)


KIND = Kind(
    group="",
    kind="LimitRange",
    plural="limitranges",
    short_names=("limits",),
    versions=(Version(name="v1", type="core/v1.LimitRange", default=_default),),
    storage="v1",
    strategy=LimitRangeStrategy(),
    printer=printers.DEFAULT_PRINTER,
)
