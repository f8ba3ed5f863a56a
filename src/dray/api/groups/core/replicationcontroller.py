"""Replication controllers: a number of pods alike, as it was before replica sets."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dray.api.groups.apps.workload import (
    REPLICA_COLUMNS,
    SELECTOR,
    TEMPLATE,
    ReplicaStatusStrategy,
    WorkloadStrategy,
    check_counts,
    check_long_running,
    template_cells,
)
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import check_template, codecs
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Kind, Scale, Version
from dray.api.scheme.strategy import SPEC, Context
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.core import ReplicationController


def _default(obj: ReplicationController) -> None:
    spec = obj.setdefault("spec", {})
    if (template := spec.get("template")) is not None:
        default_template(template)
        if labels := (template.get("metadata") or {}).get("labels"):
            if not spec.get("selector"):
                spec["selector"] = dict(labels)
            if not obj["metadata"].get("labels"):
                obj["metadata"]["labels"] = dict(labels)
    spec.setdefault("replicas", 1)


class ReplicationControllerStrategy(WorkloadStrategy["ReplicationController"]):
    empty_status: ClassVar[Mapping[str, Any]] = {"replicas": 0}
    warns_about_name = True
    orphans_dependents = True

    def validate(self, obj: ReplicationController, ctx: Context) -> Sequence[FieldError]:
        spec = obj.get("spec", {})
        selector, template = spec.get("selector") or {}, spec.get("template")
        found = check_counts(spec, SPEC, "minReadySeconds")
        found += [] if selector else [field.required(SELECTOR)]
        found += check_counts(spec, SPEC, "replicas")
        if template is None:
            return [*found, field.required(TEMPLATE)]
        labels = (template.get("metadata") or {}).get("labels") or {}
        if not selector.items() <= labels.items():
            words = "`selector` does not match template `labels`"
            found.append(field.invalid(TEMPLATE.child("metadata", "labels"), labels or None, words))
        found += check_template(template, TEMPLATE, ctx)
        return found + check_long_running(template, TEMPLATE, kind="ReplicationController")

    def validate_update(
        self, new: ReplicationController, old: ReplicationController, ctx: Context
    ) -> Sequence[FieldError]:
        return self.validate(new, ctx)


class ReplicationControllerStatusStrategy(ReplicaStatusStrategy["ReplicationController"]):
    counts = (
        "replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration",
    )  # fmt: skip
    within_replicas = ("fullyLabeledReplicas", "readyReplicas", "availableReplicas")


def selector_string(obj: Any) -> str:
    """The selector as the scale subresource gives it."""
    return ",".join(f"{k}={v}" for k, v in sorted((obj.get("spec", {}).get("selector") or {}).items()))


def _cells(obj: ReplicationController, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    return (
        printers.name(obj),
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        printers.age(obj, now),
        *template_cells({"template": spec.get("template") or {}}),
        printers.labels(spec.get("selector")),
    )


def kind(quirks: APIQuirks) -> Kind:
    version = Version(
        name="v1",
        type="core/v1.ReplicationController",
        default=_default,
        **codecs(quirks, "spec", "template"),
    )
    return Kind(
        group="",
        kind="ReplicationController",
        plural="replicationcontrollers",
        short_names=("rc",),
        categories=("all",),
        versions=(version,),
        storage="v1",
        prefix="controllers",
        strategy=ReplicationControllerStrategy(),
        subresources={"status": ReplicationControllerStatusStrategy()},
        scale=Scale(selector=selector_string),
        printer=printers.printer(REPLICA_COLUMNS, _cells),
        fields={"status.replicas": lambda obj: str(obj.get("status", {}).get("replicas", 0))},
    )
