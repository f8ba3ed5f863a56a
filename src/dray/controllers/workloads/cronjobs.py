"""CronJobs: a Job whenever the schedule says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final, Literal, NamedTuple
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dray.api.batch.schedule import Schedule, ScheduleError
from dray.api.claims import controller_of
from dray.api.errors import AlreadyExists, NotFound, StatusError
from dray.api.kinds import Object
from dray.client.resources import CRONJOBS, JOBS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import owning, tallying

Document = Mapping[str, Any]
_TOO_MANY: Final = 100
SCHEDULED_AT: Final = "batch.kubernetes.io/cronjob-scheduled-timestamp"


class Times(NamedTuple):
    """The latest time that has come and was not served, the next one to come, and how many were missed."""

    latest: datetime | None
    following: datetime | None
    missed: int


def due(cron: Document, now: datetime) -> Times:
    spec = cron["spec"]
    schedule, zone = Schedule.parse(spec["schedule"]), _zone(spec.get("timeZone"))
    last = (cron.get("status") or {}).get("lastScheduleTime") or cron["metadata"].get("creationTimestamp")
    earliest = datetime.fromtimestamp(owning.seconds(last), UTC)
    deadline = spec.get("startingDeadlineSeconds")
    if deadline is not None:
        earliest = max(earliest, datetime.fromtimestamp(now.timestamp() - deadline, UTC))
    latest: datetime | None = None
    missed = 0
    moment = earliest.astimezone(zone)
    while True:
        following = schedule.after(moment)
        if following is None or following > now:
            return Times(latest, following, missed)
        latest, moment = following, following
        missed += 1
        if missed > _TOO_MANY:
            # Far behind: look back from now instead of counting every time there was.
            step = schedule.after(following)
            if step is None:
                return Times(latest, None, missed)
            moment = max(moment, now.astimezone(zone) - 2 * (step - following))


def job_for(cron: Document, when: datetime) -> Object:
    """The job of one time; its name keeps it from being made twice."""
    template = cron["spec"]["jobTemplate"]
    wanted = template.get("metadata") or {}
    return {
        "metadata": {
            "name": f"{cron['metadata']['name']}-{int(when.timestamp()) // 60}",
            "labels": wanted.get("labels") or {},
            "annotations": {**(wanted.get("annotations") or {}), SCHEDULED_AT: _rfc3339(when)},
            "ownerReferences": [owning.owner_reference(CRONJOBS, cron)],
        },
        "spec": template["spec"],
    }


def references(cron: Document, active: list[Object]) -> list[Object]:
    """How the status names running jobs. A reference stays as it was made, whatever becomes of the job."""
    known = {r["uid"]: r for r in (cron.get("status") or {}).get("active") or ()}
    made = sorted(active, key=lambda job: job["metadata"]["name"])
    return [known.get(job["metadata"]["uid"]) or _reference(job) for job in made]


def _rfc3339(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")


def _zone(name: str | None) -> tzinfo:
    return ZoneInfo(name) if name else UTC


class CronJobController(Controller[ObjectKey]):
    name = "cronjob-controller"

    def __init__(self, kit: Kit) -> None:
        super().__init__(kit)
        self._crons = kit.informers.get(CRONJOBS)
        self._jobs = kit.informers.get(JOBS, indexers={"owner": owning.by_owner})
        self._crons.add_handler(
            on_add=lambda n: self.enqueue(key_of(n)), on_update=lambda o, n: self.enqueue(key_of(n))
        )
        self._jobs.add_handler(
            on_add=self._job_changed, on_update=lambda o, n: self._job_changed(n), on_delete=self._job_changed
        )

    def _job_changed(self, job: Document) -> None:
        owner = controller_of(job)
        if owner is not None and owner["kind"] == "CronJob":
            self.enqueue(ObjectKey(job["metadata"]["namespace"], owner["name"]))

    async def sync(self, key: ObjectKey) -> float | None:
        cron = self._crons.get(*key)
        if cron is None or "deletionTimestamp" in cron["metadata"]:
            return None
        mine = self._jobs.by_index("owner", cron["metadata"]["uid"])
        active = [j for j in mine if not tallying.is_over(j)]
        self._say_finished(cron, mine)
        await self._clean_up(key, cron, mine)
        status: Object = {k: v for k, v in (cron.get("status") or {}).items() if k != "active"}
        wait: float | None = None
        if not cron["spec"].get("suspend"):
            now = datetime.fromtimestamp(self.kit.clock(), UTC)
            try:
                times = due(cron, now)
            except ZoneInfoNotFoundError as problem:
                message = f'invalid timeZone: "{cron["spec"]["timeZone"]}": {problem}'
                self._say(cron, "Warning", "UnknownTimeZone", message)
                return None
            except (ScheduleError, ValueError) as problem:
                message = f'unparseable schedule: "{cron["spec"]["schedule"]}" : {problem}'
                self._say(cron, "Warning", "UnparseableSchedule", message)
                return None
            if times.missed > _TOO_MANY:
                message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                self._say(cron, "Warning", "TooManyMissedTimes", message)
            if times.latest is not None:
                active = await self._start(key, cron, active, times.latest, status)
            if times.following is not None:
                wait = max(0.1, times.following.timestamp() - self.kit.clock())
        succeeded = [(j.get("status") or {}).get("completionTime") for j in mine if tallying.is_over(j)]
        last = max([t for t in (*succeeded, status.get("lastSuccessfulTime")) if t], default=None)
        if last is not None:
            status["lastSuccessfulTime"] = last
        if active:
            status["active"] = references(cron, active)
        if not owning.same(status, cron.get("status") or {}):
            await self.kit.client.update_status(CRONJOBS, key.namespace, {**cron, "status": status})
        return wait

    def _say_finished(self, cron: Document, mine: list[Object]) -> None:
        listed = {reference["uid"] for reference in (cron.get("status") or {}).get("active") or ()}
        for job in mine:
            if job["metadata"]["uid"] in listed and tallying.is_over(job):
                ended = "Complete" if owning.condition(job, "Complete") else "Failed"
                message = f"Saw completed job: {job['metadata']['name']}, condition: {ended}"
                self._say(cron, "Normal", "SawCompletedJob", message)

    async def _start(
        self, key: ObjectKey, cron: Document, active: list[Object], when: datetime, status: Object
    ) -> list[Object]:
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self._say(cron, "Normal", "JobAlreadyActive", message)
            return active
        if policy == "Replace":
            for job in active:
                await self._delete(key, cron, job)
            active = []
        status["lastScheduleTime"] = owning.timestamp(when.timestamp())
        try:
            made = await self.kit.client.create(JOBS, key.namespace, job_for(cron, when))
        except AlreadyExists:
            return active
        except StatusError as problem:
            self._say(cron, "Warning", "FailedCreate", f"Error creating job: {problem}")
            raise
        self._say(cron, "Normal", "SuccessfulCreate", f"Created job {made['metadata']['name']}")
        return [*active, made]

    def _say(self, cron: Document, kind: Literal["Normal", "Warning"], reason: str, message: str) -> None:
        self.kit.recorder.event(CRONJOBS, dict(cron), kind, reason, message)

    async def _clean_up(self, key: ObjectKey, cron: Document, mine: list[Object]) -> None:
        spec = cron["spec"]
        for kind, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            done = [j for j in mine if (owning.condition(j, kind) or {}).get("status") == "True"]
            done.sort(key=lambda j: (j["status"].get("startTime") or "", j["metadata"]["name"]))
            for job in done[: max(0, len(done) - limit)]:
                await self._delete(key, cron, job)

    async def _delete(self, key: ObjectKey, cron: Document, job: Document) -> None:
        try:
            await self.kit.client.delete(
                JOBS,
                key.namespace,
                job["metadata"]["name"],
                uid=job["metadata"]["uid"],
                propagation="Background",
            )
        except NotFound:
            return
        self._say(cron, "Normal", "SuccessfulDelete", f"Deleted job {job['metadata']['name']}")


def _reference(job: Document) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "namespace": metadata["namespace"],
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }  # fmt: skip
