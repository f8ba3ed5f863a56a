"""The CronJob controller: it creates a Job whenever the schedule is due."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo
from typing import TYPE_CHECKING, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dray.api.errors import AlreadyExists, Forbidden, NotFound, StatusError
from dray.api.groups.batch.cron import Schedule, ScheduleError
from dray.api.objects import controller_of
from dray.api.times import from_epoch
from dray.client.resources import CRONJOBS, JOBS, ObjectKey, key_of
from dray.controllers.controller import Controller, ControllerContext, is_namespace_terminating
from dray.controllers.workloads import controller_ref, owned_pods
from dray.controllers.workloads.job import completion

if TYPE_CHECKING:
    from dray.api.types.batch import CronJob, CronJobStatus, Job
    from dray.api.types.core import ObjectReference


_MAX_MISSED: Final = 100
SCHEDULED_TIMESTAMP: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class ScheduleTimes(NamedTuple):
    """The latest time that has come and was not served, the next one to come, and how many were missed."""

    latest: datetime | None
    following: datetime | None
    missed: int


def most_recent_schedule_time(cron: CronJob, now: datetime) -> ScheduleTimes:
    spec = cron["spec"]
    schedule, zone = Schedule.parse(spec["schedule"]), _zone(spec.get("timeZone"))
    last = (cron.get("status") or {}).get("lastScheduleTime") or cron["metadata"].get("creationTimestamp")
    earliest = datetime.fromtimestamp(owned_pods.seconds(last), UTC)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, datetime.fromtimestamp(now.timestamp() - deadline, UTC))
    latest: datetime | None = None
    missed = 0
    moment = earliest.astimezone(zone)
    while True:
        following = schedule.after(moment)
        if following is None or following > now:
            return ScheduleTimes(latest, following, missed)
        latest, moment = following, following
        missed += 1
        if missed > _MAX_MISSED:
            # Far behind: look back from now instead of counting every time there was.
            step = schedule.after(following)
            if step is None:
                return ScheduleTimes(latest, None, missed)
            moment = max(moment, now.astimezone(zone) - 2 * (step - following))


def job_from_template(cron: CronJob, when: datetime) -> Job:
    """The job of one time; its name keeps it from being made twice."""
    template = cron["spec"]["jobTemplate"]
    wanted = template.get("metadata") or {}
    return {
        "metadata": {
            "name": f"{cron['metadata']['name']}-{int(when.timestamp()) // 60}",
            "labels": wanted.get("labels") or {},
            "annotations": {**(wanted.get("annotations") or {}), SCHEDULED_TIMESTAMP: _rfc3339(when)},
            "ownerReferences": [controller_ref.owner_reference(CRONJOBS, cron)],
        },
        "spec": template["spec"],
    }


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _zone(name: str | None) -> tzinfo:
    return ZoneInfo(name) if name else UTC


class CronJobController(Controller[ObjectKey]):
    name = "cronjob-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._crons = context.informers.get(CRONJOBS)
        self._jobs = context.informers.get(JOBS, indexers={"owner": controller_ref.by_owner})
        self._crons.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)), on_update=lambda o, n: self.enqueue(key_of(n))
        )
        self._jobs.add_handler(
            on_add=self._job_changed, on_update=lambda o, n: self._job_changed(n), on_delete=self._job_changed
        )

    def _job_changed(self, job: Job) -> None:
        owner = controller_of(job)
        if owner is not None and owner["kind"] == "CronJob":
            self.enqueue(ObjectKey(job["metadata"]["namespace"], owner["name"]))

    async def sync(self, key: ObjectKey) -> float | None:
        cron = self._crons.get(*key)
        if cron is None:
            return None
        mine = self._jobs.by_index("owner", cron["metadata"]["uid"])
        deleted = await self._clean_up(key, cron, mine)
        active = await self._active_jobs(key, cron, mine, deleted)
        status: CronJobStatus = {**(cron.get("status") or {})}
        status.pop("active", None)
        ended = [(job.get("status") or {}).get("completionTime") for job in mine if _has_succeeded(job)]
        last = max([t for t in (*ended, status.get("lastSuccessfulTime")) if t], default=None)
        if last is not None:
            status["lastSuccessfulTime"] = last
        problem: StatusError | None = None
        wait: float | None = None
        times = self._due(cron)
        if times is not None:
            if times.latest is not None:
                try:
                    active = await self._start(key, cron, active, times.latest, status)
                except StatusError as failed:
                    problem = failed
            if times.following is not None:
                wait = max(0.1, times.following.timestamp() - self.context.clock())
        if active:
            status["active"] = active
        if not owned_pods.semantic_equal(status, cron.get("status") or {}):
            await self.context.client.update_status(CRONJOBS, key.namespace, {**cron, "status": status})
        if problem is not None:
            raise problem
        return wait

    def _due(self, cron: CronJob) -> ScheduleTimes | None:
        """When jobs are to be started; None if none are."""
        spec = cron["spec"]
        if "deletionTimestamp" in cron["metadata"]:
            return None
        name = spec.get("timeZone")
        try:
            _zone(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            self._record_event(
                cron, "Warning", "UnknownTimeZone", f'invalid timeZone: "{name}": unknown time zone {name}'
            )
            return None
        if spec.get("suspend"):
            return None
        try:
            times = most_recent_schedule_time(cron, datetime.fromtimestamp(self.context.clock(), UTC))
        except (ScheduleError, ValueError) as problem:
            message = f'unparseable schedule: "{spec["schedule"]}" : {problem}'
            self._record_event(cron, "Warning", "UnparseableSchedule", message)
            return None
        if times.missed > _MAX_MISSED:
            message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
            self._record_event(cron, "Warning", "TooManyMissedTimes", message)
        return times

    async def _active_jobs(
        self, key: ObjectKey, cron: CronJob, mine: list[Job], deleted: set[str]
    ) -> list[ObjectReference]:
        """The jobs that were started and are not over. A reference stays as it was made, whatever becomes of the job."""
        listed = [r for r in (cron.get("status") or {}).get("active") or () if r["uid"] not in deleted]
        known = {reference["uid"] for reference in listed}
        there = {job["metadata"]["uid"] for job in mine}
        over: set[str] = set()
        for job in mine:
            name, uid = job["metadata"]["name"], job["metadata"]["uid"]
            if completion.is_job_finished(job):
                if uid in known:
                    over.add(uid)
                    ended = "Complete" if _has_succeeded(job) else "Failed"
                    message = f"Saw completed job: {name}, condition: {ended}"
                    self._record_event(cron, "Normal", "SawCompletedJob", message)
            elif uid not in known:
                seen = await self.context.client.get(CRONJOBS, key.namespace, key.name)
                fresh = (seen.get("status") or {}).get("active") or ()
                if any(reference["uid"] == uid for reference in fresh):
                    listed = list(fresh)  # it was started a moment ago
                    known = {reference["uid"] for reference in listed}
                else:
                    message = f"Saw a job that the controller did not create or forgot: {name}"
                    self._record_event(cron, "Warning", "UnexpectedJob", message)
        for reference in listed:
            if reference["uid"] not in there and await self._is_missing(key, reference["name"]):
                over.add(reference["uid"])
                message = f"Active job went missing: {reference['name']}"
                self._record_event(cron, "Normal", "MissingJob", message)
        return [reference for reference in listed if reference["uid"] not in over]

    async def _is_missing(self, key: ObjectKey, name: str) -> bool:
        try:
            await self.context.client.get(JOBS, key.namespace, name)
        except NotFound:
            return True
        return False

    async def _start(
        self,
        key: ObjectKey,
        cron: CronJob,
        active: list[ObjectReference],
        when: datetime,
        status: CronJobStatus,
    ) -> list[ObjectReference]:
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        wanted = job_from_template(cron, when)
        if any(reference["name"] == wanted["metadata"]["name"] for reference in active):
            return active
        if active and policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._record_event(cron, "Normal", "JobAlreadyActive", message)
            return active
        if policy == "Replace":
            for reference in active:
                await self._delete(key, cron, reference["name"], reference["uid"])
            active = []
        try:
            made = await self.context.client.create(JOBS, key.namespace, wanted)
        except AlreadyExists:
            made = await self.context.client.get(JOBS, key.namespace, wanted["metadata"]["name"])
            owner = controller_of(made)
            if owner is None or owner["uid"] != cron["metadata"]["uid"]:
                return active  # another owner has a Job of that name
        except StatusError as problem:
            if not (isinstance(problem, Forbidden) and is_namespace_terminating(problem)):
                self._record_event(cron, "Warning", "FailedCreate", f"Error creating job: {problem}")
            raise
        else:
            self._record_event(cron, "Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        status["lastScheduleTime"] = from_epoch(when.timestamp())
        return [*active, _reference(made)]

    def _record_event(
        self, cron: CronJob, kind: Literal["Normal", "Warning"], reason: str, message: str
    ) -> None:
        self.context.recorder.event(CRONJOBS, cron, kind, reason, message)

    async def _clean_up(self, key: ObjectKey, cron: CronJob, mine: list[Job]) -> set[str]:
        """Delete finished jobs beyond the history limits; returns the uids of those deleted."""
        spec = cron["spec"]
        gone: set[str] = set()
        for kind, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            done = [j for j in mine if completion.has_condition(j, kind)]
            done.sort(key=_started)
            for job in done[: max(0, len(done) - limit)]:
                metadata = job["metadata"]
                if await self._delete(key, cron, metadata["name"], metadata["uid"]):
                    gone.add(metadata["uid"])
        return gone

    async def _delete(self, key: ObjectKey, cron: CronJob, name: str, uid: str) -> bool:
        try:
            await self.context.client.delete(JOBS, key.namespace, name, uid=uid, propagation="Background")
        except NotFound:
            return True
        except StatusError as problem:
            self._record_event(cron, "Warning", "FailedDelete", f"Deleted job: {problem}")
            return False
        self._record_event(cron, "Normal", "SuccessfulDelete", f"Deleted job {name}")
        return True


def _has_succeeded(job: Job) -> bool:
    return completion.has_condition(job, "Complete")


def _started(job: Job) -> tuple[bool, str, str]:
    started = (job.get("status") or {}).get("startTime") or ""
    return not started, started, job["metadata"]["name"]


def _reference(job: Job) -> ObjectReference:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "namespace": metadata["namespace"],
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }  # fmt: skip
