"""Jobs: pods that run to completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.golang import structs
from dray.api.groups.apps.workload import (
    SELECTOR,
    TEMPLATE,
    TEMPLATE_COLUMNS,
    check_selector_immutable,
    check_selector_matches_template,
    selector_cell,
    template_cells,
)
from dray.api.groups.batch.jobspec import check_spec, default_spec, warn_spec
from dray.api.groups.batch.jobstatus import JobStatusStrategy, is_true
from dray.api.groups.batch.scheduling import check_scheduling
from dray.api.groups.core.pod.defaults import default_template
from dray.api.groups.core.podtemplate import codecs, drop_disabled_fields
from dray.api.quirks import APIQuirks
from dray.api.scheme import printers
from dray.api.scheme.kinds import Column, Kind, Version
from dray.api.scheme.strategy import (
    METADATA,
    SPEC,
    Context,
    SpecAndStatusStrategy,
    generation,
    immutable,
    keep_fields,
)
from dray.api.selectors import label_selector
from dray.api.validation import checks, field, names
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.batch import Job, JobSpec
    from dray.api.types.core import PodSpec, PodTemplateSpec

_NAME_LABELS: Final = ("job-name", "batch.kubernetes.io/job-name")
_UID_LABELS: Final = ("controller-uid", "batch.kubernetes.io/controller-uid")
#: What a job cannot change, in the order in which upstream says so.
_FROZEN: Final = (
    ("completionMode", ""),
    ("podFailurePolicy", "batch/v1.PodFailurePolicy"),
    ("backoffLimitPerIndex", ""),
    ("managedBy", ""),
    ("successPolicy", "batch/v1.SuccessPolicy"),
)
_SCHEDULING: Final = ("nodeSelector", "tolerations", "schedulingGates")


def kind(quirks: APIQuirks) -> Kind:

    def default(obj: Job) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        default_template(template)
        labels = (template.get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
        default_spec(spec)
        if quirks.defaults_pod_replacement_policy and spec.get("podReplacementPolicy") is None:
            failing = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if failing else "TerminatingOrFailed"

    version = Version(name="v1", type="batch/v1.Job", default=default, **codecs(quirks, "spec", "template"))
    return Kind(
        group="batch",
        kind="Job",
        plural="jobs",
        categories=("all",),
        versions=(version,),
        storage="v1",
        strategy=JobStrategy(),
        subresources={"status": JobStatusStrategy()},
        printer=printers.printer(
            (
                printers.NAME,
                Column("Status", description="Whether the job runs, and how it ended."),
                Column("Completions", description="How many pods have succeeded, and how many should."),
                Column("Duration", description="How long the job has run."),
                printers.AGE,
                *TEMPLATE_COLUMNS,
            ),
            _cells,
        ),
        fields={"status.successful": lambda obj: str(obj.get("status", {}).get("succeeded", 0))},
    )


def _generate_selector(obj: Job) -> None:
    """Labels and a selector that tell this job's pods from all others."""
    meta, spec = obj["metadata"], obj["spec"]
    template = spec["template"]
    about = template.setdefault("metadata", {})
    labels = dict(about.get("labels") or {})
    for label in _NAME_LABELS:
        labels.setdefault(label, meta.get("name", ""))
    for label in _UID_LABELS:
        labels.setdefault(label, meta.get("uid", ""))
    about["labels"] = labels
    if not meta.get(
        "labels"
    ):  # the default of a Job without labels, which upstream applies to what it has stored
        meta["labels"] = dict(labels)
    selector = spec.get("selector") or {}
    wanted = {_UID_LABELS[1]: meta.get("uid", ""), **(selector.get("matchLabels") or {})}
    spec["selector"] = {**selector, "matchLabels": wanted}


