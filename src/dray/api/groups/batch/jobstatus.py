"""What a job may say about itself: it counts its pods, and ends once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.groups.apps.workload import check_counts
from dray.api.groups.batch.jobspec import count_indexes, without_value
from dray.api.scheme.strategy import STATUS, Context, StatusStrategy
from dray.api.validation import field
from dray.api.validation.field import FieldError

if TYPE_CHECKING:
    from dray.api.types.batch import Job, JobSpec, JobStatus


def is_true(obj: Job, kind: str) -> bool:
    conditions = obj.get("status", {}).get("conditions") or ()
    return any(c.get("type") == kind and c.get("status") == "True" for c in conditions)


class JobStatusStrategy(StatusStrategy["Job"]):
    def validate_update(self, new: Job, old: Job, ctx: Context) -> Sequence[FieldError]:
        status, before = new.get("status", {}), old.get("status", {})
        found = check_counts(status, STATUS, "active", "succeeded", "failed", "ready", "terminating")
        found += _check_uncounted(status)
        if "JobManagedBy" in ctx.gates:
            found += _check_transition(new, old)
            for part in ("failed", "succeeded"):
                scaled = part == "succeeded" and is_elastic_indexed_job(new["spec"])
                if status.get(part, 0) < before.get(part, 0) and not scaled:
                    words = f"cannot decrease the {part} counter"
                    found.append(field.invalid(STATUS.child(part), status.get(part, 0), words))
        return found


def is_elastic_indexed_job(spec: JobSpec) -> bool:
    return spec.get("completionMode") == "Indexed" and spec.get("completions") == spec.get("parallelism")


def _check_uncounted(status: JobStatus) -> list[FieldError]:
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


def _check_transition(new: Job, old: Job) -> list[FieldError]:
    """A finished job stays finished, and says so consistently. Only what changes is checked."""
    status, before, spec = new.get("status", {}), old.get("status", {}), new["spec"]
    conditions = STATUS.child("conditions")
    complete, failed = is_true(new, "Complete"), is_true(new, "Failed")
    met, target = is_true(new, "SuccessCriteriaMet"), is_true(new, "FailureTarget")
    finished = complete or failed
    found: list[FieldError] = []

    def wrong(words: str) -> None:
        found.append(without_value(conditions, words))

    if complete and failed:
        wrong("cannot set Complete=True and Failed=true conditions")
    if complete and target:
        wrong("cannot set Complete=True and FailureTarget=true conditions")
    if complete != is_true(old, "Complete") or status.get("completionTime") != before.get("completionTime"):
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
    if failed != is_true(old, "Failed") and failed and not target:
        wrong("cannot set Failed=True condition without the FailureTarget=true condition")
    if complete != is_true(old, "Complete") and complete and not met:
        wrong("cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
    if finished and finished != (is_true(old, "Complete") or is_true(old, "Failed")):
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
        if is_true(old, kind_of_end) and not is_true(new, kind_of_end):
            wrong(f"cannot disable the terminal {kind_of_end}=True condition")
    started, resuming = before.get("startTime"), is_true(old, "Suspended") and not is_true(new, "Suspended")
    if (
        started is not None
        and started != status.get("startTime")
        and not spec.get("suspend")
        and not resuming
    ):
        words = "field is immutable for unsuspended job once set"
        found.append(field.invalid(STATUS.child("startTime"), status.get("startTime"), words))
    if is_true(old, "SuccessCriteriaMet") and not met:
        wrong("cannot disable the SuccessCriteriaMet=True condition")
    return found


def _check_indexes(status: JobStatus, before: JobStatus, spec: JobSpec) -> list[FieldError]:
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
