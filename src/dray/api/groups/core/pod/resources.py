"""What containers and pods ask for: requests, limits, and references to resource claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core import resourcenames
from dray.api.groups.core.pod.options import Part
from dray.api.quantity import Quantity
from dray.api.validation import checks, field
from dray.api.validation.field import ErrorType, FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.core import Container, PodSpec, ResourceRequirements

#: Resources that can be given to a pod as a whole, beside huge pages.
_POD_LEVEL: Final = ("cpu", "memory")
_NameCheck = Callable[[str, Path], list[FieldError]]


def check_container_resource(name: str, path: Path) -> list[FieldError]:
    found = resourcenames.check_name(name, path)
    if "/" not in name:
        if not resourcenames.is_container_resource(name):
            found.append(field.invalid(path, name, "must be a standard resource for containers"))
    elif not resourcenames.is_native(name) and not resourcenames.is_extended(name):
        found.append(field.invalid(path, name, "doesn't follow extended resource name standard"))
    return found


def is_pod_level(name: str) -> bool:
    return name in _POD_LEVEL or resourcenames.is_huge_pages(name)


def _check_pod_resource(name: str, path: Path) -> list[FieldError]:
    if found := resourcenames.check_name(name, path):
        return found
    return [] if is_pod_level(name) else [field.not_supported(path, name, _POD_LEVEL)]


def check_requirements(
    asked: ResourceRequirements,
    path: Path,
    *,
    claims: Iterable[str],
    check_name: _NameCheck = check_container_resource,
) -> list[FieldError]:
    limits: Mapping[str, str] = asked.get("limits") or {}
    requests: Mapping[str, str] = asked.get("requests") or {}
    found: list[FieldError] = []
    for name in sorted(limits):
        found += _check_amount(name, limits[name], path.child("limits").key(name), check_name)
    for name in sorted(requests):
        found += _check_amount(name, requests[name], path.child("requests").key(name), check_name)
        found += _check_within(name, requests[name], limits.get(name), path)
    named = {*limits, *requests}
    if any(map(resourcenames.is_huge_pages, named)) and not named & {"cpu", "memory"}:
        found.append(field.forbidden(path, "HugePages require cpu or memory"))
    return found + check_claim_names(asked.get("claims") or (), claims, path.child("claims"))


def _check_amount(name: str, amount: str, path: Path, check_name: _NameCheck) -> list[FieldError]:
    found = check_name(name, path) + resourcenames.check_value(name, amount, path)
    if resourcenames.is_huge_pages(name) and (problem := _huge_pages_problem(name, amount)):
        found.append(field.invalid(path, amount, problem))
    return found


def _huge_pages_problem(name: str, amount: str) -> str:
    try:
        size = Quantity.parse(name.removeprefix(resourcenames.HUGE_PAGES))
    except ValueError as error:
        return str(error)
    if size.sign <= 0 or Quantity.parse(amount).value() % size.value():
        return f"{amount} is not positive integer multiple of {name}"
    return ""


def _check_within(name: str, request: str, limit: str | None, path: Path) -> list[FieldError]:
    if limit is None:
        if resourcenames.may_overcommit(name):
            return []
        return [field.required(path.child("limits"), "Limit must be set for non overcommitable resources")]
    asked, most = Quantity.parse(request), Quantity.parse(limit)
    if asked != most and not resourcenames.may_overcommit(name):
        words = f"must be equal to {name} limit of {limit}"
    elif asked > most:
        words = f"must be less than or equal to {name} limit of {limit}"
    else:
        return []
    return [field.invalid(path.child("requests"), request, words)]


def check_claim_names(entries: Sequence[Part], known: Iterable[str], path: Path) -> list[FieldError]:
    """References to entries of the pod's resourceClaims: known ones, and none of them twice."""
    found: list[FieldError] = []
    known = set(known)
    seen: set[str] = set()
    for i, entry in enumerate(entries):
        name, request, at = entry.get("name", ""), entry.get("request", ""), path.index(i)
        if not name:
            found.append(field.required(at))
            continue
        if name in seen:
            found.append(field.duplicate(at, name))
        else:
            key = f"{name}/{request}" if request else name
            if request:
                found += checks.dns_label(request, at.child("request"))
            if key in seen:
                found.append(field.duplicate(at, key))
            elif not request:
                found += [field.duplicate(at, name) for other in seen if other.startswith(f"{name}/")]
            seen.add(key)
        if name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            words = f"must be one of the names in pod.spec.resourceClaims{listed}"
            found.append(FieldError(ErrorType.NOT_FOUND, str(at), name, words))
    return found


