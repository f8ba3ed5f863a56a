"""What is said about a pod, and how."""

from __future__ import annotations

import asyncio

import pytest

from dray.scheduler.events.reporter import truncate_note
from tests.support.fake_client import FakeClient, writer
from tests.support.scheduler import pod


@pytest.mark.parametrize("tracks", [True, False])
def test_conditions_have_the_observed_generation_where_it_is_tracked(tracks: bool) -> None:
    server = FakeClient()
    wanted = pod("p", metadata={"generation": 3})
    told = writer(server, observes_generation=tracks)
    asyncio.run(told.reporter.failed_scheduling(wanted, reason="Unschedulable", message="no", nominated=None))
    [(_, status)] = server.patched
    assert status["conditions"][0].get("observedGeneration") == (3 if tracks else None)


def test_the_note_of_an_event_is_truncated_where_upstream_truncates_it() -> None:
    assert truncate_note("x" * 1024) == "x" * 1024
    cut = truncate_note("ä" * 600)
    assert cut.endswith(" ...") and len(cut.encode()) <= 1024
