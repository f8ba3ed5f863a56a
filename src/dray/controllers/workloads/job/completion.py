"""How far a Job has come: finished pods counted by its policies, how it ends, and which pods it needs. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

from dray.api.pods import phase
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.job.indexes import (
    completion_index,
    format_indexes,
    has_valid_index,
    index_failure_count,
    is_indexed,
    parse_indexes,
)
from dray.controllers.workloads.job.pod_failure_policy import match_pod_failure_policy
from dray.controllers.workloads.job.success_policy import match_success_policy

if TYPE_CHECKING:
    from dray.api.types.batch import (
        Job,
        JobStatus,
    )
    from dray.api.types.core import Pod


# -- failures -------------------------------------------------------------------------------------------------------


# -- counting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobCounts:
    """What a job has come to so far."""

    succeeded: int = 0
    failed: int = 0
    completed_indexes: frozenset[int] = frozenset()
    failed_indexes: frozenset[int] = frozenset()
    fail_job_message: str = ""  # why the failure policy ends the job

    @classmethod
    def of(cls, job: Job) -> JobCounts:
        """What the status says."""
        status = job.get("status") or {}
        indexes = range(job["spec"].get("completions") or 0)  # it may have been made smaller
        return cls(
            succeeded=status.get("succeeded", 0),
            failed=status.get("failed", 0),
            completed_indexes=frozenset(parse_indexes(status.get("completedIndexes") or "")).intersection(
                indexes
            ),
            failed_indexes=frozenset(parse_indexes(status.get("failedIndexes") or "")).intersection(indexes),
        )

    def status(self, job: Job) -> JobStatus:
        """The counts as part of the status."""
        found: JobStatus = {}
        if self.succeeded:
            found["succeeded"] = self.succeeded
        if self.failed:
            found["failed"] = self.failed
        if is_indexed(job):
            if self.completed_indexes:
                found["completedIndexes"] = format_indexes(self.completed_indexes)
            if job["spec"].get("backoffLimitPerIndex") is not None:
                found["failedIndexes"] = format_indexes(self.failed_indexes)
        return found


def count_finished(job: Job, before: JobCounts, finished: Iterable[Pod]) -> JobCounts:
    """The counts with more pods that have finished, or were deleted before they could."""
    job_counts = before
    per_index: int | None = job["spec"].get("backoffLimitPerIndex")
    for pod in finished:
        index = completion_index(pod)
        if not has_valid_index(job, pod):
            continue
        if phase(pod) == "Succeeded":
            if not is_indexed(job):
                job_counts = replace(job_counts, succeeded=job_counts.succeeded + 1)
            else:
                job_counts = replace(
                    job_counts,
                    completed_indexes=job_counts.completed_indexes | {index},
                    failed_indexes=job_counts.failed_indexes - {index},
                )
            continue
        judged = match_pod_failure_policy(job, pod)
        if judged.action == "FailJob":
            job_counts = replace(job_counts, fail_job_message=job_counts.fail_job_message or judged.message)
        if judged.action != "Ignore":
            job_counts = replace(job_counts, failed=job_counts.failed + 1)
        over = judged.action == "FailIndex" or (
            judged.action == "Count" and per_index is not None and index_failure_count(pod) >= per_index
        )
        if per_index is not None and over and index not in job_counts.completed_indexes:
            job_counts = replace(job_counts, failed_indexes=job_counts.failed_indexes | {index})
    return replace(job_counts, succeeded=len(job_counts.completed_indexes)) if is_indexed(job) else job_counts


# -- verdict --------------------------------------------------------------------------------------------------------


class FinishedCondition(NamedTuple):
    """How a job ends."""

    kind: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def interim_type(self) -> str:
        """The condition that says so while pods are still terminating."""
        return "SuccessCriteriaMet" if self.kind == "Complete" else "FailureTarget"


def interim_finished_condition(job: Job) -> FinishedCondition | None:
    """What was decided already."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True":
            if condition["type"] == "SuccessCriteriaMet":
                return FinishedCondition(
                    "Complete", condition.get("reason", ""), condition.get("message", "")
                )
            if condition["type"] == "FailureTarget":
                return FinishedCondition("Failed", condition.get("reason", ""), condition.get("message", ""))
    return None