def _check_generated(obj: Job, *, prefixed: bool) -> list[FieldError]:
    meta, spec = obj["metadata"], obj["spec"]
    if spec.get("manualSelector") or spec.get("selector") is None:
        return []
    found: list[FieldError] = []
    if not meta.get("uid"):
        found.append(field.required(METADATA.child("uid")))
    expected = {label: meta.get("uid", "") for label in _UID_LABELS}
    expected |= {label: meta.get("name", "") for label in _NAME_LABELS}
    needed = [_UID_LABELS[0], _NAME_LABELS[0]]
    if prefixed:
        needed += [_UID_LABELS[1], _NAME_LABELS[1]]
    labels = (spec["template"].get("metadata") or {}).get("labels") or {}
    path = TEMPLATE.child("metadata", "labels")
    for label in needed:
        if label not in labels:
            found.append(field.required(path.key(label), f"must be '{expected[label]}'"))
        elif labels[label] != expected[label]:
            words = f"must be '{expected[label]}'"
            found.append(field.invalid(path.key(label), labels, words))
    try:
        selected = label_selector(spec["selector"]).matches({label: expected[label] for label in needed})
    except (ValueError, KeyError):
        return found
    if not selected:
        found.append(field.invalid(SELECTOR, spec["selector"], "`selector` not auto-generated"))
    return found


class JobStrategy(SpecAndStatusStrategy["Job"]):
    orphans_dependents = True

    def prepare_create(self, obj: Job, ctx: Context) -> None:
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            _generate_selector(obj)
        super().prepare_create(obj, ctx)
        self._drop_gated(spec, {}, ctx)

    def prepare_update(self, new: Job, old: Job, ctx: Context) -> None:
        self._drop_gated(new["spec"], old["spec"], ctx)
        super().prepare_update(new, old, ctx)

    def _drop_gated(self, spec: JobSpec, old: JobSpec, ctx: Context) -> None:
        if "JobManagedBy" not in ctx.gates and old.get("managedBy") is None:
            spec.pop("managedBy", None)
        if "WorkloadWithJob" not in ctx.gates and old.get("scheduling") is None:
            spec.pop("scheduling", None)
        drop_disabled_fields(spec["template"], old.get("template"), ctx)

    def validate(self, obj: Job, ctx: Context) -> Sequence[FieldError]:
        return [*self._check(obj, ctx, prefixed=True), *check_scheduling(obj["spec"], None, ctx.gates)]

    def _check(self, obj: Job, ctx: Context, *, prefixed: bool) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        found = _check_generated(obj, prefixed=prefixed)
        found += self._check_spec(spec, ctx)
        if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
            longest = f"{name}-{spec['completions'] - 1}"
            if names.dns1123_label(longest):
                words = f"will not able to create pod with invalid DNS label: {longest}"
                found.append(field.invalid(METADATA.child("name"), name, words))
        return found

    def _check_spec(self, spec: JobSpec, ctx: Context) -> list[FieldError]:
        found = check_spec(spec, SPEC, ctx)
        if spec.get("selector") is None:
            found.append(field.required(SELECTOR))
        else:
            found += checks.label_selector(spec["selector"], SELECTOR)
        wrong, usable = check_selector_matches_template(spec, invalid="", empty_matches=False)
        return found + (wrong if usable else [])

    def warn(self, obj: Job, ctx: Context) -> Sequence[str]:
        found = []
        if messages := names.dns1123_label(obj["metadata"].get("name", "")):
            listed = " ".join(messages)
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{listed}]"
            )
        return [*found, *warn_spec(obj["spec"], SPEC)]

    def warn_update(self, new: Job, old: Job, ctx: Context) -> Sequence[str]:
        return () if generation(new) == generation(old) else warn_spec(new["spec"], SPEC)

    def validate_update(self, new: Job, old: Job, ctx: Context) -> Sequence[FieldError]:
        spec, before = new["spec"], old["spec"]
        old_labels = (before["template"].get("metadata") or {}).get("labels") or {}
        prefixed = _NAME_LABELS[1] in old_labels and _UID_LABELS[1] in old_labels
        found = self._check(new, ctx, prefixed=prefixed)
        found += self._check_spec(spec, ctx)
        found += _check_completions(spec, before)
        found += check_selector_immutable(new, old)
        found += _check_template_kept(spec, old, ctx)
        for part, type_name in _FROZEN:
            found += immutable(spec.get(part), before.get(part), SPEC.child(part), type_name=type_name)
        return [*found, *check_scheduling(spec, before, ctx.gates)]


