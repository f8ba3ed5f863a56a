"""Expectations of pods that were created or deleted."""

from __future__ import annotations

from dray.controllers.workloads.expectations import EXPECTATIONS_TIMEOUT_SECONDS, Expectations
from tests.unit.controllers.workloads.objects import pod, terminating


def test_expectations_are_satisfied_by_events_or_by_a_timeout():
    now = [0.0]
    expected = Expectations(lambda: now[0])
    expected.expect_creation("rs", "a")
    assert not expected.satisfied("rs", [])
    assert expected.satisfied("rs", [pod("a")])
    expected.expect_deletion("rs", "a")
    assert not expected.satisfied("rs", [pod("a")])
    assert expected.satisfied("rs", [terminating(pod("a"))])
    expected.expect_creation("rs", "b")
    expected.creation_observed("rs", pod("b"))
    expected.deletion_observed("rs", "b")
    assert expected.satisfied("rs", []), "it came and went between two looks"
    expected.expect_creation("rs", "c")
    now[0] = EXPECTATIONS_TIMEOUT_SECONDS + 1
    assert expected.satisfied("rs", [])
