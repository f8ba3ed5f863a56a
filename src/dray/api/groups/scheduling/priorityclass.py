"""PriorityClass: how important pods are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import METADATA, Context, SubdomainStrategy, immutable, update_generation
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.scheduling import PriorityClass

HIGHEST_USER_PRIORITY: Final = 1_000_000_000
#: Classes that every cluster has, with their values and what they say about themselves.
SYSTEM_CLASSES: Final = {
    "system-node-critical": (
        2_000_001_000,
        "Used for system critical pods that must not be moved from their current node.",
    ),
    "system-cluster-critical": (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
}
_POLICIES: Final = ("PreemptLowerPriority", "Never")


def _default(obj: PriorityClass) -> None:
    obj.setdefault("preemptionPolicy", "PreemptLowerPriority")


def _system_problem(obj: PriorityClass) -> str:
    name = obj["metadata"]["name"]
    if name not in SYSTEM_CLASSES:
        return f"{name} is not a known system priority class"
    value, _ = SYSTEM_CLASSES[name]
    if obj.get("value", 0) != value:
        return f"value of {name} PriorityClass must be {value}"
    if obj.get("globalDefault"):
        return f"globalDefault of {name} PriorityClass must be false"
    return ""


class PriorityClassStrategy(SubdomainStrategy["PriorityClass"]):
    def prepare_create(self, obj: PriorityClass, ctx: Context) -> None:
        obj["metadata"]["generation"] = 1

    def prepare_update(self, new: PriorityClass, old: PriorityClass, ctx: Context) -> None:
        update_generation(new, old, changed=False)

    def validate(self, obj: PriorityClass, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        if obj["metadata"].get("name", "").startswith("system-"):
            if problem := _system_problem(obj):
                words = "priority class names with 'system-' prefix are reserved for system use only. error: "
                found.append(field.forbidden(METADATA.child("name"), words + problem))
        elif obj.get("value", 0) > HIGHEST_USER_PRIORITY:
            words = f"maximum allowed value of a user defined priority is {HIGHEST_USER_PRIORITY}"
            found.append(field.forbidden(Path("value"), words))
        if (policy := obj.get("preemptionPolicy")) is not None:
            found += checks.one_of(policy, Path("preemptionPolicy"), _POLICIES)
        return found

    def validate_update(self, new: PriorityClass, old: PriorityClass, ctx: Context) -> Sequence[FieldError]:
        found: list[FieldError] = []
        if new.get("value", 0) != old.get("value", 0):
            found.append(field.forbidden(Path("value"), "may not be changed in an update."))
        policies = new.get("preemptionPolicy"), old.get("preemptionPolicy")
        return [*found, *immutable(*policies, Path("preemptionPolicy"))]


PRIORITY_CLASS = Kind(
    group="scheduling.k8s.io",
    kind="PriorityClass",
    plural="priorityclasses",
    namespaced=False,
    short_names=("pc",),
    versions=(Version(name="v1", type="scheduling/v1.PriorityClass", default=_default),),
    storage="v1",
    strategy=PriorityClassStrategy(),
    printer=printers.printer(
        (
            printers.NAME,
            Column("Value", type="integer", description="The priority that pods of this class get."),
            Column(
                "Global-Default", type="boolean", description="Whether pods without a class get this one."
            ),
            printers.AGE,
            Column("PreemptionPolicy", description="Whether its pods push out less important ones."),
        ),
        lambda obj, now: (
            printers.name(obj),
            obj.get("value", 0),
            bool(obj.get("globalDefault")),
            printers.age(obj, now),
            obj.get("preemptionPolicy", ""),
        ),
    ),
)
