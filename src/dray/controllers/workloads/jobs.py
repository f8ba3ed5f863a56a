"""Jobs: run pods until enough of them have succeeded, or too many have failed.

Every finished pod is counted exactly once: pods carry a finalizer until the status that counts them is stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from dray.api.claims import controller_of
from dray.api.errors import NotFound
from dray.api.kinds import Object
from dray.client.resources import JOBS, PODS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning
from dray.controllers.workloads.expecting import Expectations

Document = Mapping[str, Any]
FINALIZER = "batch.kubernetes.io/job-tracking"
INDEX = "batch.kubernetes.io/job-completion-index"
_BACKOFF = 10.0
_LONGEST = 600.0


# -- decisions ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Tally:
    """What a job has come to so far."""

    succeeded: int
    failed: int
    done: frozenset[int] = frozenset()  # completed indexes


def indexed(job: Document) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def index_of(pod: Document) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(INDEX, ""))
    except ValueError:
        return -1


def parse_indexes(text: str) -> set[int]:
    """``1,3-5,7`` as numbers."""
    found: set[int] = set()
    for part in (text or "").split(","):
        if part:
            low, _, high = part.partition("-")
            found.update(range(int(low), int(high or low) + 1))
    return found


def format_indexes(numbers: Iterable[int]) -> str:
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


def verdict(job: Document, tally: Tally, now: float) -> tuple[str, str, str] | None:
    """(condition, reason, message) once the job is decided."""
    spec = job["spec"]
    limit = spec.get("backoffLimit", 6)
    if tally.failed > limit:
        return "Failed", "BackoffLimitExceeded", "Job has reached the specified backoff limit"
    started = owning.seconds((job.get("status") or {}).get("startTime"))
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and started and not spec.get("suspend") and now - started >= deadline:
        return "Failed", "DeadlineExceeded", "Job was active longer than specified deadline"
    wanted = spec.get("completions")
    complete = tally.succeeded > 0 if wanted is None else tally.succeeded >= wanted
    if complete:
        return "Complete", "CompletionsReached", "Reached expected number of succeeded pods"
    return None


def wanted_active(job: Document, tally: Tally) -> int:
    spec = job["spec"]
    if spec.get("suspend"):
        return 0
    parallel: int = spec.get("parallelism", 1)
    completions: int | None = spec.get("completions")
    if completions is None:
        return 0 if tally.succeeded else parallel
    return min(parallel, completions - tally.succeeded)


def is_over(job: Document) -> bool:
    return any(
        c["type"] in ("Complete", "Failed") and c["status"] == "True"
        for c in (job.get("status") or {}).get("conditions") or ()
    )


# -- the controller -------------------------------------------------------------------------------------------------


class JobController(Controller[ObjectKey]):
    name = "job-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._jobs = kit.informers.get(JOBS)
        self._pods = kit.informers.get(PODS, indexers={"owner": owning.by_owner})
        self._expected = Expectations(kit.clock)
        self._jobs.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)),
            on_update=lambda o, n: self.enqueue(key_of(n)),
            on_delete=lambda o: self._expected.forget(key_of(o)),
        )
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=lambda o, n: self._pod_changed(n), on_delete=self._pod_changed
        )

    def _pod_changed(self, pod: Document) -> None:
        owner = controller_of(pod)
        if owner is not None and owner["kind"] == "Job":
            key = ObjectKey(pod["metadata"]["namespace"], owner["name"])
            job = self._jobs.get(*key)
            if (job is None or job["metadata"]["uid"] != owner["uid"]) and _tracked(pod):
                self.enqueue(ObjectKey(key.namespace, f"{key.name}/{pod['metadata']['name']}"))
            self.enqueue(key)

    async def sync(self, key: ObjectKey) -> float | None:
        if "/" in key.name:
            await self._orphan(key)
            return None
        job = self._jobs.get(*key)
        if job is None:
            return None
        uid = job["metadata"]["uid"]
        known = [*self._pods.by_index("owner", uid), *self._pods.by_index("owner", f"stray:{key.namespace}")]
        pods = await owning.claim_pods(
            self.kit.client, JOBS, job, known, owning.matches(job["spec"].get("selector"))
        )
        if is_over(job) or "deletionTimestamp" in job["metadata"]:
            await self._release(pods)
            return await self._expire(key, job)
        return await self._work(key, job, pods)

    async def _orphan(self, key: ObjectKey) -> None:
        """The job is gone: its pods' finalizers protect nothing any more."""
        pod = self._pods.get(key.namespace, key.name.partition("/")[2])
        if pod is not None:
            await self._release([pod])

    async def _work(self, key: ObjectKey, job: Document, pods: list[Document]) -> float | None:
        now = self.kit.clock()
        job, tally = await self._count(key, job, pods)
        await self._release([p for p in pods if _over(p)])
        active = [p for p in pods if owning.is_active(p)]
        decided = verdict(job, tally, now)
        wait: float | None = None
        if decided is not None:
            await asyncio.gather(*(self._delete(key, p) for p in active))
            await self._release(pods)
            active = []
        elif self._expected.met(key, self._pods.by_index("owner", job["metadata"]["uid"])):
            wait = await self._fill(key, job, tally, active, pods, now)
        await self._report(key, job, tally, active, decided, now)
        deadline, started = (
            job["spec"].get("activeDeadlineSeconds"),
            (job.get("status") or {}).get("startTime"),
        )
        if decided is None and deadline is not None:
            left = owning.seconds(started) + deadline - now if started else float(deadline)
            wait = max(0.0, left) if wait is None else min(wait, max(0.0, left))
        return wait

    async def _count(self, key: ObjectKey, job: Document, pods: list[Document]) -> tuple[Document, Tally]:
        """Add newly finished pods to the stored count before their finalizers go."""
        status = job.get("status") or {}
        done = parse_indexes(status.get("completedIndexes") or "")
        uncounted = status.get("uncountedTerminatedPods") or {}
        counted = {*(uncounted.get("succeeded") or ()), *(uncounted.get("failed") or ())}
        new = [p for p in pods if _over(p) and _tracked(p) and p["metadata"]["uid"] not in counted]
        good = [p for p in new if owning.phase(p) == "Succeeded"]
        bad = [p for p in new if p not in good]
        succeeded = status.get("succeeded", 0) + len(good)
        if indexed(job):
            done |= {index_of(p) for p in good if 0 <= index_of(p) < (job["spec"].get("completions") or 0)}
            succeeded = len(done)
        tally = Tally(succeeded, status.get("failed", 0) + len(bad), frozenset(done))
        if new:
            changed = {
                **status,
                **_counts(tally),
                "uncountedTerminatedPods": {
                    "succeeded": [p["metadata"]["uid"] for p in good],
                    "failed": [p["metadata"]["uid"] for p in bad],
                },
            }
            if indexed(job):
                changed["completedIndexes"] = format_indexes(done)
            job = await self.kit.client.update_status(JOBS, key.namespace, {**job, "status": changed})
        return job, tally

    async def _release(self, pods: Iterable[Document]) -> None:
        async def one(pod: Document) -> None:
            finalizers = [f for f in pod["metadata"]["finalizers"] if f != FINALIZER]
            patch = {"metadata": {"uid": pod["metadata"]["uid"], "finalizers": finalizers}}
            try:
                await self.kit.client.patch(
                    PODS, pod["metadata"]["namespace"], pod["metadata"]["name"], patch
                )
            except NotFound:
                return

        await asyncio.gather(*(one(p) for p in pods if _tracked(p)))

    async def _fill(
        self,
        key: ObjectKey,
        job: Document,
        tally: Tally,
        active: list[Document],
        pods: list[Document],
        now: float,
    ) -> float | None:
        wanted = wanted_active(job, tally)
        if len(active) > wanted:
            await asyncio.gather(
                *(self._delete(key, p) for p in owning.cheapest_first(active)[: len(active) - wanted])
            )
            return None
        missing = wanted - len(active)
        if missing <= 0:
            return None
        pause = _pause(tally, pods, now)
        if pause > 0:
            return pause
        if indexed(job):
            taken = {index_of(p) for p in active} | tally.done
            free = [i for i in range(job["spec"]["completions"]) if i not in taken][:missing]
            await asyncio.gather(*(self._make(key, job, i) for i in free))
        else:
            await asyncio.gather(*(self._make(key, job, None) for _ in range(missing)))
        return None

    async def _make(self, key: ObjectKey, job: Document, index: int | None) -> None:
        wanted = owning.pod_from(job["spec"]["template"], JOBS, job)
        metadata = wanted["metadata"]
        metadata["finalizers"] = [*(metadata.get("finalizers") or ()), FINALIZER]
        if index is not None:
            metadata["annotations"] = {**(metadata.get("annotations") or {}), INDEX: str(index)}
            metadata["labels"] = {**metadata["labels"], INDEX: str(index)}
            metadata["generateName"] = f"{key.name}-{index}-"
            spec = dict(wanted["spec"])
            spec["hostname"] = spec.get("hostname") or f"{key.name}-{index}"
            variable = {
                "name": "JOB_COMPLETION_INDEX",
                "valueFrom": {"fieldRef": {"fieldPath": f"metadata.labels['{INDEX}']"}},
            }
            for group in ("initContainers", "containers"):
                if spec.get(group):
                    spec[group] = [{**c, "env": [*(c.get("env") or ()), variable]} for c in spec[group]]
            wanted = {**wanted, "spec": spec}
        pod = await self.kit.client.create(PODS, key.namespace, wanted)
        self._expected.made(key, pod["metadata"]["uid"])
        message = f"Created pod: {pod['metadata']['name']}"
        self.kit.recorder.event(JOBS, dict(job), "Normal", "SuccessfulCreate", message)

    async def _delete(self, key: ObjectKey, pod: Document) -> None:
        metadata = pod["metadata"]
        self._expected.deleted(key, metadata["uid"])
        try:
            await self.kit.client.delete(PODS, key.namespace, metadata["name"], uid=metadata["uid"])
        except NotFound:
            self._expected.gone(key, metadata["uid"])

    async def _report(
        self,
        key: ObjectKey,
        job: Document,
        tally: Tally,
        active: list[Document],
        decided: tuple[str, str, str] | None,
        now: float,
    ) -> None:
        current = job.get("status") or {}
        moment = owning.timestamp(now)
        status: Object = {
            k: v for k, v in current.items() if k not in ("active", "ready", "uncountedTerminatedPods")
        }
        status |= _counts(tally)
        status["uncountedTerminatedPods"] = {}
        if active:
            status["active"] = len(active)
        status["ready"] = sum(1 for p in active if owning.is_ready(p))
        suspended = bool(job["spec"].get("suspend"))
        if not suspended and "startTime" not in status:
            status["startTime"] = moment
        conditions = list(status.get("conditions") or ())
        if suspended != any(c["type"] == "Suspended" and c["status"] == "True" for c in conditions):
            conditions = [c for c in conditions if c["type"] != "Suspended"]
            word, reason = ("True", "JobSuspended") if suspended else ("False", "JobResumed")
            conditions.append(_condition("Suspended", word, reason, f"Job {reason[3:].lower()}", moment))
            if suspended:
                status.pop("startTime", None)
        if decided is not None:
            kind, reason, message = decided
            ahead = "SuccessCriteriaMet" if kind == "Complete" else "FailureTarget"
            if not any(c["type"] == ahead for c in conditions):
                conditions.append(_condition(ahead, "True", reason, message, moment))
            conditions.append(_condition(kind, "True", reason, message, moment))
            if kind == "Complete":
                status["completionTime"] = moment
            words = "Completed" if kind == "Complete" else reason
            text = "Job completed" if kind == "Complete" else message
            self.kit.recorder.event(
                JOBS, dict(job), "Normal" if kind == "Complete" else "Warning", words, text
            )
        if conditions:
            status["conditions"] = conditions
        if not owning.same(status, current):
            await self.kit.client.update_status(JOBS, key.namespace, {**job, "status": status})

    async def _expire(self, key: ObjectKey, job: Document) -> float | None:
        """A finished job with a time to live is deleted when that is over."""
        ttl = job["spec"].get("ttlSecondsAfterFinished")
        if ttl is None or "deletionTimestamp" in job["metadata"] or not is_over(job):
            return None
        ended = max(
            owning.seconds(c["lastTransitionTime"])
            for c in job["status"]["conditions"]
            if c["type"] in ("Complete", "Failed") and c["status"] == "True"
        )
        left = float(ended + ttl - self.kit.clock())
        if left > 0:
            return left
        await self.kit.client.delete(
            JOBS, key.namespace, key.name, uid=job["metadata"]["uid"], propagation="Foreground"
        )
        return None


