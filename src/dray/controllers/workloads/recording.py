"""What a Job's status says: pods on record that are still to be counted, the numbers, and how it ends. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from dray.api.kinds import Object
from dray.controllers.workloads import owning, tallying
from dray.controllers.workloads.tallying import Tally, Verdict

Document = Mapping[str, Any]


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
    job: Document,
    tally: Tally,
    ended: Iterable[Document],
    decided: Verdict | None,
    now: str,
    *,
    delays: bool = True,
) -> Object:
    """The status that puts ended pods on record; the numbers still leave them out."""
    recorded = on_record(job)
    for pod in ended:
        if owning.phase(pod) == "Succeeded":
            if not tallying.is_indexed(job):  # an index is done but once
                recorded["succeeded"].append(pod["metadata"]["uid"])
        elif tallying.judge(job, pod).action != "Ignore":
            recorded["failed"].append(pod["metadata"]["uid"])
    status = dict(job.get("status") or {})
    indexes = {k: v for k, v in tally.status(job).items() if k.endswith("Indexes")}
    status |= indexes | {"uncountedTerminatedPods": {k: v for k, v in recorded.items() if v}}
    if decided is not None and _tells_ahead(decided, delays):
        status["conditions"] = _with(status.get("conditions") or (), decided.ahead, decided, now)
    return status


def _tells_ahead(decided: Verdict, delays: bool) -> bool:
    """Whether a verdict is told while pods still end: where a release ``delays`` the end, and by policies."""
    return delays or decided.reason in ("PodFailurePolicy", "SuccessPolicy")


def _with(conditions: Sequence[Object], kind: str, decided: Verdict, now: str) -> list[Object]:
    if any(c["type"] == kind for c in conditions):
        return list(conditions)
    return [*conditions, _condition(kind, "True", decided.reason, decided.message, now)]


def _condition(kind: str, status: str, reason: str, message: str, now: str) -> Object:
    words = {k: v for k, v in (("reason", reason), ("message", message)) if v}
    return {"type": kind, "status": status, "lastProbeTime": now, "lastTransitionTime": now, **words}


def _with_suspension(job: Document, status: Object, now: str, *, forgets_start: bool) -> Object:
    """Whether the job is suspended, said where it is or was; a job's time starts when it may run."""
    suspended = bool(job["spec"].get("suspend"))
    conditions = list(status.get("conditions") or ())
    at = next((i for i, c in enumerate(conditions) if c["type"] == "Suspended"), None)
    if suspended == (at is not None and conditions[at]["status"] == "True"):
        return status
    words = ("True", "JobSuspended", "Job suspended") if suspended else ("False", "JobResumed", "Job resumed")
    told = _condition("Suspended", *words, now)
    if at is None:
        conditions.append(told)
    else:
        conditions[at] = told
    status = {**status, "conditions": conditions}
    if not suspended:
        return {**status, "startTime": now}
    return {k: v for k, v in status.items() if k != "startTime"} if forgets_start else status


def status_of(
    job: Document,
    tally: Tally,
    pods: Collection[Document],
    decided: Verdict | None,
    *,
    now: float,
    delays: bool = True,
    managed: bool = True,
    forgets_start: bool = True,
    made: Collection[str] = (),
    deleted: Collection[str] = (),
) -> Object:
    """The whole status once every ended pod is released and can be counted.

    Pods that were ``made`` or ``deleted`` just now count as such before they are seen so.
    A release that ``delays`` the end waits for pods on their way out. One that ``forgets_start`` clears the time of a
    job that is suspended. A job that is not ``managed`` at present does not tell whether it is.
    """
    moment = owning.timestamp(now)
    known = job.get("status") or {}
    counts = ("active", "ready", "terminating", "uncountedTerminatedPods")
    status: Object = {k: v for k, v in known.items() if k not in counts}
    status |= tally.status(job)
    status["uncountedTerminatedPods"] = {}
    running = [p for p in pods if owning.is_active(p)]
    staying = [p for p in running if p["metadata"]["uid"] not in deleted]
    leaving = len(running) - len(staying) + sum(1 for p in pods if owning.is_terminating(p))
    active = len(staying) + len(set(made) - {p["metadata"]["uid"] for p in pods})
    if active:
        status["active"] = active
    status["ready"] = sum(1 for p in staying if owning.is_ready(p))
    status["terminating"] = leaving
    if not status.get("startTime") and not job["spec"].get("suspend"):
        status["startTime"] = moment
    if decided is None:
        return _with_suspension(job, status, moment, forgets_start=forgets_start) if managed else status
    conditions = status.get("conditions") or ()
    if _tells_ahead(decided, delays):
        conditions = _with(conditions, decided.ahead, decided, moment)
    if not active and not (delays and leaving):
        conditions = _with(conditions, decided.kind, decided, moment)
        if decided.kind == "Complete":
            status["completionTime"] = moment
    return {**status, "conditions": conditions} if conditions else status
