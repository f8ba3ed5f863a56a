"""What a Job has come to: finished pods counted by its policies, and the verdict that follows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from dray.controllers.pod_status import pod_condition
from dray.controllers.workloads import owned_pods

if TYPE_CHECKING:
    from dray.api.types.batch import (
        Job,
        JobStatus,
        PodFailurePolicyOnExitCodesRequirement,
        PodFailurePolicyOnPodConditionsPattern,
    )
    from dray.api.types.core import Pod


COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: How often an index has failed before, as its pod remembers it.
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"
INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_FIRST_BACKOFF_SECONDS: Final = 10.0
_MAX_BACKOFF_SECONDS: Final = 600.0


# -- indexes --------------------------------------------------------------------------------------------------------


def is_indexed(job: Job) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def completion_index(pod: Pod) -> int:
    """The index a pod works on; -1 for none."""
    return _annotated(pod, COMPLETION_INDEX, -1)


def index_failure_count(pod: Pod) -> int:
    return _annotated(pod, INDEX_FAILURE_COUNT, 0)


def _annotated(pod: Pod, name: str, otherwise: int) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(name, ""))
    except ValueError:
        return otherwise


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Whether a pod counts: one of an indexed job must work on an index that it has."""
    return not is_indexed(job) or 0 <= completion_index(pod) < (job["spec"].get("completions") or 0)


def parse_indexes(text: str) -> set[int]:
    """``1,3-5,7`` as numbers."""
    found: set[int] = set()
    for part in (text or "").split(","):
        if part:
            low, _, high = part.partition("-")
            found.update(range(int(low), int(high or low) + 1))
    return found


def format_indexes(numbers: Iterable[int]) -> str:
    """The other way round; two neighbours are written one by one."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        low, high = ordered[start], ordered[end]
        parts.append(str(low) if low == high else f"{low}-{high}" if high > low + 1 else f"{low},{high}")
        start = end + 1
    return ",".join(parts)


# -- failures -------------------------------------------------------------------------------------------------------


class PodFailureMatch(NamedTuple):
    """What a pod's failure means, and the words for it if it ends the job."""

    action: str = "Count"  # or Ignore, FailIndex, FailJob
    message: str = ""


def match_pod_failure_policy(job: Job, pod: Pod) -> PodFailureMatch:
    """The first rule of the failure policy that fits a failed pod; others that end early count as failures."""
    if owned_pods.phase(pod) != "Failed":
        return PodFailureMatch()
    who = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    for at, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action = rule["action"]
        if (codes := rule.get("onExitCodes")) is not None:
            fitting = _container(pod, codes)
            if fitting is not None:
                name, code = fitting
                words = f"Container {name} for pod {who} failed with exit code {code}"
                return PodFailureMatch(action, f"{words} matching {action} rule at index {at}")
        elif (patterns := rule.get("onPodConditions")) is not None:
            kind = _condition(pod, patterns)
            if kind is not None:
                return PodFailureMatch(
                    action, f"Pod {who} has condition {kind} matching {action} rule at index {at}"
                )
    return PodFailureMatch()