def _tracked(pod: Document) -> bool:
    return FINALIZER in (pod["metadata"].get("finalizers") or ())


def _over(pod: Document) -> bool:
    """Finished, or deleted before it could: both count, the latter as a failure."""
    return owning.is_finished(pod) or "deletionTimestamp" in pod["metadata"]


def _counts(tally: Tally) -> Object:
    return {k: v for k, v in (("succeeded", tally.succeeded), ("failed", tally.failed)) if v}


def _pause(tally: Tally, pods: list[Document], now: float) -> float:
    """Failures are tried again after ever longer pauses."""
    failed = [p for p in pods if owning.phase(p) == "Failed"]
    if not tally.failed or not failed:
        return 0.0
    last = max(_ended(p) for p in failed)
    return float(last + min(_BACKOFF * 2 ** (min(len(failed), 7) - 1), _LONGEST) - now)


def _ended(pod: Document) -> float:
    times = [
        owning.seconds(((s.get("state") or {}).get("terminated") or {}).get("finishedAt"))
        for s in (pod.get("status") or {}).get("containerStatuses") or ()
    ]
    return max((t for t in times if t), default=owning.seconds(pod["metadata"].get("creationTimestamp")))


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    return {
        "type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now, "reason": reason,
        "message": message,
    }  # fmt: skip
