"""When a CronJob is due."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from dray.controllers.workloads import cronjob
from tests.unit.controllers.workloads.objects import Object


def cron(schedule: str, last: str, **spec: Any) -> Object:
    return {
        "metadata": {"name": "c"},
        "spec": {"schedule": schedule, **spec},
        "status": {"lastScheduleTime": last},
    }


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def test_what_is_due_is_the_latest_time_that_was_missed():
    times = cronjob.most_recent_schedule_time(
        cron("*/10 * * * *", "2024-03-01T00:00:00Z"), at("2024-03-01T00:35:00")
    )
    assert times == (at("2024-03-01T00:30:00"), at("2024-03-01T00:40:00"), 3)
    nothing = cronjob.most_recent_schedule_time(
        cron("*/10 * * * *", "2024-03-01T00:30:00Z"), at("2024-03-01T00:35:00")
    )
    assert nothing.latest is None and nothing.missed == 0


def test_times_before_the_starting_deadline_are_skipped():
    late = cron("0 * * * *", "2024-03-01T00:00:00Z", startingDeadlineSeconds=60)
    assert cronjob.most_recent_schedule_time(late, at("2024-03-01T05:30:00")).latest is None


def test_a_schedule_means_its_time_zone_also_when_clocks_change():
    paris = cron("30 9 * * *", "2024-03-30T00:00:00Z", timeZone="Europe/Paris")
    times = cronjob.most_recent_schedule_time(paris, at("2024-03-30T12:00:00"))
    assert times.latest == at("2024-03-30T08:30:00") and times.following == at("2024-03-31T07:30:00")


def test_a_schedule_far_behind_is_caught_up_without_counting_every_minute():
    times = cronjob.most_recent_schedule_time(
        cron("* * * * *", "2020-01-01T00:00:00Z"), at("2024-03-01T00:00:30")
    )
    assert times.latest == at("2024-03-01T00:00:00") and times.missed > 100
