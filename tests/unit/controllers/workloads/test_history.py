"""Revisions of a template."""

from __future__ import annotations

from dray.controllers.workloads import history


def test_revisions_in_use_are_kept_and_the_oldest_others_go():
    known = [{"metadata": {"name": f"r{i}"}, "revision": i} for i in range(5)]
    gone = history.truncation_candidates(known, in_use={"r0"}, limit=2)
    assert [r["metadata"]["name"] for r in gone] == ["r1", "r2"]
