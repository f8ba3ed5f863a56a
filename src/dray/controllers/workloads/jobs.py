"""Jobs: run pods until enough of them have succeeded, or too many have failed.

Every finished pod is counted exactly once, whenever the controller is stopped: a pod carries a finalizer until its uid
is on record in the status, and the uid stays there until the pod is released and the number that counts it is stored.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dray.api.claims import controller_of
from dray.api.errors import NotFound, StatusError
from dray.api.kinds import Object
from dray.client.resources import JOBS, PODS, ObjectKey
from dray.controllers.framework import Kit, for_each
from dray.controllers.workloads import owning, tallying
from dray.controllers.workloads.keeping import PodKeeper
from dray.controllers.workloads.tallying import Tally, Verdict

Document = Mapping[str, Any]
FINALIZER: Final = "batch.kubernetes.io/job-tracking"
MANAGER: Final = "kubernetes.io/job-controller"


@dataclass(frozen=True, slots=True)
class Lost:
    """A pod whose job is gone."""

    namespace: str
    pod: str


# -- decisions ------------------------------------------------------------------------------------------------------


def is_tracked(pod: Document) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def has_ended(job: Document, pod: Document) -> bool:
    """Finished; or deleted before it could, where the job does not want to wait for how that ends."""
    if owning.is_finished(pod):
        return True
    policy = job["spec"].get("podReplacementPolicy") or (
        "Failed" if job["spec"].get("podFailurePolicy") else "TerminatingOrFailed"
    )
    return policy != "Failed" and "deletionTimestamp" in pod["metadata"]


def on_record(job: Document) -> dict[str, list[str]]:
    """The uids of pods that are to be counted, by how they ended."""
    uncounted = (job.get("status") or {}).get("uncountedTerminatedPods") or {}
    return {kind: list(uncounted.get(kind) or ()) for kind in ("succeeded", "failed")}


def so_far(job: Document) -> Tally:
    """What a job has come to with the pods on record."""
    tally, recorded = Tally.of(job), on_record(job)
    succeeded = tally.succeeded if tallying.is_indexed(job) else tally.succeeded + len(recorded["succeeded"])
    return Tally(succeeded, tally.failed + len(recorded["failed"]), tally.done, tally.given_up)


def with_record(
    job: Document, tally: Tally, ended: Iterable[Document], decided: Verdict | None, now: str
) -> Object:
    """The status that puts ended pods on record; the numbers still leave them out."""
    recorded = on_record(job)
    for pod in ended:
        if owning.phase(pod) == "Succeeded":
            recorded["succeeded"].append(pod["metadata"]["uid"])
        elif tallying.judge(job, pod).action != "Ignore":
            recorded["failed"].append(pod["metadata"]["uid"])
    status = dict(job.get("status") or {})
    indexes = {k: v for k, v in tally.status(job).items() if k.endswith("Indexes")}
    status |= indexes | {"uncountedTerminatedPods": {k: v for k, v in recorded.items() if v}}
    if decided is not None:
        status["conditions"] = _with(status.get("conditions") or (), decided.ahead, decided, now)
    return status


def _with(conditions: Sequence[Object], kind: str, decided: Verdict, now: str) -> list[Object]:
    if any(c["type"] == kind for c in conditions):
        return list(conditions)
    return [*conditions, _condition(kind, "True", decided.reason, decided.message, now)]


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now, "reason": reason,
        "message": message,
    }  # fmt: skip


def _with_suspension(job: Document, status: Object, now: str) -> Object:
    """Whether the job is suspended, said where it is or was; a job's time starts when it may run."""
    suspended = bool(job["spec"].get("suspend"))
    conditions = list(status.get("conditions") or ())
    known = next((c for c in conditions if c["type"] == "Suspended"), None)
    if suspended != (known is not None and known["status"] == "True"):
        words = (
            ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
        )
        rest = [c for c in conditions if c["type"] != "Suspended"]
        status = {**status, "conditions": [*rest, _condition("Suspended", *words, now)]}
    if suspended:
        return {k: v for k, v in status.items() if k != "startTime"}
    return status if status.get("startTime") else {**status, "startTime": now}


def status_of(
    job: Document, tally: Tally, pods: Collection[Document], decided: Verdict | None, *, now: float
) -> Object:
    """The whole status once every ended pod is released and can be counted."""
    moment = owning.timestamp(now)
    known = job.get("status") or {}
    counts = ("active", "ready", "terminating", "uncountedTerminatedPods")
    status: Object = {k: v for k, v in known.items() if k not in counts}
    status |= tally.status(job)
    status["uncountedTerminatedPods"] = {}
    active = [p for p in pods if owning.is_active(p)]
    leaving = [p for p in pods if not owning.is_finished(p) and not owning.is_active(p)]
    if active:
        status["active"] = len(active)
    status["ready"] = sum(1 for p in active if owning.is_ready(p))
    status["terminating"] = len(leaving)
    status = _with_suspension(job, status, moment)
    if decided is None:
        return status
    conditions = _with(status.get("conditions") or (), decided.ahead, decided, moment)
    if not active and not leaving:
        conditions = _with(conditions, decided.kind, decided, moment)
        if decided.kind == "Complete":
            status["completionTime"] = moment
    return {**status, "conditions": conditions}


