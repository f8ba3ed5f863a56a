"""Schedules: when they come next, and what is wrong with broken ones."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from dray.api.groups.batch.cron import Schedule


@pytest.mark.parametrize(
    ("text", "moment", "following"),
    [
        ("* * * * *", "2026-01-02T03:04:05", "2026-01-02T03:05:00"),
        ("*/15 * * * *", "2026-01-02T03:04:05", "2026-01-02T03:15:00"),
        ("0 0 1 * *", "2026-01-02T03:04:05", "2026-02-01T00:00:00"),
        ("30 4 * * mon-fri", "2026-01-02T05:00:00", "2026-01-05T04:30:00"),
        ("0 0 29 2 *", "2026-01-02T03:04:05", "2028-02-29T00:00:00"),
        ("0 0 13 * 5", "2026-01-02T03:04:05", "2026-01-09T00:00:00"),
        ("5,10 3 * jan ?", "2026-01-02T03:05:00", "2026-01-02T03:10:00"),
        ("@daily", "2026-01-02T03:04:05", "2026-01-03T00:00:00"),
        ("@every 90s", "2026-01-02T03:04:05", "2026-01-02T03:05:35"),
        ("0 0 31 2 *", "2026-01-02T03:04:05", None),
    ],
)
def test_schedules_know_what_comes_next(text, moment, following):
    found = Schedule.parse(text).after(datetime.fromisoformat(moment).replace(tzinfo=UTC))
    assert (found and found.replace(tzinfo=None).isoformat()) == following


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "empty spec string"),
        ("* * * *", "expected exactly 5 fields, found 4: [* * * *]"),
        ("60 * * * *", "end of range (60) above maximum (59): 60"),
        ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
        ("5-1 * * * *", "beginning of range (5) beyond end of range (1): 5-1"),
        ("*/0 * * * *", "step of range should be a positive number: */0"),
        ("@never", "unrecognized descriptor: @never"),
    ],
)
def test_broken_schedules_are_explained(text, problem):
    with pytest.raises(ValueError, match=r".*") as failed:
        Schedule.parse(text)
    assert str(failed.value) == problem
