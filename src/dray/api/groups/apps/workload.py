"""What the kinds that make pods have in common: a template, a selector that fits it, and counts of replicas."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypedDict, TypeVar

from dray.api.groups.core.pod.warnings import warn_template
from dray.api.groups.core.podtemplate import check_template, drop_disabled_fields
from dray.api.intstr import percentage
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Object
from dray.api.scheme.strategy import (
    SPEC,
    STATUS,
    Context,
    SpecAndStatusStrategy,
    StatusStrategy,
    generation,
    immutable,
)
from dray.api.selectors import format_label_selector, label_selector
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError, Path

if TYPE_CHECKING:
    from dray.api.types.apps import (
        DaemonSet,
        DaemonSetSpec,
        Deployment,
        DeploymentSpec,
        ReplicaSet,
        ReplicaSetSpec,
        StatefulSet,
        StatefulSetSpec,
    )
    from dray.api.types.batch import Job, JobSpec
    from dray.api.types.core import PodTemplateSpec, ReplicationController
    from dray.api.types.meta import LabelSelector

    class WorkloadSpec(TypedDict, total=False):
        """What the specs of workloads have in common."""

        selector: LabelSelector
        template: PodTemplateSpec

    class WorkloadStatus(TypedDict, total=False):
        """Counts in the status of a workload; not every kind has each of them."""

        replicas: int
        readyReplicas: int
        availableReplicas: int
        collisionCount: int


TEMPLATE: Final = SPEC.child("template")
SELECTOR: Final = SPEC.child("selector")
CONTAINERS: Final = Column(
    "Containers", priority=1, description="The names of the containers in the template."
)
IMAGES: Final = Column("Images", priority=1, description="The images of the containers in the template.")
#: What the template makes, and which pods are looked after.
TEMPLATE_COLUMNS: Final = (
    CONTAINERS,
    IMAGES,
    Column("Selector", priority=1, description="The labels of the pods it looks after."),
)
#: What is shown of kinds that keep a number of pods alike.
REPLICA_COLUMNS: Final = (
    printers.NAME,
    Column("Desired", type="integer", description="How many pods are wanted."),
    Column("Current", type="integer", description="How many pods there are."),
    Column("Ready", type="integer", description="How many pods are ready."),
    printers.AGE,
    *TEMPLATE_COLUMNS,
)


W = TypeVar("W", "DaemonSet", "Deployment", "Job", "ReplicaSet", "ReplicationController", "StatefulSet")


def check_selector(
    spec: DeploymentSpec | ReplicaSetSpec | StatefulSetSpec | WorkloadSpec, *, kind: str
) -> list[FieldError]:
    selector = spec.get("selector")
    if selector is None:
        return [field.required(SELECTOR)]
    found = checks.label_selector(selector, SELECTOR)
    if not selector.get("matchLabels") and not selector.get("matchExpressions"):
        found.append(field.invalid(SELECTOR, selector, f"empty selector is invalid for {kind}"))
    return found


def check_selector_matches_template(
    spec: WorkloadSpec, *, invalid: str, empty_matches: bool = True
) -> tuple[list[FieldError], bool]:
    """Whether the selector selects the template's pods; and whether it is a selector at all."""
    template = spec.get("template") or {}
    labels = (template.get("metadata") or {}).get("labels")
    try:
        selector = label_selector(spec.get("selector"))
    except (ValueError, KeyError):
        return [field.invalid(SELECTOR, spec.get("selector"), invalid)], False
    if selector.matches(labels) or (empty_matches and selector.empty):
        return [], True
    words = "`selector` does not match template `labels`"
    return [field.invalid(TEMPLATE.child("metadata", "labels"), labels, words)], True


def check_selector_immutable(new: Any, old: Any) -> Sequence[FieldError]:
    selector, before = (x["spec"].get("selector") for x in (new, old))
    return immutable(selector, before, SELECTOR, type_name="meta/v1.LabelSelector")


def check_long_running(template: PodTemplateSpec, path: Path, *, kind: str) -> list[FieldError]:
    """Pods that are kept running restart always and have no deadline."""
    spec = template.get("spec") or {}
    found: list[FieldError] = []
    if (policy := spec.get("restartPolicy", "")) != "Always":
        found.append(field.not_supported(path.child("spec", "restartPolicy"), policy, ("Always",)))
    if spec.get("activeDeadlineSeconds") is not None:
        words = f"activeDeadlineSeconds in {kind} is not Supported"
        found.append(field.forbidden(path.child("spec", "activeDeadlineSeconds"), words))
    return found