def pod_for(job: Document, index: int | None = None, failures: int = 0) -> Object:
    """A pod of a job; for an indexed one, the pod of an index that has failed so often."""
    wanted = owning.pod_from(job["spec"]["template"], JOBS, job)
    metadata = wanted["metadata"]
    metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
    if index is None:
        return wanted
    name = job["metadata"]["name"]
    metadata["annotations"] = {**(metadata.get("annotations") or {}), tallying.INDEX: str(index)}
    if job["spec"].get("backoffLimitPerIndex") is not None:
        metadata["annotations"][tallying.FAILURES] = str(failures)
    metadata["labels"] = {**metadata["labels"], tallying.INDEX: str(index)}
    metadata["generateName"] = f"{name}-{index}-"
    spec = dict(wanted["spec"])
    spec["hostname"] = spec.get("hostname") or f"{name}-{index}"
    source = {"fieldRef": {"fieldPath": f"metadata.labels['{tallying.INDEX}']"}}
    variable = {"name": "JOB_COMPLETION_INDEX", "valueFrom": source}
    for group in ("initContainers", "containers"):
        if spec.get(group):
            spec[group] = [_knowing(container, variable) for container in spec[group]]
    return {**wanted, "spec": spec}


def _knowing(container: Document, variable: Object) -> Object:
    env = container.get("env") or ()
    if any(v["name"] == variable["name"] for v in env):
        return dict(container)
    return {**container, "env": [*env, variable]}


# -- the controller -------------------------------------------------------------------------------------------------


