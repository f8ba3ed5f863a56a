"""Jobs: pods that run to completion."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api import checks, field, internal, names, printing
from dray.api.batch.jobspec import check_spec, count_indexes, default_spec, warn_spec, without_value
from dray.api.core.pod.defaults import default_template
from dray.api.core.podtemplate import codecs, drop_gated
from dray.api.field import FieldError
from dray.api.kinds import Column, Context, Kind, Object, Version
from dray.api.release import Release
from dray.api.selectors import label_selector
from dray.api.strategies import METADATA, SPEC, STATUS, SpecAndStatus, StatusView, generation, immutable
from dray.api.workloads import (
    CONTAINERS,
    IMAGES,
    SELECTOR,
    SELECTOR_COLUMN,
    TEMPLATE,
    check_counts,
    check_selected,
    selector_cell,
    template_cells,
)

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


def kind(release: Release) -> Kind:
    replaces = release.at_least("1.29")

    def default(obj: Object) -> None:
        spec = obj.setdefault("spec", {})
        template = spec.setdefault("template", {})
        default_template(template)
        labels = (template.get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)
        default_spec(spec)
        if replaces and spec.get("podReplacementPolicy") is None:
            failing = spec.get("podFailurePolicy") is not None
            spec["podReplacementPolicy"] = "Failed" if failing else "TerminatingOrFailed"

    version = Version(name="v1", type="batch/v1.Job", default=default, **codecs(release, "spec", "template"))
    return Kind(
        group="batch",
        kind="Job",
        plural="jobs",
        categories=("all",),
        versions=(version,),
        storage="v1",
        rules=JobRules(),
        views={"status": JobStatus()},
        printer=printing.printer(
            (
                printing.NAME,
                Column("Status", description="Whether the job runs, and how it ended."),
                Column("Completions", description="How many pods have succeeded, and how many should."),
                Column("Duration", description="How long the job has run."),
                printing.AGE,
                CONTAINERS,
                IMAGES,
                SELECTOR_COLUMN,
            ),
            _cells,
        ),
        fields={"status.successful": lambda obj: str(obj.get("status", {}).get("succeeded", 0))},
    )


def _generate_selector(obj: Object) -> None:
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
    selector = spec.get("selector") or {}
    wanted = {_UID_LABELS[1]: meta.get("uid", ""), **(selector.get("matchLabels") or {})}
    spec["selector"] = {**selector, "matchLabels": wanted}


def _check_generated(obj: Object, *, prefixed: bool) -> list[FieldError]:
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


class JobRules(SpecAndStatus):
    def prepare_create(self, obj: Object, ctx: Context) -> None:
        spec = obj["spec"]
        if not spec.get("manualSelector"):
            _generate_selector(obj)
        super().prepare_create(obj, ctx)
        self._drop_gated(spec, {}, ctx)

    def prepare_update(self, new: Object, old: Object, ctx: Context) -> None:
        self._drop_gated(new["spec"], old["spec"], ctx)
        super().prepare_update(new, old, ctx)

    def _drop_gated(self, spec: Object, old: Mapping[str, Any], ctx: Context) -> None:
        if "JobManagedBy" not in ctx.gates and old.get("managedBy") is None:
            spec.pop("managedBy", None)
        drop_gated(spec["template"], old.get("template"), ctx)

    def validate(self, obj: Object, ctx: Context) -> Sequence[FieldError]:
        return self._check(obj, ctx, prefixed=True)

    def _check(self, obj: Object, ctx: Context, *, prefixed: bool) -> list[FieldError]:
        spec, name = obj["spec"], obj["metadata"].get("name", "")
        found = _check_generated(obj, prefixed=prefixed)
        found += self._check_spec(spec, ctx)
        if spec.get("completionMode") == "Indexed" and (spec.get("completions") or 0) > 0:
            longest = f"{name}-{spec['completions'] - 1}"
            if names.dns1123_label(longest):
                words = f"will not able to create pod with invalid DNS label: {longest}"
                found.append(field.invalid(METADATA.child("name"), name, words))
        return found

    def _check_spec(self, spec: Mapping[str, Any], ctx: Context) -> list[FieldError]:
        found = check_spec(spec, SPEC, ctx)
        if spec.get("selector") is None:
            found.append(field.required(SELECTOR))
        else:
            found += checks.label_selector(spec["selector"], SELECTOR)
        wrong, usable = check_selected(spec, invalid="", empty_matches=False)
        return found + (wrong if usable else [])

    def warn(self, obj: Object, ctx: Context) -> Sequence[str]:
        found = []
        if messages := names.dns1123_label(obj["metadata"].get("name", "")):
            listed = " ".join(messages)
            found.append(
                "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; "
                f"a DNS label is recommended: [{listed}]"
            )
        return [*found, *warn_spec(obj["spec"], SPEC)]

    def warn_update(self, new: Object, old: Object, ctx: Context) -> Sequence[str]:
        return () if generation(new) == generation(old) else warn_spec(new["spec"], SPEC)

    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        spec, before = new["spec"], old["spec"]
        old_labels = (before["template"].get("metadata") or {}).get("labels") or {}
        prefixed = _NAME_LABELS[1] in old_labels and _UID_LABELS[1] in old_labels
        found = self._check(new, ctx, prefixed=prefixed)
        found += self._check_spec(spec, ctx)
        found += _check_completions(spec, before)
        selectors = spec.get("selector"), before.get("selector")
        found += immutable(*selectors, SELECTOR, type_name="meta/v1.LabelSelector")
        found += _check_template_kept(spec, old, ctx)
        for part, type_name in _FROZEN:
            found += immutable(spec.get(part), before.get(part), SPEC.child(part), type_name=type_name)
        return found


def _check_completions(spec: Mapping[str, Any], before: Mapping[str, Any]) -> list[FieldError]:
    completions, path = spec.get("completions"), SPEC.child("completions")
    if spec.get("completionMode") != "Indexed":
        return list(immutable(completions, before.get("completions"), path))
    if completions in (None, before.get("completions")) or completions == spec.get("parallelism"):
        return []
    return [field.invalid(path, completions, "can only be modified in tandem with spec.parallelism")]


def _true(obj: Mapping[str, Any], kind: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


def _check_template_kept(spec: Mapping[str, Any], old: Object, ctx: Context) -> list[FieldError]:
    """The template stays as it is, except for where the pods of a suspended job may go and what they ask for."""
    template, before = spec["template"], old["spec"]["template"]
    status = old.get("status", {})
    suspended, started = bool(old["spec"].get("suspend")), status.get("startTime") is not None
    idle = suspended and not status.get("active") and (not started or _true(old, "Suspended"))
    movable = (
        idle if "MutableSchedulingDirectivesForSuspendedJobs" in ctx.gates else suspended and not started
    )
    if movable:
        before = _with_scheduling(before, template)
    if suspended and idle and "MutablePodResourcesForSuspendedJobs" in ctx.gates:
        kept = _with_resources(before.get("spec") or {}, template.get("spec") or {})
        if kept == (template.get("spec") or {}):
            return []
        shown = internal.render("core/v1.PodSpec", template.get("spec"))
        return [field.invalid(SPEC.child("template.spec"), shown, "field is immutable")]
    if template == before:
        return []
    shown = internal.render("core/v1.PodTemplateSpec", template)
    return [field.invalid(TEMPLATE, shown, "field is immutable")]


def _with_scheduling(before: Mapping[str, Any], template: Mapping[str, Any]) -> Mapping[str, Any]:
    spec, new = dict(before.get("spec") or {}), template.get("spec") or {}
    for part in _SCHEDULING:
        spec.pop(part, None)
        if part in new:
            spec[part] = new[part]
    affinity = {k: v for k, v in (spec.pop("affinity", None) or {}).items() if k != "nodeAffinity"}
    nodes = (new.get("affinity") or {}).get("nodeAffinity")
    if nodes is not None:
        affinity["nodeAffinity"] = nodes
    if affinity or new.get("affinity") is not None:
        spec["affinity"] = affinity
    meta = {k: v for k, v in (before.get("metadata") or {}).items() if k not in ("labels", "annotations")}
    given = template.get("metadata") or {}
    meta |= {part: given[part] for part in ("labels", "annotations") if part in given}
    return {**before, "metadata": meta, "spec": spec}


def _with_resources(before: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    kept = dict(before)
    for part in ("containers", "initContainers"):
        old, given = before.get(part) or [], new.get(part) or []
        if old and [c.get("name") for c in old] == [c.get("name") for c in given]:
            kept[part] = [{**a, "resources": b.get("resources", {})} for a, b in zip(old, given, strict=True)]
    return kept


class JobStatus(StatusView):
    def validate_update(self, new: Object, old: Object, ctx: Context) -> Sequence[FieldError]:
        status, before = new.get("status", {}), old.get("status", {})
        found = check_counts(status, STATUS, "active", "succeeded", "failed", "ready", "terminating")
        found += _check_uncounted(status)
        if "JobManagedBy" in ctx.gates:
            found += _check_transition(new, old)
            for part in ("failed", "succeeded"):
                scaled = part == "succeeded" and _scales(new["spec"])
                if status.get(part, 0) < before.get(part, 0) and not scaled:
                    words = f"cannot decrease the {part} counter"
                    found.append(field.invalid(STATUS.child(part), status.get(part, 0), words))
        return found


def _scales(spec: Mapping[str, Any]) -> bool:
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _check_uncounted(status: Mapping[str, Any]) -> list[FieldError]:
    found: list[FieldError] = []
    seen: set[str] = set()
    for part in ("succeeded", "failed"):
        path = STATUS.child("uncountedTerminatedPods", part)
        for i, uid in enumerate((status.get("uncountedTerminatedPods") or {}).get(part) or ()):
            if not uid:
                found.append(field.invalid(path.index(i), uid, "must not be empty"))
            elif uid in seen:
                found.append(field.duplicate(path.index(i), uid))
            seen.add(uid)
    return found


def _check_transition(new: Object, old: Object) -> list[FieldError]:
    """A finished job stays finished, and says so consistently. Only what changes is checked."""
    status, before, spec = new.get("status", {}), old.get("status", {}), new["spec"]
    conditions = STATUS.child("conditions")
    complete, failed = _true(new, "Complete"), _true(new, "Failed")
    met, target = _true(new, "SuccessCriteriaMet"), _true(new, "FailureTarget")
    finished = complete or failed
    found: list[FieldError] = []

    def wrong(words: str) -> None:
        found.append(without_value(conditions, words))

    if complete and failed:
        wrong("cannot set Complete=True and Failed=true conditions")
    if complete and target:
        wrong("cannot set Complete=True and FailureTarget=true conditions")
    if complete != _true(old, "Complete") or status.get("completionTime") != before.get("completionTime"):
        path, done = STATUS.child("completionTime"), status.get("completionTime")
        if done is not None and not complete:
            words = "cannot set completionTime when there is no Complete=True condition"
            found.append(field.invalid(path, done, words))
        if done is None and complete:
            found.append(field.required(path, "completionTime is required for Complete jobs"))
        if done is not None and status.get("startTime") is not None and done < status["startTime"]:
            found.append(field.invalid(path, done, "must be equal to or after `startTime`"))
        if done is not None and before.get("completionTime") not in (None, done):
            found.append(field.invalid(path, done, "field is immutable"))
    if failed != _true(old, "Failed") and failed and not target:
        wrong("cannot set Failed=True condition without the FailureTarget=true condition")
    if complete != _true(old, "Complete") and complete and not met:
        wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if finished and finished != (_true(old, "Complete") or _true(old, "Failed")):
        if status.get("active", 0) > 0:
            words = "active>0 is invalid for finished job"
            found.append(field.invalid(STATUS.child("active"), status["active"], words))
        idle = spec.get("suspend") and spec.get("completions") == 0
        if status.get("startTime") is None and not idle:
            found.append(field.required(STATUS.child("startTime"), "startTime is required for finished job"))
    found += _check_indexes(status, before, spec)
    if met and failed:
        wrong("cannot set SuccessCriteriaMet=True and Failed=true conditions")
    if met and target:
        wrong("cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
    for kind_of_end in ("Failed", "Complete", "FailureTarget"):
        if _true(old, kind_of_end) and not _true(new, kind_of_end):
            wrong(f"cannot disable the terminal {kind_of_end}=True condition")
    started, resuming = before.get("startTime"), _true(old, "Suspended") and not _true(new, "Suspended")
    if (
        started is not None
        and started != status.get("startTime")
        and not spec.get("suspend")
        and not resuming
    ):
        words = "field is immutable for unsuspended job once set"
        found.append(field.invalid(STATUS.child("startTime"), status.get("startTime"), words))
    if _true(old, "SuccessCriteriaMet") and not met:
        wrong("cannot disable the SuccessCriteriaMet=True condition")
    return found


def _check_indexes(
    status: Mapping[str, Any], before: Mapping[str, Any], spec: Mapping[str, Any]
) -> list[FieldError]:
    found: list[FieldError] = []
    done, failed = status.get("completedIndexes", ""), status.get("failedIndexes")
    if done != before.get("completedIndexes", ""):
        path = STATUS.child("completedIndexes")
        if spec.get("completions") is not None:
            _, problem = count_indexes(done, spec["completions"])
            if problem:
                found.append(field.invalid(path, done, f"error parsing completedIndexes: {problem}"))
        if done and spec.get("completionMode") != "Indexed":
            words = "cannot set non-empty completedIndexes when non-indexed completion mode"
            found.append(field.invalid(path, done, words))
    if (
        failed != before.get("failedIndexes")
        and failed is not None
        and spec.get("backoffLimitPerIndex") is None
    ):
        words = "cannot set non-null failedIndexes when backoffLimitPerIndex is null"
        found.append(field.invalid(STATUS.child("failedIndexes"), failed, words))
    return found


def _state(obj: Object) -> str:
    if _true(obj, "Complete"):
        return "Complete"
    if _true(obj, "Failed"):
        return "Failed"
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    return next(
        (kind for kind in ("Suspended", "FailureTarget", "SuccessCriteriaMet") if _true(obj, kind)), "Running"
    )


def _cells(obj: Object, now: float) -> Sequence[object]:
    spec, status = obj.get("spec", {}), obj.get("status", {})
    succeeded, parallel = status.get("succeeded", 0), spec.get("parallelism") or 0
    if spec.get("completions") is not None:
        completions = f"{succeeded}/{spec['completions']}"
    else:
        completions = f"{succeeded}/1 of {parallel}" if parallel > 1 else f"{succeeded}/1"
    elapsed = ""
    if started := status.get("startTime"):
        end = printing.seconds(status["completionTime"]) if status.get("completionTime") else now
        elapsed = printing.duration(end - printing.seconds(started))
    return (
        printing.name(obj),
        _state(obj),
        completions,
        elapsed,
        printing.age(obj, now),
        *template_cells(spec),
        selector_cell(spec),
    )
