"""CronJobs on the real API server: jobs that come, end, go missing, or were not expected."""

from __future__ import annotations

from dray.client.resources import CRONJOBS, JOBS
from tests.support.controlplane import control_plane, owned_by
from tests.support.events import events_about
from tests.support.wait import wait_for

HOUR = 3600.0
TEMPLATE = {
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}}
}


def cron(**spec):
    return {"metadata": {"name": "c"}, "spec": {"schedule": "0 * * * *", "jobTemplate": TEMPLATE, **spec}}


class Clock:
    """Set from the time at which the cron job was made, on the hour."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


async def jobs(at):
    return (await at.client.list(JOBS, "default")).items


async def start_one(at, clock):
    """A cron job and its first job."""
    clock.now = 4_000_000_000.0
    await at.client.create(CRONJOBS, "default", cron())
    (job,) = await wait_for("the CronJob's Jobs", lambda: jobs(at))

    async def is_listed():
        return (await at.get(CRONJOBS, "c"))["status"].get("active")

    await wait_for("an active Job in the CronJob's status", is_listed)
    return job["metadata"]["name"]


async def test_a_job_that_ended_or_went_missing_is_told_of_and_no_longer_active():
    clock = Clock()
    async with control_plane("cronjob-controller", clock=clock) as at:
        first = await start_one(at, clock)
        await at.client.delete(JOBS, "default", first, propagation="Background")

        async def is_idle():
            return "active" not in (await at.get(CRONJOBS, "c"))["status"]

        await wait_for("the CronJob to have no active Jobs", is_idle)
        heard = await wait_for("three events about the CronJob", lambda: events_about(at, "CronJob", count=3))
        assert [one[1:] for one in heard if one[1] != "TooManyMissedTimes"] == [
            ("SuccessfulCreate", f"Created job {first}"),
            ("MissingJob", f"Active job went missing: {first}"),
        ]


async def test_a_job_that_somebody_else_made_of_it_is_not_its_own():
    clock = Clock()
    async with control_plane("cronjob-controller", clock=clock) as at:
        first = await start_one(at, clock)
        owner = owned_by("CronJob", await at.get(CRONJOBS, "c"), api_version="batch/v1", controller=True)
        body = {"metadata": {"name": "mine", "ownerReferences": [owner]}, **TEMPLATE}
        await at.client.create(JOBS, "default", body)
        heard = await wait_for("three events about the CronJob", lambda: events_about(at, "CronJob", count=3))
        message = "Saw a job that the controller did not create or forgot: mine"
        assert heard[-1] == ("Warning", "UnexpectedJob", message)
        active = (await at.get(CRONJOBS, "c"))["status"]["active"]
        assert [reference["name"] for reference in active] == [first]


async def test_a_name_that_is_taken_is_not_served():
    clock = Clock()
    async with control_plane("cronjob-controller", clock=clock) as at:
        clock.now = 4_000_000_000.0
        taken = f"c-{int(clock.now // HOUR * 60)}"
        await at.client.create(JOBS, "default", {"metadata": {"name": taken}, **TEMPLATE})
        await at.client.create(CRONJOBS, "default", cron())
        await at.wait_quiet()
        assert "lastScheduleTime" not in (await at.get(CRONJOBS, "c")).get("status", {})
