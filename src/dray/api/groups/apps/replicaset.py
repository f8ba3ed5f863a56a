"""Replica sets: a number of pods alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dray.api.groups.apps.workload import (
    REPLICA_COLUMNS,
    TEMPLATE,
    ReplicaStatusStrategy,
    WorkloadStrategy,
    check_counts,
    check_long_running,
    check_selector,
    check_selector_matches_template,
    selector_cell,
    selector_string,
    template_cells,
)
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import codecs
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Kind, Scale, Version
from dray.api.scheme.strategy import SPEC, Context
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.apps import ReplicaSet


def _default(obj: ReplicaSet) -> None:
    spec = obj.setdefault("spec", {})
    spec.setdefault("replicas", 1)
    default_template(spec.setdefault("template", {}))


class ReplicaSetStrategy(WorkloadStrategy["ReplicaSet"]):
    empty_status: ClassVar[Mapping[str, Any]] = {"replicas": 0}
    warns_about_name = True

    def validate(self, obj: ReplicaSet, ctx: Context) -> Sequence[FieldError]:
        spec = obj["spec"]
        found = check_counts(spec, SPEC, "replicas", "minReadySeconds")
        # Upstream's words name the wrong kind here.
        found += check_selector(spec, kind="deployment")
        wrong, usable = check_selector_matches_template(spec, invalid="invalid label selector")
        found += wrong
        if usable:
            found += self.check_template(spec, ctx)
            found += check_long_running(spec.get("template") or {}, TEMPLATE, kind="ReplicaSet")
        return found


class ReplicaSetStatusStrategy(ReplicaStatusStrategy["ReplicaSet"]):
    counts = (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
        "terminatingReplicas",
    )  # fmt: skip
    within_replicas = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def _cells(obj: ReplicaSet, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return (
        printers.name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        printers.age(obj, now),
        *template_cells(spec),
        selector_cell(spec),
    )


def kind(quirks: APIQuirks) -> Kind:
    version = Version(
        name="v1", type="apps/v1.ReplicaSet", default=_default, **codecs(quirks, "spec", "template")
    )
    return Kind(
        group="apps",
        kind="ReplicaSet",
        plural="replicasets",
        short_names=("rs",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=ReplicaSetStrategy(),
        subresources={"status": ReplicaSetStatusStrategy()},
        scale=Scale(selector=selector_string),
        printer=printers.printer(REPLICA_COLUMNS, _cells),
        fields={"status.replicas": lambda obj: str(obj.get("status", {}).get("replicas", 0))},
    )
