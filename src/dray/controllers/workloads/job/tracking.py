"""The status of a Job: uncounted terminated pods, counts, and conditions. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.api.pods import is_active, is_ready, phase
from dray.api.times import from_epoch
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.job import indexes, pod_failure_policy
from dray.controllers.workloads.job.completion import FinishedCondition, JobCounts

if TYPE_CHECKING:
    from dray.api.types.batch import Job, JobCondition, JobStatus, UncountedTerminatedPods
    from dray.api.types.core import Pod


class UncountedPods(NamedTuple):
    """The uids of ended pods that are to be counted."""

    succeeded: list[str]
    failed: list[str]


def uncounted_terminated_pods(job: Job) -> UncountedPods:
    uncounted = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    return UncountedPods(list(uncounted.get("succeeded") or ()), list(uncounted.get("failed") or ()))


def counts_with_uncounted(job: Job) -> JobCounts:
    """What a job has come to with the pods on record."""
    job_counts, recorded = JobCounts.of(job), uncounted_terminated_pods(job)
    succeeded = (
        job_counts.succeeded if indexes.is_indexed(job) else job_counts.succeeded + len(recorded.succeeded)
    )
    return JobCounts(
        succeeded,
        job_counts.failed + len(recorded.failed),
        job_counts.completed_indexes,
        job_counts.failed_indexes,
    )


def status_with_uncounted(
    job: Job,
    job_counts: JobCounts,
    ended: Iterable[Pod],
    decided: FinishedCondition | None,
    now: str,
    *,
    interim: bool = True,
) -> JobStatus:
    """The status that puts ended pods on record; the numbers still leave them out."""
    recorded = uncounted_terminated_pods(job)
    for pod in ended:
        if phase(pod) == "Succeeded":
            if not indexes.is_indexed(job):  # an index is done but once
                recorded.succeeded.append(pod["metadata"]["uid"])
        elif pod_failure_policy.match_pod_failure_policy(job, pod).action != "Ignore":
            recorded.failed.append(pod["metadata"]["uid"])
    status: JobStatus = {**(job.get("status") or {})}
    counts = job_counts.status(job)
    if "completedIndexes" in counts:
        status["completedIndexes"] = counts["completedIndexes"]
    if "failedIndexes" in counts:
        status["failedIndexes"] = counts["failedIndexes"]
    uncounted: UncountedTerminatedPods = {}
    if recorded.succeeded:
        uncounted["succeeded"] = recorded.succeeded
    if recorded.failed:
        uncounted["failed"] = recorded.failed
    status["uncountedTerminatedPods"] = uncounted
    if decided is not None and _adds_interim_condition(decided, interim=interim):
        status["conditions"] = _with_condition(
            status.get("conditions") or (), decided.interim_type, decided, now
        )
    return status


def _adds_interim_condition(decided: FinishedCondition, *, interim: bool) -> bool:
    """Whether a condition says how the job will end while its pods still run; policies always say it."""
    return interim or decided.reason in ("PodFailurePolicy", "SuccessPolicy")


def _with_condition(
    conditions: Sequence[JobCondition], kind: str, decided: FinishedCondition, now: str
) -> list[JobCondition]:
    if any(c["type"] == kind for c in conditions):
        return list(conditions)
    return [*conditions, _condition(kind, "True", decided.reason, decided.message, now)]


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> JobCondition:
    made: JobCondition = {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now}
    if reason:
        made["reason"] = reason
    if message:
        made["message"] = message
    return made


def _with_suspension(job: Job, status: JobStatus, now: str, *, clears_start_time: bool) -> JobStatus:
    """Whether the job is suspended, said where it is or was; a job's time starts when it may run."""
    suspended = bool(job["spec"].get("suspend"))
    conditions = list(status.get("conditions") or ())
    at = next((i for i, c in enumerate(conditions) if c["type"] == "Suspended"), None)
    if suspended == (at is not None and conditions[at]["status"] == "True"):
        return status
    words = ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
    suspension = _condition("Suspended", *words, now)
    if at is None:
        conditions.append(suspension)
    else:
        conditions[at] = suspension
    status = {**status, "conditions": conditions}
    if not suspended:
        status["startTime"] = now
    elif clears_start_time:
        status.pop("startTime", None)
    return status


def status_of(
    job: Job,
    job_counts: JobCounts,
    pods: Collection[Pod],
    decided: FinishedCondition | None,
    *,
    now: float,
    interim: bool = True,
    after_last_pod: bool = True,
    managed: bool = True,
    clears_start_time: bool = True,
    made: Collection[str] = (),
    deleted: Collection[str] = (),
) -> JobStatus:
    """The whole status once every ended pod is released and can be counted.

    Pods that were ``made`` or ``deleted`` just now count as such before they are seen so.
    With ``interim`` a condition says how the job will end before it is finished, and ``after_last_pod`` it is finished
    when its terminating pods are gone. ``clears_start_time`` is for a job that is suspended. The status of a job that is
    not ``managed`` at present does not say whether it is suspended.
    """
    moment = from_epoch(now)
    status: JobStatus = {**(job.get("status") or {})}
    status.pop("active", None)
    status.pop("ready", None)
    status.pop("terminating", None)
    status.pop("uncountedTerminatedPods", None)
    status.update(job_counts.status(job))
    status["uncountedTerminatedPods"] = {}
    running = [p for p in pods if is_active(p)]
    staying = [p for p in running if p["metadata"]["uid"] not in deleted]
    leaving = len(running) - len(staying) + sum(1 for p in pods if owned_pods.is_terminating(p))
    active = len(staying) + len(set(made) - {p["metadata"]["uid"] for p in pods})
    if active:
        status["active"] = active
    status["ready"] = sum(1 for p in staying if is_ready(p))
    status["terminating"] = leaving
    if not status.get("startTime") and not job["spec"].get("suspend"):
        status["startTime"] = moment
    if decided is None:
        return (
            _with_suspension(job, status, moment, clears_start_time=clears_start_time) if managed else status
        )
    conditions = status.get("conditions") or ()
    if _adds_interim_condition(decided, interim=interim):
        conditions = _with_condition(conditions, decided.interim_type, decided, moment)
    if not active and not (after_last_pod and leaving):
        conditions = _with_condition(conditions, decided.kind, decided, moment)
        if decided.kind == "Complete":
            status["completionTime"] = moment
    return {**status, "conditions": conditions} if conditions else status
