"""What a Job has come to: finished pods counted by its policies, and the verdict that follows. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, NamedTuple

from dray.api.kinds import Object
from dray.controllers.workloads import owning

Document = Mapping[str, Any]

INDEX: Final = "batch.kubernetes.io/job-completion-index"
#: How often an index has failed before, as its pod remembers it.
FAILURES: Final = "batch.kubernetes.io/job-index-failure-count"
IGNORED: Final = "batch.kubernetes.io/job-index-ignored-failure-count"
_BACKOFF: Final = 10.0
_LONGEST: Final = 600.0


# -- indexes --------------------------------------------------------------------------------------------------------


def is_indexed(job: Document) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Document) -> int:
    """The index a pod works on; -1 for none."""
    return _annotated(pod, INDEX, -1)


def failures_of(pod: Document) -> int:
    return _annotated(pod, FAILURES, 0)


def _annotated(pod: Document, name: str, otherwise: int) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(name, ""))
    except ValueError:
        return otherwise


def is_valid(job: Document, pod: Document) -> bool:
    """Whether a pod counts: one of an indexed job must work on an index that it has."""
    return not is_indexed(job) or 0 <= index_of(pod) < (job["spec"].get("completions") or 0)


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

Action = Literal["Count", "Ignore", "FailIndex", "FailJob"]


class Judged(NamedTuple):
    """What a pod's failure means, and the words for it if it ends the job."""

    action: Action = "Count"
    message: str = ""


def judge(job: Document, pod: Document) -> Judged:
    """The first rule of the failure policy that fits a failed pod; others that end early count as failures."""
    if owning.phase(pod) != "Failed":
        return Judged()
    who = f"{pod['metadata'].get('namespace', '')}/{pod['metadata']['name']}"
    for at, rule in enumerate((job["spec"].get("podFailurePolicy") or {}).get("rules") or ()):
        action: Action = rule["action"]
        if (codes := rule.get("onExitCodes")) is not None:
            fitting = _container(pod, codes)
            if fitting is not None:
                name, code = fitting
                words = f"Container {name} for pod {who} failed with exit code {code}"
                return Judged(action, f"{words} matching {action} rule at index {at}")
        elif (patterns := rule.get("onPodConditions")) is not None:
            kind = _condition(pod, patterns)
            if kind is not None:
                return Judged(action, f"Pod {who} has condition {kind} matching {action} rule at index {at}")
    return Judged()


def _container(pod: Document, wanted: Document) -> tuple[str, int] | None:
    status = pod.get("status") or {}
    for known in (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ())):
        code = ((known.get("state") or {}).get("terminated") or {}).get("exitCode", 0)
        if code and wanted.get("containerName") in (None, known["name"]):
            listed = code in (wanted.get("values") or ())
            if listed == (wanted["operator"] == "In"):
                return known["name"], code
    return None


def _condition(pod: Document, patterns: Collection[Document]) -> str | None:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        for pattern in patterns:
            if (condition["type"], condition["status"]) == (pattern["type"], pattern.get("status", "True")):
                return str(condition["type"])
    return None


# -- counting -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """What a job has come to so far."""

    succeeded: int = 0
    failed: int = 0
    done: frozenset[int] = frozenset()  # completed indexes
    given_up: frozenset[int] = frozenset()  # failed indexes
    fatal: str = ""  # why the failure policy ends the job

    @classmethod
    def of(cls, job: Document) -> Tally:
        """What the status says."""
        status = job.get("status") or {}
        indexes = range(job["spec"].get("completions") or 0)  # it may have been made smaller
        return cls(
            succeeded=status.get("succeeded", 0),
            failed=status.get("failed", 0),
            done=frozenset(parse_indexes(status.get("completedIndexes") or "")).intersection(indexes),
            given_up=frozenset(parse_indexes(status.get("failedIndexes") or "")).intersection(indexes),
        )

    def status(self, job: Document) -> Object:
        """The part of the status that tells it."""
        found: Object = {k: v for k, v in (("succeeded", self.succeeded), ("failed", self.failed)) if v}
        if is_indexed(job):
            if self.done:
                found["completedIndexes"] = format_indexes(self.done)
            if job["spec"].get("backoffLimitPerIndex") is not None:
                found["failedIndexes"] = format_indexes(self.given_up)
        return found


