"""Resource quotas: how much a namespace may use."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dray.api.groups.core import resourcenames
from dray.api.quantity import Quantity
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, SubdomainStrategy, UpdateStrategy, keep_fields
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import ResourceQuota, ResourceQuotaSpec, ScopedResourceSelectorRequirement

_POD_RESOURCES: Final = frozenset(
    {"pods", "cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
)
_VOLUME_RESOURCES: Final = frozenset({"persistentvolumeclaims", "requests.storage"})
#: What each scope can be applied to.
_SCOPES: Final[Mapping[str, frozenset[str]]] = {
    "Terminating": _POD_RESOURCES,
    "NotTerminating": _POD_RESOURCES,
    "NotBestEffort": _POD_RESOURCES,
    "PriorityClass": _POD_RESOURCES,
    "CrossNamespacePodAffinity": _POD_RESOURCES,
    "BestEffort": frozenset({"pods"}),
    "VolumeAttributesClass": _VOLUME_RESOURCES,
}
_EXCLUSIVE: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_EXISTS_ONLY: Final = frozenset(
    {"BestEffort", "NotBestEffort", "Terminating", "NotTerminating", "CrossNamespacePodAffinity"}
)


def _default(obj: ResourceQuota) -> None:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    if spec.get("hard"):
        spec["hard"] = resourcenames.rounded(spec["hard"])
    if status.get("hard"):
        status["hard"] = resourcenames.rounded(status["hard"])
    if status.get("used"):
        status["used"] = resourcenames.rounded(status["used"])


def _check_amounts(amounts: Mapping[str, str] | None, path: Path) -> list[FieldError]:
    found: list[FieldError] = []
    for name, amount in sorted((amounts or {}).items()):
        at = path.key(name)
        found += resourcenames.check_name(name, at)
        if "/" not in name and not resourcenames.is_standard_quota(name):
            found.append(field.invalid(at, name, "must be a standard resource for quota"))
        found += resourcenames.check_value(name, amount, at)
    return found


def _applies(scope: str, hard: Mapping[str, str]) -> bool:
    allowed = _SCOPES.get(scope)
    return allowed is None or all(r in allowed or not resourcenames.is_standard_quota(r) for r in hard)


def _check_scopes(spec: ResourceQuotaSpec) -> list[FieldError]:
    scopes, path = spec.get("scopes") or [], SPEC.child("scopes")
    hard = spec.get("hard") or {}
    found: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            found.append(field.invalid(path, scopes, "unsupported scope"))
        if not _applies(scope, hard):
            found.append(field.invalid(path, scopes, "unsupported scope applied to resource"))
    if any(pair <= set(scopes) for pair in _EXCLUSIVE):
        found.append(field.invalid(path, scopes, "conflicting scopes"))
    return found


def _check_selector(spec: ResourceQuotaSpec) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if selector is None:
        return []
    path = SPEC.child("scopeSelector", "matchExpressions")
    terms = selector.get("matchExpressions") or ()
    found = [problem for term in terms for problem in _check_term(term, spec, path)]
    if any(pair <= {term.get("scopeName") for term in terms} for pair in _EXCLUSIVE):
        found.append(field.invalid(path, spec.get("scopes"), "conflicting scopes"))
    return found


def _check_term(
    term: ScopedResourceSelectorRequirement, spec: ResourceQuotaSpec, path: Path
) -> list[FieldError]:
    scope, operator, values = term.get("scopeName", ""), term.get("operator", ""), term.get("values") or []
    found: list[FieldError] = []
    if scope not in _SCOPES:
        found.append(field.invalid(path.child("scopeName"), scope, "unsupported scope"))
    if not _applies(scope, spec.get("hard") or {}):
        found.append(field.invalid(path, spec["scopeSelector"], "unsupported scope applied to resource"))
    if scope in _EXISTS_ONLY and operator != "Exists":
        words = (
            "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
            "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or "
            "ResourceQuotaScopeCrossNamespacePodAffinity"
        )
        found.append(field.invalid(path.child("operator"), operator, words))
    if operator in ("In", "NotIn"):
        if not values:
            words = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
            found.append(field.required(path.child("values"), words))
    elif operator in ("Exists", "DoesNotExist"):
        if values:
            words = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
            found.append(field.invalid(path.child("values"), values, words))
    else:
        found.append(field.invalid(path.child("operator"), operator, "not a valid selector operator"))
    return found


class ResourceQuotaStrategy(SubdomainStrategy["ResourceQuota"]):
    delete_returns_object = True

    def prepare_create(self, obj: ResourceQuota, ctx: Context) -> None:
        obj["status"] = {}

    def validate(self, obj: ResourceQuota, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        found = _check_amounts(spec.get("hard"), SPEC.child("hard"))
        return found + _check_scopes(spec) + _check_selector(spec)

    def prepare_update(self, new: ResourceQuota, old: ResourceQuota, ctx: Context) -> None:
        keep_fields(new, old, "status")

    def validate_update(self, new: ResourceQuota, old: ResourceQuota, ctx: Context) -> Sequence[FieldError]:
        found = list(self.validate(new, ctx))
        scopes, before = (x.get("spec", {}).get("scopes") or [] for x in (new, old))
        if set(scopes) != set(before):
            found.append(field.invalid(SPEC.child("scopes"), scopes, "field is immutable"))
        return found

    def warn(self, obj: ResourceQuota, ctx: Context) -> Sequence[str]:
        """Requests above the limits cannot all be used."""
        hard = obj.get("spec", {}).get("hard") or {}
        warnings = []
        for name in ("cpu", "memory", "storage", "ephemeral-storage"):
            bare = name in ("cpu", "memory") and f"requests.{name}" not in hard
            request, limit = name if bare else f"requests.{name}", f"limits.{name}"
            if (
                request in hard
                and limit in hard
                and Quantity.parse(hard[request]) > Quantity.parse(hard[limit])
            ):
                words = (
                    f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})"
                )
                warnings.append(words)
        return warnings


class ResourceQuotaStatusStrategy(UpdateStrategy["ResourceQuota"]):
    def prepare_update(self, new: ResourceQuota, old: ResourceQuota, ctx: Context) -> None:
        keep_fields(new, old, "spec")

    def validate_update(self, new: ResourceQuota, old: ResourceQuota, ctx: Context) -> Sequence[FieldError]:
        status = new.get("status", {})
        hard = _check_amounts(status.get("hard"), STATUS.child("hard"))
        return hard + _check_amounts(status.get("used"), STATUS.child("used"))


def _cells(obj: ResourceQuota, now: float) -> Sequence[object]:
    status = obj.get("status", {})
    hard, used = status.get("hard") or {}, status.get("used") or {}
    requests: list[str] = []
    limits: list[str] = []
    for name in sorted(hard):
        text = f"{name}: {used.get(name, '0')}/{hard[name]}"
        (limits if name.startswith("limits.") else requests).append(text)
    return printers.name(obj), ", ".join(requests), ", ".join(limits), printers.age(obj, now)


KIND = Kind(
    group="",
    kind="ResourceQuota",
    plural="resourcequotas",
    short_names=("quota",),
    versions=(Version(name="v1", type="core/v1.ResourceQuota", default=_default),),
    storage="v1",
    strategy=ResourceQuotaStrategy(),
    subresources={"status": ResourceQuotaStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Request", description="Used and allowed requests."),
            Column("Limit", description="Used and allowed limits."),
            printers.AGE,
        ),
        _cells,
    ),
)
