"""Tolerations that pods get: for nodes that fail for a while, and for the nodes set aside for what they ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Literal

from dray.api.groups.core import resourcenames
from dray.api.pods import containers
from dray.server.admission import CREATE, UPDATE, Attributes, RequestScope

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec, Toleration

NOT_READY: Final = "node.kubernetes.io/not-ready"
UNREACHABLE: Final = "node.kubernetes.io/unreachable"
_NO_EXECUTE: Final = "NoExecute"
_IDENTITY: Final[tuple[Literal["key", "effect", "operator", "value"], ...]] = (
    "key",
    "effect",
    "operator",
    "value",
)


def _is_pod_write(scope: RequestScope) -> bool:
    return scope.is_for("", "pods") and scope.operation in (CREATE, UPDATE)


class DefaultTolerationSeconds:
    """Lets a pod stay on a node that is not ready or cannot be reached, for some minutes."""

    name = "DefaultTolerationSeconds"

    def __init__(self, *, not_ready: int = 300, unreachable: int = 300) -> None:
        self._seconds = ((NOT_READY, not_ready), (UNREACHABLE, unreachable))

    def handles(self, scope: RequestScope) -> bool:
        return _is_pod_write(scope)

    async def admit(self, attributes: Attributes) -> None:
        spec: PodSpec = attributes.object.get("spec", {})
        present = spec.get("tolerations") or ()
        missing: list[Toleration] = [
            {"key": taint, "operator": "Exists", "effect": _NO_EXECUTE, "tolerationSeconds": seconds}
            for taint, seconds in self._seconds
            if not any(_covers(toleration, taint) for toleration in present)
        ]
        if missing:
            attributes.object["spec"] = {**spec, "tolerations": [*present, *missing]}


def _covers(toleration: Toleration, taint: str) -> bool:
    return toleration.get("key", "") in ("", taint) and toleration.get("effect", "") in ("", _NO_EXECUTE)


class ExtendedResourceToleration:
    """Lets pods that ask for an extended resource run on nodes that are tainted with its name."""

    name = "ExtendedResourceToleration"

    def handles(self, scope: RequestScope) -> bool:
        return _is_pod_write(scope)

    async def admit(self, attributes: Attributes) -> None:
        spec: PodSpec = attributes.object.get("spec", {})
        asked = {name for c in containers(spec) for name in c.get("resources", {}).get("requests") or ()}
        tolerations = list(spec.get("tolerations") or ())
        for name in sorted(filter(resourcenames.is_extended, asked)):
            wanted: Toleration = {"key": name, "operator": "Exists", "effect": "NoSchedule"}
            if not any(_same(toleration, wanted) for toleration in tolerations):
                tolerations.append(wanted)
        if tolerations:
            attributes.object["spec"] = {**spec, "tolerations": tolerations}


def _same(a: Toleration, b: Toleration) -> bool:
    return all(a.get(key, "") == b.get(key, "") for key in _IDENTITY)


def merge(first: Sequence[Toleration], second: Sequence[Toleration]) -> list[Toleration]:
    """Both lists together, without those that another toleration makes superfluous."""
    every = [*first, *second]
    merged: list[Toleration] = []
    for at, one in enumerate(every):
        if any(_superset(kept, one) for kept in merged):
            continue
        if any(later != one and _superset(later, one) for later in every[at + 1 :]):
            continue
        merged.append(one)
    return merged


def _superset(more: Toleration, one: Toleration) -> bool:
    """Whether ``more`` tolerates all that ``one`` does."""
    if more == one:
        return True
    exists = more.get("operator") == "Exists"
    if one.get("key", "") != more.get("key", "") and not (exists and not more.get("key")):
        return False
    if more.get("effect") and one.get("effect", "") != more["effect"]:
        return False
    seconds = more.get("tolerationSeconds")
    if more.get("effect") == _NO_EXECUTE and seconds is not None:
        stays = one.get("tolerationSeconds")
        if stays is None or stays > seconds:
            return False
    if exists:
        return True
    # As upstream has it, a toleration that leaves out its operator is equal to none but itself.
    return one.get("operator") == "Equal" and one.get("value", "") == more.get("value", "")
