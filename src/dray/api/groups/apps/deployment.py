"""Deployments: pods replaced step by step when their template changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.golang import structs
from dray.api.groups.apps.workload import (
    TEMPLATE,
    TEMPLATE_COLUMNS,
    ReplicaStatusStrategy,
    WorkloadStrategy,
    amount_of,
    at_most_all,
    check_counts,
    check_long_running,
    check_selector,
    check_selector_matches_template,
    int_or_percent,
    selector_string,
    template_cells,
)
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import codecs
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Scale, Version
from dray.api.scheme.strategy import SPEC, Context
from dray.api.selectors import label_selector
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.apps import Deployment
    from dray.api.types.apps import DeploymentStrategy as StrategyDocument

_STRATEGY: Final = SPEC.child("strategy")
_STRATEGIES: Final = ("Recreate", "RollingUpdate")


def _default(obj: Deployment) -> None:
    spec = obj.setdefault("spec", {})
    default_template(spec.setdefault("template", {}))
    spec.setdefault("replicas", 1)
    strategy = spec.setdefault("strategy", {})
    if strategy.setdefault("type", "RollingUpdate") == "RollingUpdate":
        rolling = strategy.setdefault("rollingUpdate", {})
        rolling.setdefault("maxUnavailable", "25%")
        rolling.setdefault("maxSurge", "25%")
    spec.setdefault("revisionHistoryLimit", 10)
    spec.setdefault("progressDeadlineSeconds", 600)


def _check_strategy(strategy: StrategyDocument) -> list[FieldError]:
    kind = strategy.get("type", "")
    path = _STRATEGY.child("rollingUpdate")
    if kind == "Recreate":
        words = "may not be specified when strategy `type` is 'Recreate'"
        return [] if strategy.get("rollingUpdate") is None else [field.forbidden(path, words)]
    if kind != "RollingUpdate":
        shown = structs.render("apps/v1.DeploymentStrategy", strategy)
        return [field.not_supported(_STRATEGY, shown, _STRATEGIES)]
    rolling = strategy["rollingUpdate"]
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    found = int_or_percent(unavailable, path.child("maxUnavailable"))
    found += int_or_percent(surge, path.child("maxSurge"))
    if not amount_of(unavailable) and not amount_of(surge):
        words = "may not be 0 when `maxSurge` is 0"
        found.append(field.invalid(path.child("maxUnavailable"), unavailable, words))
    return found + at_most_all(unavailable, path.child("maxUnavailable"))


class DeploymentStrategy(WorkloadStrategy["Deployment"]):
    annotations_count = True
    warns_about_name = True

    def validate(self, obj: Deployment, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found = check_counts(spec, SPEC, "replicas")
        found += check_selector(spec, kind="deployment")
        wrong, usable = check_selector_matches_template(spec, invalid="invalid label selector")
        found += wrong
        if usable:
            found += self.check_template(spec, ctx)
            found += check_long_running(spec["template"], TEMPLATE, kind="ReplicaSet")
        found += _check_strategy(spec.get("strategy") or {})
        found += check_counts(
            spec, SPEC, "minReadySeconds", "revisionHistoryLimit", "progressDeadlineSeconds"
        )
        deadline = spec.get("progressDeadlineSeconds")
        if deadline is not None and deadline <= spec.get("minReadySeconds", 0):
            words = "must be greater than minReadySeconds"
            found.append(field.invalid(SPEC.child("progressDeadlineSeconds"), deadline, words))
        return found


class DeploymentStatusStrategy(ReplicaStatusStrategy["Deployment"]):
    counts = (
        "observedGeneration", "replicas", "updatedReplicas", "readyReplicas", "availableReplicas",
        "unavailableReplicas", "terminatingReplicas", "collisionCount",
    )  # fmt: skip
    within_replicas = ("updatedReplicas", "readyReplicas", "availableReplicas")

    def prepare_update(self, new: Deployment, old: Deployment, ctx: Context) -> None:
        super().prepare_update(new, old, ctx)
        new["metadata"].pop("labels", None)
        if "labels" in old["metadata"]:
            new["metadata"]["labels"] = old["metadata"]["labels"]


def _cells(obj: Deployment, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    try:
        selector = str(label_selector(spec.get("selector")))
    except (ValueError, KeyError):
        selector = "<invalid>"
    return (
        printers.name(obj),
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        printers.age(obj, now),
        *template_cells(spec),
        selector,
    )


def kind(quirks: APIQuirks) -> Kind:
    version = Version(
        name="v1", type="apps/v1.Deployment", default=_default, **codecs(quirks, "spec", "template")
    )
    return Kind(
        group="apps",
        kind="Deployment",
        plural="deployments",
        short_names=("deploy",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=DeploymentStrategy(),
        subresources={"status": DeploymentStatusStrategy()},
        scale=Scale(selector=selector_string),
        printer=printers.printer(
            (
                printers.NAME,
                Column("Ready", description="How many of the wanted pods are ready."),
                Column("Up-to-date", description="How many pods have the newest template."),
                Column("Available", description="How many pods have been ready for long enough."),
                printers.AGE,
                *TEMPLATE_COLUMNS,
            ),
            _cells,
        ),
    )