def _check_completions(spec: JobSpec, before: JobSpec) -> list[FieldError]:
    completions, path = spec.get("completions"), SPEC.child("completions")
    if spec.get("completionMode") != "Indexed":
        return list(immutable(completions, before.get("completions"), path))
    if completions in (None, before.get("completions")) or completions == spec.get("parallelism"):
        return []
    return [field.invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


def _check_template_kept(spec: JobSpec, old: Job, ctx: Context) -> list[FieldError]:
    """The template stays as it is, except for where the pods of a suspended job may go and what they ask for."""
    template, before = spec["template"], old["spec"]["template"]
    status = old.get("status", {})
    suspended, started = bool(old["spec"].get("suspend")), status.get("startTime") is not None
    idle = suspended and not status.get("active") and (not started or is_true(old, "Suspended"))
    movable = (
        idle if "MutableSchedulingDirectivesForSuspendedJobs" in ctx.gates else suspended and not started
    )
    if movable:
        before = _with_scheduling(before, template)
    if suspended and idle and "MutablePodResourcesForSuspendedJobs" in ctx.gates:
        kept = _with_resources(before.get("spec") or {}, template.get("spec") or {})
        if kept == (template.get("spec") or {}):
            return []
        shown = structs.render("core/v1.PodSpec", template.get("spec"), ctx.quirks.release)
        return [field.invalid(SPEC.child("template.spec"), shown, "field is immutable")]
    if template == before:
        return []
    shown = structs.render("core/v1.PodTemplateSpec", template, ctx.quirks.release)
    return [field.invalid(TEMPLATE, shown, "field is immutable")]


def _with_scheduling(before: PodTemplateSpec, template: PodTemplateSpec) -> PodTemplateSpec:
    spec, new = (before.get("spec") or {}).copy(), template.get("spec") or {}
    keep_fields(spec, new, *_SCHEDULING)
    affinity = (spec.pop("affinity", None) or {}).copy()
    affinity.pop("nodeAffinity", None)
    nodes = (new.get("affinity") or {}).get("nodeAffinity")
    if nodes is not None:
        affinity["nodeAffinity"] = nodes
    if affinity or new.get("affinity") is not None:
        spec["affinity"] = affinity
    meta = (before.get("metadata") or {}).copy()
    keep_fields(meta, template.get("metadata") or {}, "labels", "annotations")
    return {**before, "metadata": meta, "spec": spec}


def _with_resources(before: PodSpec, new: PodSpec) -> Mapping[str, Any]:
    kept = dict(before)
    for part in ("containers", "initContainers"):
        old, given = before.get(part) or [], new.get(part) or []
        if old and [c.get("name") for c in old] == [c.get("name") for c in given]:
            kept[part] = [{**a, "resources": b.get("resources", {})} for a, b in zip(old, given, strict=True)]
    return kept


def _state(obj: Job) -> str:
    if is_true(obj, "Complete"):
        return "Complete"
    if is_true(obj, "Failed"):
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if is_true(obj, kind)),
        "Running",
    )


def _cells(obj: Job, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    succeeded, parallel = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    elapsed = ""
    if started := status.get("startTime"):
        end = printers.seconds(status["completionTime"]) if status.get("completionTime") else now
        elapsed = printers.human_duration(end - printers.seconds(started))
    return (
        printers.name(obj),
        _state(obj),
        completions,
        elapsed,
        printers.age(obj, now),
        *template_cells(spec),
        selector_cell(spec),
    )