def check_counts(holder: Mapping[str, Any], path: Path, *parts: str) -> list[FieldError]:
    return [p for part in parts for p in checks.not_negative(holder.get(part), path.child(part))]


def int_or_percent(value: int | str, path: Path) -> list[FieldError]:
    if isinstance(value, int):
        return checks.not_negative(value, path)
    return checks.each(value, path, names.percent(value))


def at_most_all(value: int | str, path: Path) -> list[FieldError]:
    if amount_of(value) > 100 and not isinstance(value, int):
        return [field.invalid(path, value, "must not be greater than 100%")]
    return []


def amount_of(value: int | str) -> int:
    """The number in front of the percent sign, or the number itself."""
    if isinstance(value, int):
        return value
    return percentage(value) if not names.percent(value) else 0


class WorkloadStrategy(SpecAndStatusStrategy[W]):
    """A spec with a pod template in it."""

    warns_about_name = False

    def prepare_create(self, obj: W, ctx: Context) -> None:
        super().prepare_create(obj, ctx)
        if (template := obj["spec"].get("template")) is not None:
            drop_disabled_fields(template, None, ctx)

    def prepare_update(self, new: W, old: W, ctx: Context) -> None:
        if (template := new["spec"].get("template")) is not None:
            drop_disabled_fields(template, old["spec"].get("template"), ctx)
        super().prepare_update(new, old, ctx)

    def validate_update(self, new: W, old: W, ctx: Context) -> Sequence[FieldError]:
        return [*self.validate(new, ctx), *check_selector_immutable(new, old)]

    def warn(self, obj: W, ctx: Context) -> Sequence[str]:
        found: list[str] = []
        if self.warns_about_name and (messages := names.dns1123_label(obj["metadata"].get("name", ""))):
            listed = " ".join(messages)
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{listed}]"
            )
        return [*found, *warn_template(obj["spec"].get("template") or {}, TEMPLATE)]

    def warn_update(self, new: W, old: W, ctx: Context) -> Sequence[str]:
        if generation(new) == generation(old):
            return ()
        return warn_template(new["spec"].get("template") or {}, TEMPLATE)

    def check_template(
        self, spec: DaemonSetSpec | DeploymentSpec | ReplicaSetSpec | WorkloadSpec, ctx: Context
    ) -> list[FieldError]:
        return check_template(spec.get("template") or {}, TEMPLATE, ctx)


class ReplicaStatusStrategy(StatusStrategy[W]):
    """Counts in a status: none negative, none above the number of replicas, no collision forgotten."""

    counts: tuple[str, ...] = ()
    within_replicas: tuple[str, ...] = ()
    ready_words = "cannot be greater than readyReplicas"

    def validate_update(self, new: Any, old: Any, ctx: Context) -> Sequence[FieldError]:
        status: WorkloadStatus = new.get("status", {})
        before: WorkloadStatus = old.get("status", {})
        counts: Mapping[str, Any] = status
        found = check_counts(status, STATUS, *self.counts)
        replicas = status.get("replicas", 0)
        for part in self.within_replicas:
            if (count := counts.get(part, 0)) > replicas:
                found.append(
                    field.invalid(STATUS.child(part), count, "cannot be greater than status.replicas")
                )
        available = status.get("availableReplicas", 0)
        if "availableReplicas" in self.within_replicas and available > status.get("readyReplicas", 0):
            found.append(field.invalid(STATUS.child("availableReplicas"), available, self.ready_words))
        collisions = status.get("collisionCount") or 0
        if collisions < (before.get("collisionCount") or 0):
            found.append(field.invalid(STATUS.child("collisionCount"), collisions, "cannot be decremented"))
        return found


def template_cells(spec: WorkloadSpec) -> tuple[str, str]:
    return printers.containers((spec.get("template") or {}).get("spec") or {})


def selector_string(obj: Object) -> str:
    """The selector of a workload's pods, as the scale subresource gives it."""
    try:
        return str(label_selector(obj.get("spec", {}).get("selector")))
    except (ValueError, KeyError):
        return ""


def selector_cell(spec: DaemonSetSpec | JobSpec | ReplicaSetSpec) -> str:
    return format_label_selector(spec.get("selector"))
