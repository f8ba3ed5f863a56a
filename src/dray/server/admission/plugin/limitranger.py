"""LimitRanger: default requests and limits of containers, and bounds for containers, pods and volume claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from dray.api.groups.core.pod.resources import container_requests
from dray.api.quantity import Quantity
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope
from dray.server.admission.listers import Listers
from dray.server.admission.matchconditions import aggregate

if TYPE_CHECKING:
    from dray.api.types import Object as AnyObject
    from dray.api.types.core import (
        Container,
        LimitRange,
        LimitRangeItem,
        PersistentVolumeClaimSpec,
        Pod,
        PodSpec,
        ResourceRequirements,
    )

ANNOTATION: Final = "kubernetes.io/limit-ranger"
#: Beyond this, thousandths would not fit into 64 bits, and whole numbers are compared.
_MOST_MILLI: Final = ((1 << 63) - 1) // 1000
_POD_LEVEL: Final = ("cpu", "memory")

Amounts = Mapping[str, Quantity]
_Part = Literal["requests", "limits"]
_NOUNS: Final[tuple[tuple[_Part, str], ...]] = (("requests", "request"), ("limits", "limit"))


class LimitRanger:
    name = "LimitRanger"

    def __init__(self, listers: Listers) -> None:
        self._listers = listers

    def handles(self, scope: RequestScope) -> bool:
        if scope.operation not in (CREATE, UPDATE):
            return False
        if scope.operation == UPDATE and scope.resource == "pods":
            return scope.is_for("", "pods", "resize")
        return scope.is_for("", "pods") or scope.is_for("", "persistentvolumeclaims")

    def _limits(self, attributes: Attributes) -> Iterator[Sequence[LimitRangeItem]]:
        """The limits of each limit range of the namespace; an object on its way out is not limited."""
        old: AnyObject | None = attributes.old
        if old is not None and old["metadata"].get("deletionTimestamp"):
            return
        ranges: Iterable[LimitRange] = self._listers.all("", "limitranges", attributes.namespace)
        for limit_range in ranges:
            yield limit_range.get("spec", {}).get("limits") or ()

    async def admit(self, attributes: Attributes) -> None:
        if attributes.resource == "pods":
            for limits in self._limits(attributes):
                _fill(attributes.object, limits)

    async def validate(self, attributes: Attributes) -> None:
        check: Callable[[Any, LimitRangeItem], Iterator[str]]
        check = _check_pod if attributes.resource == "pods" else _check_volume_claim
        for limits in self._limits(attributes):
            problems = [p for limit in limits for p in check(attributes.object.get("spec", {}), limit)]
            if problems:
                raise attributes.forbidden(aggregate(problems))


# -- defaults


def _fill(pod: Pod, limits: Sequence[LimitRangeItem]) -> None:
    defaults: dict[_Part, dict[str, str]] = {"limits": {}, "requests": {}}
    for limit in limits:
        if limit.get("type") == "Container":
            defaults["limits"] |= limit.get("default") or {}
            defaults["requests"] |= limit.get("defaultRequest") or {}
    spec = pod.get("spec", {})
    notes: list[str] = []
    for containers, word in (
        (spec.get("containers"), "container"),
        (spec.get("initContainers"), "init container"),
    ):
        for container in containers or ():
            for kind, noun in _NOUNS:
                added = _add(container, kind, defaults[kind])
                if added:
                    notes.append(f"{', '.join(added)} {noun} for {word} {container.get('name', '')}")
    if notes:
        annotations = dict(pod["metadata"].get("annotations") or {})
        annotations[ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"
        pod["metadata"]["annotations"] = annotations


def _add(container: Container, kind: _Part, defaults: Mapping[str, str]) -> list[str]:
    resources: ResourceRequirements = {**(container.get("resources") or {})}
    present = resources.get(kind) or {}
    missing = {name: amount for name, amount in defaults.items() if name not in present}
    if missing:
        resources[kind] = {**present, **missing}
        container["resources"] = resources
    return sorted(missing)


# -- bounds


def _amounts(amounts: Mapping[str, str] | None) -> dict[str, Quantity]:
    return {name: Quantity.parse(text) for name, text in (amounts or {}).items()}


def _check_pod(spec: PodSpec, limit: LimitRangeItem) -> Iterator[str]:
    if limit.get("type") == "Container":
        for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
            resources = container.get("resources") or {}
            yield from _check(limit, _amounts(resources.get("requests")), _amounts(resources.get("limits")))
    elif limit.get("type") == "Pod":
        yield from _check(limit, _of_pod(spec, "requests"), _of_pod(spec, "limits"))


def _of_pod(spec: PodSpec, part: _Part) -> dict[str, Quantity]:
    total = container_requests(spec, part)
    stated = _amounts((spec.get("resources") or {}).get(part))
    return total | {name: amount for name, amount in stated.items() if name in _POD_LEVEL}


def _check_volume_claim(spec: PersistentVolumeClaimSpec, limit: LimitRangeItem) -> Iterator[str]:
    if limit.get("type") != "PersistentVolumeClaim":
        return
    requests = _amounts((spec.get("resources") or {}).get("requests"))
    for name, least in _amounts(limit.get("min")).items():
        yield from _at_least("PersistentVolumeClaim", name, least, requests, {})
    for name, most in _amounts(limit.get("max")).items():
        per = f"maximum {name} usage per PersistentVolumeClaim is {most}"
        if name not in requests:
            yield f"{per}.  No request is specified"
        elif _above(requests[name], most):
            yield f"{per}, but request is {requests[name]}"


def _check(limit: LimitRangeItem, requests: Amounts, limits: Amounts) -> Iterator[str]:
    kind = limit["type"]
    for name, least in _amounts(limit.get("min")).items():
        yield from _at_least(kind, name, least, requests, limits)
    for name, most in _amounts(limit.get("max")).items():
        yield from _at_most(kind, name, most, requests, limits)
    for name, ratio in _amounts(limit.get("maxLimitRequestRatio")).items():
        yield from _within_ratio(kind, name, ratio, requests, limits)


def _above(one: Quantity, other: Quantity) -> bool:
    """Compared in thousandths where these fit."""
    if one.value() <= _MOST_MILLI and other.value() <= _MOST_MILLI:
        return one.milli_value() > other.milli_value()
    return one.value() > other.value()


def _at_least(kind: str, name: str, least: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    per = f"minimum {name} usage per {kind} is {least}"
    if name not in requests:
        yield f"{per}.  No request is specified"
    elif _above(least, requests[name]):
        yield f"{per}, but request is {requests[name]}"
    elif name in limits and _above(least, limits[name]):
        yield f"{per}, but limit is {limits[name]}"


def _at_most(kind: str, name: str, most: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    per = f"maximum {name} usage per {kind} is {most}"
    if name not in limits:
        yield f"{per}.  No limit is specified"
    elif _above(limits[name], most):
        yield f"{per}, but limit is {limits[name]}"
    elif name in requests and _above(requests[name], most):
        yield f"{per}, but request is {requests[name]}"


def _within_ratio(kind: str, name: str, ratio: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    per = f"{name} max limit to request ratio per {kind} is {ratio}"
    if not requests.get(name):
        yield f"{per}, but no request is specified or request is 0"
    elif not limits.get(name):
        yield f"{per}, but no limit is specified or limit is 0"
    else:
        given = limits[name].milli_value() / requests[name].milli_value()
        if given * 1000 > ratio.milli_value():
            yield f"{per}, but provided ratio is {given:f}"
