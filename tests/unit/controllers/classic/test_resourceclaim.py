"""Claims of the classic generation: who gives back what, and when a driver is asked."""

from __future__ import annotations

from typing import Any

import pytest

from dray.controllers.classic.resourceclaim import (
    FINALIZER,
    needs_pod_scheduling_context,
    released_status,
    should_reserve,
)


def claim(*reserved: str, mode: str = "WaitForFirstConsumer", **more: Any) -> dict[str, Any]:
    metadata: dict[str, Any] = {"name": "c", "finalizers": [FINALIZER] if more.get("structured") else ["d/x"]}
    if more.get("deleting"):
        metadata["deletionTimestamp"] = "now"
    status: dict[str, Any] = {"reservedFor": [{"uid": uid} for uid in reserved]}
    if more.get("allocated", True):
        status["allocation"] = {"shareable": more.get("shareable", False)}
    return {"metadata": metadata, "spec": {"allocationMode": mode}, "status": status}


POD = {"metadata": {"uid": "p", "name": "p", "namespace": "n"}, "spec": {"nodeName": "a"}}


def test_a_driver_is_asked_to_deallocate_when_the_last_user_goes() -> None:
    status = released_status(claim("p"), [])
    assert status is not None
    assert status["deallocationRequested"] is True
    assert "allocation" in status


def test_what_the_scheduler_allocated_is_cleared_when_the_last_user_goes() -> None:
    status = released_status(claim("p", structured=True), [])
    assert status is not None
    assert "allocation" not in status
    assert "deallocationRequested" not in status


@pytest.mark.parametrize("structured", [True, False])
def test_an_immediate_claim_stays_allocated(structured: bool) -> None:
    status = released_status(claim("p", mode="Immediate", structured=structured), [])
    assert status is not None
    assert "allocation" in status
    assert "deallocationRequested" not in status


def test_a_claim_that_is_still_used_only_loses_who_has_gone() -> None:
    status = released_status(claim("p", "q"), [{"uid": "q"}])
    assert status is not None
    assert status["reservedFor"] == [{"uid": "q"}]
    assert "deallocationRequested" not in status


def test_a_deleted_claim_of_the_scheduler_gives_its_allocation_up() -> None:
    assert released_status(claim(structured=True, mode="Immediate"), []) is None
    status = released_status(claim(structured=True, mode="Immediate", deleting=True), [])
    assert status is not None
    assert "allocation" not in status


def test_a_pod_that_has_a_node_asks_the_driver_only_for_delayed_claims() -> None:
    assert needs_pod_scheduling_context(POD, claim(allocated=False))
    assert not needs_pod_scheduling_context(POD, claim(allocated=False, mode="Immediate"))
    assert not needs_pod_scheduling_context(POD, claim())
    assert not needs_pod_scheduling_context({**POD, "spec": {}}, claim(allocated=False))


def test_a_claim_in_use_is_reserved_again_only_if_it_can_be_shared() -> None:
    assert should_reserve(POD, claim())
    assert not should_reserve(POD, claim("q"))
    assert should_reserve(POD, claim("q", shareable=True))
    assert not should_reserve(POD, claim("p"))
