"""The Job controller: it runs pods until enough of them have succeeded, or too many have failed.

Every finished pod is counted exactly once, even if the controller is stopped at any point: a pod keeps a finalizer until
its uid is in ``uncountedTerminatedPods``, and the uid stays there until the pod has lost the finalizer and the count that
includes it is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dray.api.errors import Conflict, NotFound, StatusError
from dray.api.objects import controller_of
from dray.api.pods import is_active, is_terminal, phase
from dray.api.times import from_epoch
from dray.client.client import PatchType
from dray.client.resources import JOBS, POD_GROUPS, PODS, ObjectKey
from dray.controllers.controller import ControllerContext, for_each
from dray.controllers.workloads import owned_pods
from dray.controllers.workloads.job import backoff, completion, indexes
from dray.controllers.workloads.job.backoff import Backoff, IndexFailures
from dray.controllers.workloads.job.completion import FinishedCondition, JobCounts
from dray.controllers.workloads.job.groups import JobGroups
from dray.controllers.workloads.job.tracking import (
    counts_with_uncounted,
    status_of,
    status_with_uncounted,
    uncounted_terminated_pods,
)
from dray.controllers.workloads.pod_control import PodOwnerController

if TYPE_CHECKING:
    from dray.api.types.batch import Job, JobStatus
    from dray.api.types.core import Container, EnvVar, Pod, PodSpec


FINALIZER: Final = "batch.kubernetes.io/job-tracking"
JOB_CONTROLLER_NAME: Final = "kubernetes.io/job-controller"
_BURST: Final = 500  # pods that are made or deleted before a job is looked at again
_LONGEST_PREFIX: Final = 58


@dataclass(frozen=True, slots=True)
class OrphanPodKey:
    """A pod whose job is gone."""

    namespace: str
    pod: str


# -- decisions ------------------------------------------------------------------------------------------------------


def has_tracking_finalizer(pod: Pod) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def has_ended(job: Job, pod: Pod) -> bool:
    """Finished; or deleted before it could, where the job does not want to wait for how that ends."""
    if is_terminal(pod):
        return True
    return not completion.only_replace_failed_pods(job) and "deletionTimestamp" in pod["metadata"]


def pod_for(
    job: Job, index: int | None = None, failures: IndexFailures | None = None, *, group: str = ""
) -> Pod:
    """A pod of a job; for an indexed one, the pod of an index that has failed so often."""
    wanted = owned_pods.pod_from_template(job["spec"]["template"], JOBS, job)
    if group:
        wanted["spec"] = {**wanted["spec"], "schedulingGroup": {"podGroupName": group}}
    metadata = wanted["metadata"]
    finalizers = metadata.get("finalizers") or ()
    metadata["finalizers"] = [*finalizers, *(() if FINALIZER in finalizers else (FINALIZER,))]
    if index is None:
        return wanted
    name, failures = job["metadata"]["name"], failures or IndexFailures()
    annotations = {**(metadata.get("annotations") or {}), indexes.COMPLETION_INDEX: str(index)}
    if job["spec"].get("backoffLimitPerIndex") is not None:
        annotations[indexes.INDEX_FAILURE_COUNT] = str(failures.counted)
        if failures.ignored:
            annotations[indexes.INDEX_IGNORED_FAILURE_COUNT] = str(failures.ignored)
    metadata["annotations"] = annotations
    metadata["labels"] = {**metadata["labels"], indexes.COMPLETION_INDEX: str(index)}
    ending = f"-{index}-"
    metadata["generateName"] = f"{name[: _LONGEST_PREFIX - len(ending)]}{ending}"
    spec: PodSpec = {**wanted["spec"], "hostname": f"{name}-{index}"}
    path = f"metadata.labels['{indexes.COMPLETION_INDEX}']"
    variable: EnvVar = {"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": path}}}
    if spec.get("initContainers"):
        spec["initContainers"] = [_with_variable(container, variable) for container in spec["initContainers"]]
    if spec.get("containers"):
        spec["containers"] = [_with_variable(container, variable) for container in spec["containers"]]
    return {**wanted, "spec": spec}


def _with_variable(container: Container, variable: EnvVar) -> Container:
    env = container.get("env") or ()
    if any(v["name"] == variable["name"] for v in env):
        return container
    return {**container, "env": [*env, variable]}


# -- the controller -------------------------------------------------------------------------------------------------


class JobController(PodOwnerController["Job", OrphanPodKey]):
    name = "job-controller"
    resource = JOBS
    finalizers = (FINALIZER,)

    def __init__(self, context: ControllerContext) -> None:
        self._written: dict[ObjectKey, Job] = {}  # newer than what is seen, for a moment
        self._released: dict[ObjectKey, set[str]] = {}  # pods that are still seen with their finalizer
        self._backoff: dict[ObjectKey, Backoff] = {}
        super().__init__(context)
        served = context.discovered is None or context.discovered.first_served(POD_GROUPS, ("v1beta1",))
        self._groups = JobGroups(context) if context.quirks.groups_jobs and served else None

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._written.pop(key, None)
        self._released.pop(key, None)
        self._backoff.pop(key, None)

    def _pod_changed(self, pod: Pod, old: Pod | None = None) -> None:
        super()._pod_changed(pod, old)
        key = self._owner_of(pod)
        if key is None:
            return
        if not has_tracking_finalizer(pod):
            self._released.get(key, set()).discard(pod["metadata"]["uid"])
        elif self._is_orphan(pod):
            self.enqueue(OrphanPodKey(key.namespace, pod["metadata"]["name"]))

    def _pod_deleted(self, pod: Pod) -> None:
        super()._pod_deleted(pod)
        key = self._owner_of(pod)
        if key is not None:
            self._released.get(key, set()).discard(pod["metadata"]["uid"])

    def _pod_orphaned(self, pod: Pod) -> None:
        super()._pod_orphaned(pod)
        if has_tracking_finalizer(pod):
            self.enqueue(OrphanPodKey(pod["metadata"]["namespace"], pod["metadata"]["name"]))

    def _is_orphan(self, pod: Pod) -> bool:
        """Whether it has no job, or that is gone; another of the same name is not its own."""
        owner = controller_of(pod)
        if owner is None:
            return True
        if owner["kind"] != "Job":
            return False
        job = self._owners.get(pod["metadata"]["namespace"], owner["name"])
        return job is None or job["metadata"]["uid"] != owner["uid"]

    async def sync(self, key: ObjectKey | OrphanPodKey) -> float | None:
        if isinstance(key, OrphanPodKey):
            await self._release_orphan(key)
            return None
        job = owned_pods.newer_of(self._owners.get(*key), self._written.get(key))
        if job is None or job["spec"].get("managedBy", JOB_CONTROLLER_NAME) != JOB_CONTROLLER_NAME:
            return None
        if completion.is_job_finished(job):
            self._backoff.pop(key, None)
            if self._groups is not None:
                self._groups.forget(job)
            await self._release(key, self._owned_pods(job))
            return await self._delete_after_ttl(key, job)
        return await self._work(key, job, await self._claim(job, self._owned_pods(job)))

    async def _release_orphan(self, key: OrphanPodKey) -> None:
        """Nobody counts the pod any more."""
        pod = self._pods.get(key.namespace, key.pod)
        if pod is not None and has_tracking_finalizer(pod) and self._is_orphan(pod):
            await self._remove_tracking_finalizer(pod)

    async def _work(self, key: ObjectKey, job: Job, pods: list[Pod]) -> float | None:
        now = self.context.clock()
        leaving = "deletionTimestamp" in job["metadata"]
        group = await self._groups.of(job, pods) if self._groups is not None and not leaving else None
        recorded = {uid for uids in uncounted_terminated_pods(job) for uid in uids} | self._released.get(
            key, set()
        )
        tracked = [p for p in pods if has_tracking_finalizer(p) and p["metadata"]["uid"] not in recorded]
        ended = [p for p in tracked if has_ended(job, p) and indexes.has_valid_index(job, p)]
        backoff = self._backoff.get(key, Backoff()).after(*_by_success(ended))
        job_counts = completion.count_finished(job, counts_with_uncounted(job), ended)
        active = [p for p in pods if is_active(p)]
        decided = self._finished_condition(job, job_counts, active=len(active), pods=pods)
        if decided is not None and decided.kind == "Failed":
            # Whatever still runs has failed with the job.
            running = [p for p in tracked if is_active(p) and indexes.has_valid_index(job, p)]
            job_counts = completion.count_finished(job, job_counts, running)
            ended += running
        if ended:
            status = status_with_uncounted(
                job,
                job_counts,
                ended,
                decided,
                from_epoch(now),
                interim=self.context.quirks.adds_interim_job_conditions,
            )
            job = await self._update_status(key, job, status)
            self._backoff[key] = backoff
        wait: float | None = None
        problem: StatusError | None = None
        managed = False
        try:
            if decided is not None:
                await for_each(active, lambda pod: self._delete_pod(key, job, pod))
                await self._release(key, pods)
            else:
                await self._release(key, pods if leaving else [p for p in pods if has_ended(job, p)])
                managed = not leaving and self._expected.satisfied(key, self._owned_pods(job))
                if managed:
                    name = group["metadata"]["name"] if group is not None else ""
                    wait = await self._fill(key, job, job_counts, active, pods, group=name)
        except Conflict:
            raise
        except StatusError as failed:
            problem = failed
        await self._report(key, job, job_counts, decided, managed=managed)
        if problem is not None:
            raise problem
        return _sooner(wait, self._deadline(job, now) if decided is None else None)

    def _finished_condition(
        self, job: Job, job_counts: JobCounts, *, active: int, pods: list[Pod]
    ) -> FinishedCondition | None:
        found = completion.interim_finished_condition(job) or completion.finished_condition(
            job, job_counts, active=active, now=self.context.clock(), pods=pods
        )
        if found is not None and found.reason == "CompletionsReached":
            return (
                found
                if self.context.quirks.gives_reason_for_completion
                else FinishedCondition("Complete", "", "")
            )
        return found

    async def _update_status(self, key: ObjectKey, owner: Job, status: JobStatus) -> Job:
        written = await super()._update_status(key, owner, status)
        if written is not owner:
            self._written[key] = written
        return written

    def _deadline(self, job: Job, now: float) -> float | None:
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is None or job["spec"].get("suspend"):
            return None
        started = (job.get("status") or {}).get("startTime")
        return max(owned_pods.seconds(started) + limit - now, 0.0) if started else float(limit)

    # -- pods

    async def _release(self, key: ObjectKey, pods: Iterable[Pod]) -> None:
        released = self._released.setdefault(key, set())
        waiting = [p for p in pods if has_tracking_finalizer(p) and p["metadata"]["uid"] not in released]

        async def one(pod: Pod) -> None:
            released.add(pod["metadata"]["uid"])
            try:
                await self._remove_tracking_finalizer(pod)
            except StatusError:
                released.discard(pod["metadata"]["uid"])
                raise

        await for_each(waiting, one)

    async def _remove_tracking_finalizer(self, pod: Pod) -> None:
        metadata = pod["metadata"]
        with contextlib.suppress(NotFound):
            await self.context.client.patch(
                PODS,
                metadata["namespace"],
                metadata["name"],
                {"metadata": {"uid": metadata["uid"], "$deleteFromPrimitiveList/finalizers": [FINALIZER]}},
                type=PatchType.STRATEGIC,
            )

    async def _fill(
        self,
        key: ObjectKey,
        job: Job,
        job_counts: JobCounts,
        active: list[Pod],
        pods: list[Pod],
        *,
        group: str,
    ) -> float | None:
        """Make or delete pods; returns when to come again if failures have to be waited out."""
        missing = completion.wanted_active(job, job_counts, active=len(active)) - len(active)
        surplus = completion.active_pods_for_removal(job, active, max(0, -missing))[:_BURST]
        if surplus:
            await self._release(key, surplus)  # those are not failures
            await for_each(surplus, lambda pod: self._delete_pod(key, job, pod))
            return None
        busy = list(active)
        if completion.only_replace_failed_pods(job):
            terminating = [p for p in pods if owned_pods.is_terminating(p)]
            busy += terminating
            missing -= len(terminating)
        if missing <= 0:
            return None
        now = self.context.clock()
        per_index = job["spec"].get("backoffLimitPerIndex") is not None
        pause = self._backoff.get(key, Backoff()).pause(now)
        if pause > 0 and not per_index:
            return pause
        if not indexes.is_indexed(job):
            await owned_pods.slow_start_batch(
                min(missing, _BURST), lambda: self._create_pod(key, job, pod_for(job, group=group))
            )
            return None
        free = completion.first_pending_indexes(job, job_counts, busy, min(missing, _BURST))
        numbers = [(i, backoff.index_failures(job, i, pods)) for i in free]
        if per_index:
            pauses = {i: failures.backoff.pause(now) for i, failures in numbers}
            if pauses and all(pauses.values()):
                return min(pauses.values())
            numbers = [number for number in numbers if not pauses[number[0]]]
        each = iter(numbers)
        await owned_pods.slow_start_batch(
            len(numbers), lambda: self._create_pod(key, job, pod_for(job, *next(each), group=group))
        )
        return None

    # -- status

    async def _report(
        self,
        key: ObjectKey,
        job: Job,
        job_counts: JobCounts,
        decided: FinishedCondition | None,
        *,
        managed: bool,
    ) -> None:
        made, deleted = self._expected.unobserved(key)
        status = status_of(
            job,
            job_counts,
            self._owned_pods(job),
            decided,
            now=self.context.clock(),
            interim=self.context.quirks.adds_interim_job_conditions,
            after_last_pod=self.context.quirks.finishes_jobs_after_last_pod,
            managed=managed,
            clears_start_time=self.context.quirks.clears_start_time_on_suspend,
            made=made,
            deleted=deleted,
        )
        before = {c["type"]: c["status"] for c in (job.get("status") or {}).get("conditions") or ()}
        job = await self._update_status(key, job, status)
        for condition in status.get("conditions") or ():
            if before.get(condition["type"]) == condition["status"]:
                continue
            if condition["type"] == "Suspended":
                word = "Suspended" if condition["status"] == "True" else "Resumed"
                self._record_event(job, "Normal", word, condition["message"])
            elif condition["type"] == "Complete":
                wanted: int | None = job["spec"].get("completions")
                if wanted is not None and job_counts.succeeded > wanted:
                    message = "Too many succeeded pods running after completion count reached"
                    self._record_event(job, "Warning", "TooManySucceededPods", message)
                self._record_event(job, "Normal", "Completed", "Job completed")
            elif condition["type"] == "Failed":
                reason, message = condition["reason"], condition["message"]
                self._record_event(job, "Warning", reason, message)

    async def _delete_after_ttl(self, key: ObjectKey, job: Job) -> float | None:
        """A finished job with a time to live is deleted when that is over."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job["metadata"] or not completion.is_job_finished(job):
            return None
        ended = max(
            owned_pods.seconds(c["lastTransitionTime"])
            for c in job["status"]["conditions"]
            if c["type"] in ("Complete", "Failed") and c["status"] == "True"
        )
        left = float(ended + ttl - self.context.clock())
        if left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self.context.client.delete(
                JOBS, key.namespace, key.name, uid=job["metadata"]["uid"], propagation="Foreground"
            )
        return None


def _by_success(pods: Iterable[Pod]) -> tuple[list[Pod], list[Pod]]:
    listed = list(pods)
    succeeded = [p for p in listed if phase(p) == "Succeeded"]
    return succeeded, [p for p in listed if phase(p) != "Succeeded"]


def _sooner(a: float | None, b: float | None) -> float | None:
    return min((x for x in (a, b) if x is not None), default=None)