def finished_condition(
    job: Job, job_counts: JobCounts, *, active: int, now: float, pods: Collection[Pod] = ()
) -> FinishedCondition | None:
    """The end of a job, once it is decided; ``pods`` are looked at for containers that restart too often."""
    spec = job["spec"]
    if job_counts.fail_job_message:
        return FinishedCondition("Failed", "PodFailurePolicy", job_counts.fail_job_message)
    if job_counts.failed > spec.get("backoffLimit", 6) or _restarts_too_often(job, pods):
        return FinishedCondition(
            "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
        )
    started = owned_pods.seconds((job.get("status") or {}).get("startTime"))
    limit = spec.get("activeDeadlineSeconds")
    if limit is not None and started and not spec.get("suspend") and now - started >= limit:
        return FinishedCondition(
            "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
        )
    wanted: int | None = spec.get("completions")
    if spec.get("backoffLimitPerIndex") is not None:
        most = spec.get("maxFailedIndexes")
        if most is not None and len(job_counts.failed_indexes) > most:
            words = "Job has exceeded the specified maximal number of failed indexes"
            return FinishedCondition("Failed", "MaxFailedIndexesExceeded", words)
        if job_counts.failed_indexes and len(job_counts.failed_indexes) + len(
            job_counts.completed_indexes
        ) >= (wanted or 0):
            return FinishedCondition("Failed", "FailedIndexes", "Job has failed indexes")
    policy = match_success_policy(job, job_counts.completed_indexes)
    if policy:
        return FinishedCondition("Complete", "SuccessPolicy", policy)
    complete = job_counts.succeeded > 0 and not active if wanted is None else job_counts.succeeded >= wanted
    if complete:
        return FinishedCondition(
            "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
        )
    return None


def _restarts_too_often(job: Job, pods: Collection[Pod]) -> bool:
    """Where containers are restarted in place, that is what failing means."""
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        known.get("restartCount", 0)
        for pod in pods
        if phase(pod) in ("Running", "Pending")
        for group in ("initContainerStatuses", "containerStatuses")
        for known in (pod.get("status") or {}).get(group) or ()
    )
    return bool(restarts >= max(spec.get("backoffLimit", 6), 1))


def has_condition(job: Job, *kinds: str) -> bool:
    """Whether a condition of one of these types is true."""
    return any(
        c["type"] in kinds and c["status"] == "True"
        for c in (job.get("status") or {}).get("conditions") or ()
    )


def is_job_finished(job: Job) -> bool:
    return has_condition(job, "Complete", "Failed")


# -- what to run ----------------------------------------------------------------------------------------------------


def only_replace_failed_pods(job: Job) -> bool:
    """Whether a pod is replaced when it has ended, rather than when it is deleted."""
    spec = job["spec"]
    return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None)


def wanted_active(job: Job, job_counts: JobCounts, *, active: int) -> int:
    """How many pods should run; once one has succeeded, a job without a number of them lets the others finish."""
    spec = job["spec"]
    if spec.get("suspend"):
        return 0
    parallel: int = spec.get("parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return active if job_counts.succeeded else parallel
    return max(0, min(parallel, completions - job_counts.succeeded))


def active_pods_for_removal(job: Job, active: Sequence[Pod], count: int) -> list[Pod]:
    """At least so many pods to give up: first those whose index is not the job's, or is another's."""
    found: list[Pod] = []
    left = owned_pods.ranked_for_deletion(active)
    if is_indexed(job):
        kept: dict[int, Pod] = {}
        for pod in left:
            if not has_valid_index(job, pod):
                found.append(pod)
            else:
                if (other := kept.pop(completion_index(pod), None)) is not None:
                    found.append(other)  # the dearest comes last
                kept[completion_index(pod)] = pod
        left = [pod for pod in left if pod not in found]
    return [*found, *left[: max(0, count - len(found))]]


def first_pending_indexes(job: Job, job_counts: JobCounts, busy: Iterable[Pod], count: int) -> list[int]:
    """The lowest indexes that no pod works on and that have neither completed nor failed."""
    taken = {completion_index(pod) for pod in busy} | job_counts.completed_indexes | job_counts.failed_indexes
    free = (i for i in range(job["spec"].get("completions") or 0) if i not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]
