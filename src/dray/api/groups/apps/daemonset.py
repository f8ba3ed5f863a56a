"""Daemon sets: a pod on every node that fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final

from dray.api.golang import structs
from dray.api.golang.strconv import parse_int64
from dray.api.groups.apps.workload import (
    SELECTOR,
    TEMPLATE,
    TEMPLATE_COLUMNS,
    ReplicaStatusStrategy,
    WorkloadStrategy,
    amount_of,
    at_most_all,
    check_counts,
    check_long_running,
    check_selector_immutable,
    check_selector_matches_template,
    int_or_percent,
    selector_cell,
    template_cells,
)
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import codecs
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import SPEC, Context
from dray.api.validation import checks, field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.apps import DaemonSet, DaemonSetUpdateStrategy

#: The count of template changes, a field of old versions that lives on as an annotation.
_TEMPLATE_GENERATION: Final = "deprecated.daemonset.template.generation"
_STRATEGY: Final = SPEC.child("updateStrategy")
_STRATEGIES: Final = ("RollingUpdate", "OnDelete")


def _default(obj: DaemonSet) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    strategy = spec.setdefault("updateStrategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", 1)
        rolling.setdefault("maxSurge", 0)
    spec.setdefault("revisionHistoryLimit", 10)


def _template_generation(obj: DaemonSet) -> int:
    text = (obj["metadata"].get("annotations") or {}).get(_TEMPLATE_GENERATION, "0")
    return parse_int64(text) or 0


def _count_template(obj: DaemonSet, count: int) -> None:
    meta = obj["metadata"]
    meta["annotations"] = {**(meta.get("annotations") or {}), _TEMPLATE_GENERATION: str(count)}


def _check_strategy(strategy: DaemonSetUpdateStrategy) -> list[FieldError]:
    kind = strategy.get("type", "")
    if kind == "OnDelete":
        return []
    if kind != "RollingUpdate":
        shown = structs.render("apps/v1.DaemonSetUpdateStrategy", strategy)
        return [field.not_supported(_STRATEGY, shown, _STRATEGIES)]
    path = _STRATEGY.child("rollingUpdate")
    rolling = strategy["rollingUpdate"]
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    found: list[FieldError] = []
    for check in (int_or_percent, at_most_all):
        found += check(unavailable, path.child("maxUnavailable")) + check(surge, path.child("maxSurge"))
    if amount_of(unavailable) and amount_of(surge):
        words = "may not be set when maxUnavailable is non-zero"
        found.append(field.invalid(path.child("maxSurge"), surge, words))
    elif not amount_of(unavailable) and not amount_of(surge):
        found.append(field.required(path.child("maxUnavailable"), "cannot be 0 when maxSurge is 0"))
    return found


class DaemonSetStrategy(WorkloadStrategy["DaemonSet"]):
    empty_status: ClassVar[Mapping[str, Any]] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def prepare_create(self, obj: DaemonSet, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        _count_template(obj, max(1, _template_generation(obj)))

    def prepare_update(self, new: DaemonSet, old: DaemonSet, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        changed = new["spec"]["template"] != old["spec"]["template"]
        _count_template(new, _template_generation(old) + changed)

    def validate(self, obj: DaemonSet, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found = checks.label_selector(spec.get("selector"), SELECTOR)
        wrong, usable = check_selector_matches_template(spec, invalid="", empty_matches=False)
        found += wrong if usable else []
        selector = spec.get("selector")
        if selector is not None and not selector.get("matchLabels") and not selector.get("matchExpressions"):
            found.append(field.invalid(SELECTOR, selector, "empty selector is invalid for daemonset"))
        found += self.check_template(spec, ctx)
        found += check_long_running(spec.get("template") or {}, TEMPLATE, kind="DaemonSet")
        found += check_counts(spec, SPEC, "minReadySeconds")
        found += _check_strategy(spec.get("updateStrategy") or {})
        return found + check_counts(spec, SPEC, "revisionHistoryLimit")

    def validate_update(self, new: DaemonSet, old: DaemonSet, ctx: Context) -> Sequence[FieldError]:
        return [*check_selector_immutable(new, old), *self.validate(new, ctx)]


class DaemonSetStatusStrategy(ReplicaStatusStrategy["DaemonSet"]):
    counts = (
        "currentNumberScheduled", "numberMisscheduled", "desiredNumberScheduled", "numberReady",
        "observedGeneration", "updatedNumberScheduled", "numberAvailable", "numberUnavailable", "collisionCount",
    )  # fmt: skip


def _cells(obj: DaemonSet, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    return (
        printers.name(obj),
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        printers.labels(pod_spec.get("nodeSelector")),
        printers.age(obj, now),
        *template_cells(spec),
        selector_cell(spec),
    )


def kind(quirks: APIQuirks) -> Kind:
    version = Version(
        name="v1", type="apps/v1.DaemonSet", default=_default, **codecs(quirks, "spec", "template")
    )
    return Kind(
        group="apps",
        kind="DaemonSet",
        plural="daemonsets",
        short_names=("ds",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=DaemonSetStrategy(),
        subresources={"status": DaemonSetStatusStrategy()},
        printer=printers.printer(
            (
                printers.NAME,
                Column("Desired", type="integer", description="How many nodes should run the pod."),
                Column("Current", type="integer", description="How many of them have one."),
                Column("Ready", type="integer", description="How many pods are ready."),
                Column("Up-to-date", type="integer", description="How many pods have the newest template."),
                Column(
                    "Available", type="integer", description="How many pods have been ready for long enough."
                ),
                Column("Node Selector", description="The labels of the nodes that should run the pod."),
                printers.AGE,
                *TEMPLATE_COLUMNS,
            ),
            _cells,
        ),
    )