def check_pod_level(spec: PodSpec, path: Path, *, claims: Iterable[str]) -> list[FieldError]:
    """Requests and limits that a pod has as a whole."""
    asked = spec.get("resources")
    if asked is None:
        return []
    at = path.child("resources")
    if (spec.get("os") or {}).get("name") == "windows":
        return [field.forbidden(at, "may not be set for a windows pod")]
    found: list[FieldError] = []
    if asked.get("claims"):
        found.append(field.forbidden(at.child("claims"), "claims may not be set for Resources at pod-level"))
    found += check_requirements(asked, at, claims=claims, check_name=_check_pod_resource)
    return found + _check_consistent(spec, at)


def _check_consistent(spec: PodSpec, path: Path) -> list[FieldError]:
    """The pod's share is at least what its containers ask for, and no container may have more than the pod."""
    asked = spec["resources"]
    requests, limits = asked.get("requests") or {}, asked.get("limits") or {}
    found: list[FieldError] = []
    for name, total in sorted(container_requests(spec).items()):
        if name in requests and total > Quantity.parse(requests[name]):
            words = f"must be greater than or equal to aggregate container requests of {total}"
            found.append(field.invalid(path.child("requests").key(name), requests[name], words))
    for name, total in sorted(container_requests(spec, "limits").items()):
        if resourcenames.is_huge_pages(name) and name in limits and total > Quantity.parse(limits[name]):
            words = f"must be greater than or equal to aggregate container limits of {total}"
            found.append(field.invalid(path.child("limits").key(name), limits[name], words))
    for i, container in enumerate(spec.get("containers") or ()):
        for name, limit in sorted((container.get("resources", {}).get("limits") or {}).items()):
            if name in limits and Quantity.parse(limit) > Quantity.parse(limits[name]):
                where = path.child("containers").index(i).key(name).child("limits")
                words = f"must be less than or equal to pod limits of {limits[name]}"
                found.append(field.invalid(where, limit, words))
    return found


def is_sidecar(container: Container) -> bool:
    """An init container that keeps running beside the others."""
    return container.get("restartPolicy") == "Always"


def container_requests(spec: PodSpec, part: str = "requests") -> dict[str, Quantity]:
    """What a pod's containers need together at their most, with init containers running one after another."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        _add(total, _amounts(container, part))
    sidecars: dict[str, Quantity] = {}
    peak: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        need = _amounts(container, part)
        if is_sidecar(container):
            _add(total, need)
            _add(sidecars, need)
            need = dict(sidecars)
        else:
            _add(need, sidecars)
        for name, amount in need.items():
            peak[name] = max(peak.get(name, amount), amount)
    for name, amount in peak.items():
        total[name] = max(total.get(name, amount), amount)
    return total


def _amounts(container: Mapping[str, Any], part: str) -> dict[str, Quantity]:
    return {
        name: Quantity.parse(text) for name, text in (container.get("resources", {}).get(part) or {}).items()
    }


def _add(total: dict[str, Quantity], more: Mapping[str, Quantity]) -> None:
    for name, amount in more.items():
        total[name] = total[name] + amount if name in total else amount


def qos_class(spec: PodSpec) -> str:
    """Guaranteed, Burstable or BestEffort, by what is asked for of cpu and memory."""
    if spec.get("resources") is not None:
        given: list[Part] = [spec]
    else:
        given = [*(spec.get("containers") or ()), *(spec.get("initContainers") or ())]
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    limited = True
    for holder in given:
        asked = holder.get("resources") or {}
        own = _compute(asked.get("limits"))
        limited &= len(own) == 2
        _add(requests, _compute(asked.get("requests")))
        _add(limits, own)
    if not requests and not limits:
        return "BestEffort"
    return "Guaranteed" if limited and requests == limits else "Burstable"


def _compute(amounts: Mapping[str, str] | None) -> dict[str, Quantity]:
    """The cpu and memory that is really asked for."""
    if not amounts:
        return {}
    parsed = {name: Quantity.parse(amounts.get(name, "0")) for name in ("cpu", "memory")}
    return {name: amount for name, amount in parsed.items() if amount.sign > 0}