class JobController(PodKeeper[Lost]):
    name = "job-controller"
    resource = JOBS

    def __init__(self, kit: Kit) -> None:
        self._written: dict[ObjectKey, Document] = {}  # newer than what is seen, for a moment
        self._released: dict[ObjectKey, set[str]] = {}  # pods that are still seen with their finalizer
        super().__init__(kit)

    def _forget(self, key: ObjectKey) -> None:
        super()._forget(key)
        self._written.pop(key, None)
        self._released.pop(key, None)

    def _pod_changed(self, pod: Document, old: Document | None = None) -> None:
        super()._pod_changed(pod, old)
        key = self._owner_of(pod)
        if key is None:
            return
        if not is_tracked(pod):
            self._released.get(key, set()).discard(pod["metadata"]["uid"])
        elif self._is_lost(pod):
            self.enqueue(Lost(key.namespace, pod["metadata"]["name"]))

    def _pod_gone(self, pod: Document) -> None:
        super()._pod_gone(pod)
        key = self._owner_of(pod)
        if key is not None:
            self._released.get(key, set()).discard(pod["metadata"]["uid"])

    def _is_lost(self, pod: Document) -> bool:
        """Whether its job is gone; another of the same name is not its own."""
        owner = controller_of(pod)
        if owner is None:
            return False
        job = self._owners.get(pod["metadata"]["namespace"], owner["name"])
        return job is None or job["metadata"]["uid"] != owner["uid"]

    async def sync(self, key: ObjectKey | Lost) -> float | None:
        if isinstance(key, Lost):
            await self._release_lost(key)
            return None
        job = owning.newer(self._owners.get(*key), self._written.get(key))
        if job is None or job["spec"].get("managedBy", MANAGER) != MANAGER:
            return None
        pods = await self._claim(job, self._own(job))
        if tallying.is_over(job) or "deletionTimestamp" in job["metadata"]:
            await self._release(key, pods)
            return await self._expire(key, job)
        return await self._work(key, job, pods)

    async def _release_lost(self, key: Lost) -> None:
        """Nobody counts the pod any more."""
        pod = self._pods.get(key.namespace, key.pod)
        if pod is not None and self._is_lost(pod):
            await self._unfinalize(pod)

    async def _work(self, key: ObjectKey, job: Document, pods: list[Document]) -> float | None:
        now = self.kit.clock()
        recorded = {uid for uids in on_record(job).values() for uid in uids} | self._released.get(key, set())
        ended = [
            p for p in pods if has_ended(job, p) and is_tracked(p) and p["metadata"]["uid"] not in recorded
        ]
        tally = tallying.counted(job, so_far(job), ended)
        active = [p for p in pods if owning.is_active(p)]
        decided = tallying.earlier_verdict(job) or tallying.verdict(job, tally, active=len(active), now=now)
        if decided is not None and decided.kind == "Failed":
            # Whatever still runs has failed with the job.
            running = [p for p in active if is_tracked(p) and p["metadata"]["uid"] not in recorded]
            tally = tallying.counted(job, tally, running)
            ended += running
        if ended:
            status = with_record(job, tally, ended, decided, owning.timestamp(now))
            job = await self._write(key, job, status)
        wait: float | None = None
        if decided is not None:
            await for_each(active, lambda pod: self._delete(key, job, pod))
            await self._release(key, pods)
            active = []
        else:
            await self._release(key, [p for p in pods if has_ended(job, p)])
            if self._expected.met(key, self._own(job)):
                wait = await self._fill(key, job, tally, active, pods)
        await self._report(key, job, tally, decided)
        return _sooner(wait, self._deadline(job, now) if decided is None else None)

    async def _write(self, key: ObjectKey, owner: Document, status: Object) -> Document:
        written = await super()._write(key, owner, status)
        if written is not owner:
            self._written[key] = written
        return written

    def _deadline(self, job: Document, now: float) -> float | None:
        limit = job["spec"].get("activeDeadlineSeconds")
        if limit is None or job["spec"].get("suspend"):
            return None
        started = (job.get("status") or {}).get("startTime")
        return max(owning.seconds(started) + limit - now, 0.0) if started else float(limit)

    # -- pods

    async def _release(self, key: ObjectKey, pods: Iterable[Document]) -> None:
        released = self._released.setdefault(key, set())
        waiting = [p for p in pods if is_tracked(p) and p["metadata"]["uid"] not in released]

        async def one(pod: Document) -> None:
            released.add(pod["metadata"]["uid"])
            try:
                await self._unfinalize(pod)
            except StatusError:
                released.discard(pod["metadata"]["uid"])
                raise

        await for_each(waiting, one)

    async def _unfinalize(self, pod: Document) -> None:
        metadata = pod["metadata"]
        patch = {
            "metadata": {
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                "finalizers": [f for f in metadata["finalizers"] if f != FINALIZER],
            }
        }
        with contextlib.suppress(NotFound):
            await self.kit.client.patch(PODS, metadata["namespace"], metadata["name"], patch)

    async def _fill(
        self, key: ObjectKey, job: Document, tally: Tally, active: list[Document], pods: list[Document]
    ) -> float | None:
        """Make or delete pods; returns when to come again if failures have to be waited out."""
        missing = tallying.wanted_active(job, tally) - len(active)
        if missing < 0:
            surplus = owning.cheapest_first(active)[:-missing]
            await self._release(key, surplus)  # those are not failures
            await for_each(surplus, lambda pod: self._delete(key, job, pod))
            return None
        if missing == 0:
            return None
        pause = tallying.pause(pods, self.kit.clock())
        if pause > 0:
            return pause
        if tallying.is_indexed(job):
            free = tallying.free_indexes(job, tally, active, missing)
            numbers = [(i, tallying.failures_before(job, i, pods)) for i in free]
            await for_each(numbers, lambda number: self._make(key, job, pod_for(job, *number)))
        else:
            await owning.slow_start(missing, lambda: self._make(key, job, pod_for(job)))
        return None

    # -- status

    async def _report(self, key: ObjectKey, job: Document, tally: Tally, decided: Verdict | None) -> None:
        status = status_of(job, tally, self._own(job), decided, now=self.kit.clock())
        before = {c["type"]: c["status"] for c in (job.get("status") or {}).get("conditions") or ()}
        job = await self._write(key, job, status)
        for condition in status.get("conditions") or ():
            if before.get(condition["type"]) == condition["status"]:
                continue
            if condition["type"] == "Suspended":
                word = "Suspended" if condition["status"] == "True" else "Resumed"
                self._say(job, "Normal", word, condition["message"])
            elif condition["type"] == "Complete":
                self._say(job, "Normal", "Completed", "Job completed")
            elif condition["type"] == "Failed":
                reason, message = condition["reason"], condition["message"]
                self._say(job, "Warning", reason, message)

    async def _expire(self, key: ObjectKey, job: Document) -> float | None:
        """A finished job with a time to live is deleted when that is over."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job["metadata"] or not tallying.is_over(job):
            return None
        ended = max(
            owning.seconds(c["lastTransitionTime"])
            for c in job["status"]["conditions"]
            if c["type"] in ("Complete", "Failed") and c["status"] == "True"
        )
        left = float(ended + ttl - self.kit.clock())
        if left > 0:
            return left
        with contextlib.suppress(NotFound):
            await self.kit.client.delete(
                JOBS, key.namespace, key.name, uid=job["metadata"]["uid"], propagation="Foreground"
            )
        return None


def _sooner(a: float | None, b: float | None) -> float | None:
    return min((x for x in (a, b) if x is not None), default=None)