def counted(job: Document, before: Tally, finished: Iterable[Document]) -> Tally:
    """The tally with more pods that have finished, or were deleted before they could."""
    tally = before
    per_index: int | None = job["spec"].get("backoffLimitPerIndex")
    for pod in finished:
        index = index_of(pod)
        if not is_valid(job, pod):
            continue
        if owning.phase(pod) == "Succeeded":
            if not is_indexed(job):
                tally = replace(tally, succeeded=tally.succeeded + 1)
            else:
                tally = replace(tally, done=tally.done | {index}, given_up=tally.given_up - {index})
            continue
        judged = judge(job, pod)
        if judged.action == "FailJob":
            tally = replace(tally, fatal=tally.fatal or judged.message)
        if judged.action != "Ignore":
            tally = replace(tally, failed=tally.failed + 1)
        over = judged.action == "FailIndex" or (
            judged.action == "Count" and per_index is not None and failures_of(pod) >= per_index
        )
        if per_index is not None and over and index not in tally.done:
            tally = replace(tally, given_up=tally.given_up | {index})
    return replace(tally, succeeded=len(tally.done)) if is_indexed(job) else tally


# -- verdict --------------------------------------------------------------------------------------------------------


class Verdict(NamedTuple):
    """How a job ends."""

    kind: Literal["Complete", "Failed"]
    reason: str
    message: str

    @property
    def ahead(self) -> str:
        """The condition that tells it while pods still end."""
        return "SuccessCriteriaMet" if self.kind == "Complete" else "FailureTarget"


def earlier_verdict(job: Document) -> Verdict | None:
    """What was decided already."""
    for condition in (job.get("status") or {}).get("conditions") or ():
        if condition["status"] == "True":
            if condition["type"] == "SuccessCriteriaMet":
                return Verdict("Complete", condition.get("reason", ""), condition.get("message", ""))
            if condition["type"] == "FailureTarget":
                return Verdict("Failed", condition.get("reason", ""), condition.get("message", ""))
    return None


def verdict(
    job: Document, tally: Tally, *, active: int, now: float, pods: Collection[Document] = ()
) -> Verdict | None:
    """The end of a job, once it is decided; ``pods`` are looked at for containers that restart too often."""
    spec = job["spec"]
    if tally.fatal:
        return Verdict("Failed", "PodFailurePolicy", tally.fatal)
    if tally.failed > spec.get("backoffLimit", 6) or _restarts_too_often(job, pods):
        return Verdict("Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit")
    started = owning.seconds((job.get("status") or {}).get("startTime"))
    limit = spec.get("activeDeadlineSeconds")
    if limit is not None and started and not spec.get("suspend") and now - started >= limit:
        return Verdict("Failed", "DeadlineExceeded", "Job was active longer than specified deadline")
    wanted: int | None = spec.get("completions")
    if spec.get("backoffLimitPerIndex") is not None:
        most = spec.get("maxFailedIndexes")
        if most is not None and len(tally.given_up) > most:
            words = "Job has exceeded the specified maximal number of failed indexes"
            return Verdict("Failed", "MaxFailedIndexesExceeded", words)
        if tally.given_up and len(tally.given_up) + len(tally.done) >= (wanted or 0):
            return Verdict("Failed", "FailedIndexes", "Job has failed indexes")
    policy = _success_policy(job, tally)
    if policy:
        return Verdict("Complete", "SuccessPolicy", policy)
    complete = tally.succeeded > 0 and not active if wanted is None else tally.succeeded >= wanted
    if complete:
        return Verdict("Complete", "CompletionsReached", "Reached expected number of succeeded pods")
    return None


def _restarts_too_often(job: Document, pods: Collection[Document]) -> bool:
    """Where containers are restarted in place, that is what failing means."""
    spec = job["spec"]
    if spec["template"]["spec"].get("restartPolicy") != "OnFailure":
        return False
    restarts = sum(
        known.get("restartCount", 0)
        for pod in pods
        if owning.phase(pod) in ("Running", "Pending")
        for group in ("initContainerStatuses", "containerStatuses")
        for known in (pod.get("status") or {}).get(group) or ()
    )
    return bool(restarts >= max(spec.get("backoffLimit", 6), 1))


def _success_policy(job: Document, tally: Tally) -> str:
    """The rule of the success policy that is met, in words."""
    for at, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        indexes = rule.get("succeededIndexes")
        done = tally.done & parse_indexes(indexes) if indexes is not None else tally.done
        needed = rule.get("succeededCount")
        if needed is None:
            needed = len(parse_indexes(indexes or ""))
        if len(done) >= needed:
            return f"Matched rules at index {at}"
    return ""


