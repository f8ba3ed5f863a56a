"""How long a Job waits before it creates a pod after failures. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.api.pods import condition as pod_condition
from dray.api.pods import phase
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.job.indexes import (
    INDEX_IGNORED_FAILURE_COUNT,
    annotated_number,
    completion_index,
    index_failure_count,
)
from dray.controllers.workloads.job.pod_failure_policy import match_pod_failure_policy

if TYPE_CHECKING:
    from dray.api.types.batch import (
        Job,
    )
    from dray.api.types.core import Pod


_FIRST_BACKOFF_SECONDS: Final = 10.0


_MAX_BACKOFF_SECONDS: Final = 600.0


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
        if completion_index(pod) == index and phase(pod) == "Failed":
            ignored = match_pod_failure_policy(job, pod).action == "Ignore"
            counts = (
                index_failure_count(pod) + (not ignored),
                annotated_number(pod, INDEX_IGNORED_FAILURE_COUNT, 0) + ignored,
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
