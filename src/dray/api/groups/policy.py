"""policy: how many pods of a group may be gone at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dray.api.golang import structs
from dray.api.groups.apps.workload import at_most_all, check_counts, int_or_percent
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, STATUS, Context, SpecAndStatusStrategy, StatusStrategy
from dray.api.validation import checks, field, objectmeta
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.policy import PodDisruptionBudget

_UNHEALTHY: Final = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS: Final = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class PodDisruptionBudgetStrategy(SpecAndStatusStrategy["PodDisruptionBudget"]):
    unconditional_update = False
    empty_status: ClassVar[Mapping[str, Any]] = dict.fromkeys(_COUNTS, 0)

    def validate(self, obj: PodDisruptionBudget, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        found: list[FieldError] = []
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            shown = structs.render("policy/v1.PodDisruptionBudgetSpec", spec)
            words = "minAvailable and maxUnavailable cannot be both set"
            found.append(field.invalid(SPEC, shown, words))
        for part in ("minAvailable", "maxUnavailable"):
            if (amount := spec.get(part)) is not None:
                found += int_or_percent(amount, SPEC.child(part)) + at_most_all(amount, SPEC.child(part))
        found += checks.label_selector(spec.get("selector"), SPEC.child("selector"))
        if (policy := spec.get("unhealthyPodEvictionPolicy")) is not None:
            found += checks.one_of(policy, SPEC.child("unhealthyPodEvictionPolicy"), _UNHEALTHY)
        return found


class PodDisruptionBudgetStatusStrategy(StatusStrategy["PodDisruptionBudget"]):
    def validate_update(
        self, new: PodDisruptionBudget, old: PodDisruptionBudget, ctx: Context
    ) -> Sequence[FieldError]:
        status = new.get("status", {})
        found = objectmeta.validate_conditions(
            status.get("conditions") or (), STATUS.child("conditions"), declared=ctx.quirks.declares_rules
        )
        return found + check_counts(status, STATUS, *_COUNTS)


def _cells(obj: PodDisruptionBudget, now: float) -> Sequence[object]:
    spec = obj.get("spec", {})
    allowed = obj.get("status", {}).get("disruptionsAllowed", 0)
    low, high = (str(spec.get(part, "N/A")) for part in ("minAvailable", "maxUnavailable"))
    return printers.name(obj), low, high, allowed, printers.age(obj, now)


POD_DISRUPTION_BUDGET = Kind(
    group="policy",
    kind="PodDisruptionBudget",
    plural="poddisruptionbudgets",
    short_names=("pdb",),
    versions=(Version(name="v1", type="policy/v1.PodDisruptionBudget"),),
    storage="v1",
    strategy=PodDisruptionBudgetStrategy(),
    subresources={"status": PodDisruptionBudgetStatusStrategy()},
    printer=printers.printer(
        (
            printers.NAME,
            Column("Min Available", description="How many pods must stay."),
            Column("Max Unavailable", description="How many pods may be gone."),
            Column("Allowed Disruptions", type="integer", description="How many pods may be evicted now."),
            printers.AGE,
        ),
        _cells,
    ),
)
KINDS = (POD_DISRUPTION_BUDGET,)
