"""Replica sets: a number of pods alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from dray.api import printing
from dray.api.core.pod.defaults import default_template
from dray.api.core.podtemplate import codecs
from dray.api.field import FieldError
from dray.api.kinds import Column, Context, Kind, Object, Scale, Version
from dray.api.release import Release
from dray.api.strategies import SPEC
from dray.api.workloads import (
    TEMPLATE,
    TEMPLATE_COLUMNS,
    ReplicaStatus,
    WorkloadRules,
    check_counts,
    check_long_running,
    check_selected,
    check_selector,
    selector_cell,
    selector_string,
    template_cells,
)


def _default(obj: Object) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec.setdefault("template", {}))


class ReplicaSetRules(WorkloadRules):
    empty_status: ClassVar[Mapping[str, Any]] = {"replicas": 0}
    warns_about_name = True

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found = check_counts(spec, SPEC, "replicas", "minReadySeconds")
        # Upstream's words name the wrong kind here.
        found += check_selector(spec, kind="deployment")
        wrong, usable = check_selected(spec, invalid="invalid label selector")
        found += wrong
        if usable:
            found += self.check_template(spec, ctx)
            found += check_long_running(spec.get("template") or {}, TEMPLATE, kind="ReplicaSet")
        return found


class ReplicaSetStatus(ReplicaStatus):
    counts = (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    )  # fmt: skip
    within_replicas = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _cells(obj: Object, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return (
        printing.name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        printing.age(obj, now),
        *template_cells(spec),
        selector_cell(spec),
    )


def kind(release: Release) -> Kind:
    version = Version(
        name="v1", type="apps/v1.ReplicaSet", default=_default, **codecs(release, "spec", "template")
    )
    return Kind(
        group="apps",
        kind="ReplicaSet",
        plural="replicasets",
        short_names=("rs",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        rules=ReplicaSetRules(),
        views={"status": ReplicaSetStatus()},
        scale=Scale(selector=selector_string),
        printer=printing.printer(
            (
                printing.NAME,
                Column("Desired", type="integer", description="How many pods are wanted."),
                Column("Current", type="integer", description="How many pods there are."),
                Column("Ready", type="integer", description="How many pods are ready."),
                printing.AGE,
                *TEMPLATE_COLUMNS,
            ),
            _cells,
        ),
        fields={"status.replicas": lambda obj: str(obj.get("status", {}).get("replicas", 0))},
    )