def _container(pod: Pod, wanted: PodFailurePolicyOnExitCodesRequirement) -> tuple[str, int] | None:
    status = pod.get("status") or {}
    for known in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        code = ((known.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        if code and wanted.get("containerName") in (None, known["name"]):
            listed = code in (wanted.get("values") or ())
            if listed == (wanted["operator"] == "In"):
                return known["name"], code
    return None


def _condition(pod: Pod, patterns: Collection[PodFailurePolicyOnPodConditionsPattern]) -> str | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        for pattern in patterns:
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return condition["type"]
    return None


# -- counting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class JobCounts:
    """What a job has come to so far."""

    succeeded: int = 0
    failed: int = 0
    done: frozenset[int] = frozenset()  # completed indexes
    failed_indexes: frozenset[int] = frozenset()  # failed indexes
    fail_job_message: str = ""  # why the failure policy ends the job

    @classmethod
    def of(cls, job: Job) -> JobCounts:
        """What the status says."""
        status = job.get("status") or {}
        indexes = range(job["spec"].get("completions") or 0)  # it may have been made smaller
        return cls(
            succeeded=status.get("succeeded", 0),
            failed=status.get("failed", 0),
            done=frozenset(parse_indexes(status.get("completedIndexes") or "")).intersection(indexes),
            failed_indexes=frozenset(parse_indexes(status.get("failedIndexes") or "")).intersection(indexes),
        )

    def status(self, job: Job) -> JobStatus:
        """The part of the status that tells it."""
        found: JobStatus = {}
        if self.succeeded:
            found["succeeded"] = self.succeeded
        if self.failed:
            found["failed"] = self.failed
        if is_indexed(job):
            if self.done:
                found["completedIndexes"] = format_indexes(self.done)
            if job["spec"].get("backoffLimitPerIndex") is not None:
                found["failedIndexes"] = format_indexes(self.failed_indexes)
        return found


def counted(job: Job, before: JobCounts, finished: Iterable[Pod]) -> JobCounts:
    """The tally with more pods that have finished, or were deleted before they could."""
    job_counts = before
    per_index: int | None = job["spec"].get("backoffLimitPerIndex")
    for pod in finished:
        index = completion_index(pod)
        if not has_valid_index(job, pod):
            continue
        if owned_pods.phase(pod) == "Succeeded":
            if not is_indexed(job):
                job_counts = replace(job_counts, succeeded=job_counts.succeeded + 1)
            else:
                job_counts = replace(
                    job_counts,
                    done=job_counts.done | {index},
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
        if per_index is not None and over and index not in job_counts.done:
            job_counts = replace(job_counts, failed_indexes=job_counts.failed_indexes | {index})
    return replace(job_counts, succeeded=len(job_counts.done)) if is_indexed(job) else job_counts


# -- verdict --------------------------------------------------------------------------------------------------------


class FinishedCondition(NamedTuple):
    """How a job ends."""

    kind: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def interim_type(self) -> str:
        """The condition that tells it while pods still end."""
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
        if job_counts.failed_indexes and len(job_counts.failed_indexes) + len(job_counts.done) >= (
            wanted or 0
        ):
            return FinishedCondition("Failed", "FailedIndexes", "Job has failed indexes")
    policy = _match_success_policy(job, job_counts)
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
        if owned_pods.phase(pod) in ("Running", "Pending")
        for group in ("initContainerStatuses", "containerStatuses")
        for known in (pod.get("status") or {}).get(group) or ()
    )
    return bool(restarts >= max(spec.get("backoffLimit", 6), 1))


def _match_success_policy(job: Job, job_counts: JobCounts) -> str:
    """The rule of the success policy that is met, in words."""
    for at, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        indexes = rule.get("succeededIndexes")
        done = job_counts.done & parse_indexes(indexes) if indexes is not None else job_counts.done
        needed = rule.get("succeededCount")
        if needed is None:
            needed = len(parse_indexes(indexes or ""))
        if len(done) >= needed:
            return f"Matched rules at index {at}"
    return ""


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
    """The lowest indexes that nobody works on and that are not over."""
    taken = {completion_index(pod) for pod in busy} | job_counts.done | job_counts.failed_indexes
    free = (i for i in range(job["spec"].get("completions") or 0) if i not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


class IndexFailures(NamedTuple):
    """How often an index has failed, and how often that was ignored, by the pod that failed last."""

    counted: int = 0
    ignored: int = 0
    last: float = 0.0

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.counted + self.ignored, self.last)


def index_failures(job: Job, index: int, pods: Iterable[Pod]) -> IndexFailures:
    found = IndexFailures()
    for pod in pods:
        if completion_index(pod) == index and owned_pods.phase(pod) == "Failed":
            ignored = match_pod_failure_policy(job, pod).action == "Ignore"
            counts = (
                index_failure_count(pod) + (not ignored),
                _annotated(pod, INDEX_IGNORED_FAILURE_COUNT, 0) + ignored,
            )
            found = max(found, IndexFailures(*counts, finish_time(pod)))
    return found


class Backoff(NamedTuple):
    """Failures since the last success, and when the last one was."""

    failures: int = 0
    last: float = 0.0

    def after(self, succeeded: Collection[Pod], failed: Collection[Pod]) -> Backoff:
        """With pods that have ended since."""
        if not succeeded:
            times = [finish_time(pod) for pod in failed]
            return Backoff(self.failures + len(times), max(times)) if times else self
        success = max(finish_time(pod) for pod in succeeded)
        later = [moment for moment in map(finish_time, failed) if moment > success]
        return Backoff(len(later), max(later)) if later else Backoff()

    def pause(self, now: float) -> float:
        """How long to wait before another pod is made: ever longer, until a pod succeeds."""
        if not self.failures:
            return 0.0
        return max(
            0.0,
            self.last
            + min(_FIRST_BACKOFF_SECONDS * 2.0 ** (min(self.failures, 7) - 1), _MAX_BACKOFF_SECONDS)
            - now,
        )


def finish_time(pod: Pod) -> float:
    """When a pod's last container ended, or else when it was no longer ready, was deleted, or was made."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    times = [((s.get("state") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    if times and all(times):
        return max(map(owned_pods.seconds, times))
    ready = pod_condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return owned_pods.seconds(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace: int = metadata.get("deletionGracePeriodSeconds", 0)
        return owned_pods.seconds(metadata["deletionTimestamp"]) - grace
    return owned_pods.seconds(metadata.get("creationTimestamp"))