def is_over(job: Document) -> bool:
    return any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True"
        for c in (job.get("status") or {}).get("conditions") or ()
    )


# -- what to run ----------------------------------------------------------------------------------------------------


def replaces_failed_only(job: Document) -> bool:
    """Whether a pod is replaced when it has ended, rather than when it is deleted."""
    spec = job["spec"]
    return bool(spec.get("podReplacementPolicy") == "Failed" or spec.get("podFailurePolicy") is not None)


def wanted_active(job: Document, tally: Tally, *, active: int) -> int:
    """How many pods should run; once one has succeeded, a job without a number of them lets the others finish."""
    spec = job["spec"]
    if spec.get("suspend"):
        return 0
    parallel: int = spec.get("parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return active if tally.succeeded else parallel
    return max(0, min(parallel, completions - tally.succeeded))


def surplus(job: Document, active: Sequence[Document], count: int) -> list[Document]:
    """At least so many pods to give up: first those whose index is not the job's, or is another's."""
    found: list[Document] = []
    left = owning.cheapest_first(active)
    if is_indexed(job):
        kept: dict[int, Document] = {}
        for pod in left:
            if not is_valid(job, pod):
                found.append(pod)
            else:
                if (other := kept.pop(index_of(pod), None)) is not None:
                    found.append(other)  # the dearest comes last
                kept[index_of(pod)] = pod
        left = [pod for pod in left if pod not in found]
    return [*found, *left[: max(0, count - len(found))]]


def free_indexes(job: Document, tally: Tally, busy: Iterable[Document], count: int) -> list[int]:
    """The lowest indexes that nobody works on and that are not over."""
    taken = {index_of(pod) for pod in busy} | tally.done | tally.given_up
    free = (i for i in range(job["spec"].get("completions") or 0) if i not in taken)
    return [index for index, _ in zip(free, range(count), strict=False)]


class Failures(NamedTuple):
    """How often an index has failed, and how often that was ignored, by the pod that failed last."""

    counted: int = 0
    ignored: int = 0
    last: float = 0.0

    @property
    def backoff(self) -> Backoff:
        return Backoff(self.counted + self.ignored, self.last)


def failures_before(job: Document, index: int, pods: Iterable[Document]) -> Failures:
    found = Failures()
    for pod in pods:
        if index_of(pod) == index and owning.phase(pod) == "Failed":
            ignored = judge(job, pod).action == "Ignore"
            counts = failures_of(pod) + (not ignored), _annotated(pod, IGNORED, 0) + ignored
            found = max(found, Failures(*counts, ended(pod)))
    return found


class Backoff(NamedTuple):
    """Failures since the last success, and when the last one was."""

    failures: int = 0
    last: float = 0.0

    def after(self, succeeded: Collection[Document], failed: Collection[Document]) -> Backoff:
        """With pods that have ended since."""
        if not succeeded:
            times = [ended(pod) for pod in failed]
            return Backoff(self.failures + len(times), max(times)) if times else self
        success = max(ended(pod) for pod in succeeded)
        later = [moment for moment in map(ended, failed) if moment > success]
        return Backoff(len(later), max(later)) if later else Backoff()

    def pause(self, now: float) -> float:
        """How long to wait before another pod is made: ever longer, until a pod succeeds."""
        if not self.failures:
            return 0.0
        return max(0.0, self.last + min(_BACKOFF * 2.0 ** (min(self.failures, 7) - 1), _LONGEST) - now)


def ended(pod: Document) -> float:
    """When a pod's last container ended, or else when it was no longer ready, was deleted, or was made."""
    statuses = (pod.get("status") or {}).get("containerStatuses") or ()
    times = [((s.get("state") or {}).get("terminated") or {}).get("finishedAt") for s in statuses]
    if times and all(times):
        return max(map(owning.seconds, times))
    ready = owning.condition(pod, "Ready")
    if ready is not None and ready["status"] == "False" and ready.get("lastTransitionTime"):
        return owning.seconds(ready["lastTransitionTime"])
    metadata = pod["metadata"]
    if metadata.get("deletionTimestamp"):
        grace: int = metadata.get("deletionGracePeriodSeconds", 0)
        return owning.seconds(metadata["deletionTimestamp"]) - grace
    return owning.seconds(metadata.get("creationTimestamp"))
