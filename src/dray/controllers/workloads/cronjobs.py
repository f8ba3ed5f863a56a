"""CronJobs: a Job whenever the schedule says so."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from dray.api.batch.schedule import Schedule, ScheduleError
from dray.api.claims import controller_of
from dray.api.errors import AlreadyExists, NotFound
from dray.api.kinds import Object
from dray.client.resources import CRONJOBS, JOBS, ObjectKey, key_of
from dray.controllers.framework import Controller, Kit
from dray.controllers.workloads import jobs, owning

Document = Mapping[str, Any]
_TOO_MANY = 100
SCHEDULED_AT = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def due(cron: Document, now: datetime) -> tuple[datetime | None, datetime | None, int]:
    """(the latest time that has come and was not served, the next time to come, how many were missed)."""
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
            return latest, following, missed
        latest, moment = following, following
        missed += 1
        if missed > _TOO_MANY:
            # Far behind: look back from now instead of counting every time there was.
            step = schedule.after(following)
            span = (step - following) if step is not None else None
            if span is None:
                return latest, None, missed
            moment = max(moment, now.astimezone(zone) - 2 * span)


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
        active = [j for j in mine if not jobs.is_over(j)]
        await self._clean_up(key, cron, mine)
        status: Object = {k: v for k, v in (cron.get("status") or {}).items() if k != "active"}
        wait: float | None = None
        if not cron["spec"].get("suspend"):
            now = datetime.fromtimestamp(self.kit.clock(), UTC)
            try:
                latest, following, missed = due(cron, now)
            except (ScheduleError, ZoneInfoNotFoundError, ValueError) as problem:
                self.kit.recorder.event(
                    CRONJOBS, cron, "Warning", "UnparseableSchedule", f"unparseable schedule: {problem}"
                )
                return None
            if missed > _TOO_MANY:
                message = "too many missed start times. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
                self.kit.recorder.event(CRONJOBS, cron, "Warning", "TooManyMissedTimes", message)
            if latest is not None:
                active = await self._start(key, cron, active, latest, status)
            if following is not None:
                wait = max(0.1, following.timestamp() - self.kit.clock())
        finished = [
            j["status"]["completionTime"]
            for j in mine
            if jobs.is_over(j) and (j.get("status") or {}).get("completionTime")
        ]
        if finished:
            status["lastSuccessfulTime"] = max(finished)
        if active:
            status["active"] = [_reference(j) for j in active]
        if not owning.same(status, cron.get("status") or {}):
            await self.kit.client.update_status(CRONJOBS, key.namespace, {**cron, "status": status})
        return wait

    async def _start(
        self, key: ObjectKey, cron: Document, active: list[Object], when: datetime, status: Object
    ) -> list[Object]:
        policy = cron["spec"].get("concurrencyPolicy", "Allow")
        if active and policy == "Forbid":
            message = "Not starting job because prior execution is running and concurrency policy is Forbid"
            self.kit.recorder.event(CRONJOBS, dict(cron), "Normal", "JobAlreadyActive", message)
            return active
        if policy == "Replace":
            for job in active:
                await self._delete(key, job)
            active = []
        template = cron["spec"]["jobTemplate"]
        wanted = template.get("metadata") or {}
        minutes = int(when.timestamp()) // 60
        job = {
            "metadata": {
                "name": f"{key.name}-{minutes}",
                "labels": wanted.get("labels") or {},
                "annotations": {**(wanted.get("annotations") or {}), SCHEDULED_AT: when.isoformat()},
                "ownerReferences": [owning.owner_reference(CRONJOBS, cron)],
            },
            "spec": template["spec"],
        }
        status["lastScheduleTime"] = owning.timestamp(when.timestamp())
        try:
            made = await self.kit.client.create(JOBS, key.namespace, job)
        except AlreadyExists:
            return active
        message = f"Created job {made['metadata']['name']}"
        self.kit.recorder.event(CRONJOBS, dict(cron), "Normal", "SuccessfulCreate", message)
        return [*active, made]

    async def _clean_up(self, key: ObjectKey, cron: Document, mine: list[Object]) -> None:
        spec = cron["spec"]
        for kind, limit in (
            ("Complete", spec.get("successfulJobsHistoryLimit", 3)),
            ("Failed", spec.get("failedJobsHistoryLimit", 1)),
        ):
            done = [j for j in mine if (owning.condition(j, kind) or {}).get("status") == "True"]
            done.sort(key=lambda j: (j["status"].get("startTime") or "", j["metadata"]["name"]))
            for job in done[: max(0, len(done) - limit)]:
                await self._delete(key, job)

    async def _delete(self, key: ObjectKey, job: Document) -> None:
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


def _reference(job: Document) -> Object:
    metadata = job["metadata"]
    return {
        "apiVersion": "batch/v1", "kind": "Job", "name": metadata["name"], "namespace": metadata["namespace"],
        "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    }  # fmt: skip
