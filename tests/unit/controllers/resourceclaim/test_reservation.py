"""Reservations of claims, and what becomes of claims when their consumers are gone."""

from __future__ import annotations

from typing import Any

from dray.api.claims import FINALIZER
from dray.api.scheme.kinds import Object
from dray.controllers.resourceclaim.reservation import (
    has_needless_finalizer,
    released_status,
    should_reserve,
)


def claim(*reserved: str, allocated: bool = True, protected: bool = True, deleting: bool = False) -> Object:
    metadata: Object = {"name": "c", "finalizers": [FINALIZER, "x"] if protected else ["x"]}
    if deleting:
        metadata["deletionTimestamp"] = "now"
    status: Object = {"reservedFor": consumers(*reserved)}
    if allocated:
        status["allocation"] = {"devices": {}}
    return {"metadata": metadata, "status": status}


def consumers(*names: str) -> list[Object]:
    return [{"resource": "pods", "name": name, "uid": name} for name in names]


def test_a_consumer_is_removed_while_others_remain():
    assert released_status(claim("a", "b"), consumers("b")) == {
        "reservedFor": consumers("b"), "allocation": {"devices": {}},
    }  # fmt: skip


def test_a_claim_is_deallocated_when_its_last_consumer_is_gone():
    assert released_status(claim("a"), []) == {"reservedFor": []}


def test_a_claim_that_somebody_else_allocated_stays_allocated():
    assert "allocation" in released_status(claim("a", protected=False), [])


def test_an_allocation_that_nobody_used_stays_until_the_claim_is_deleted():
    assert released_status(claim(), []) is None
    assert released_status(claim(deleting=True), []) == {"reservedFor": []}


def test_a_claim_in_use_is_kept_even_while_it_is_deleted():
    assert released_status(claim("a", deleting=True), consumers("a")) is None
    assert not has_needless_finalizer(claim("a"))
    assert has_needless_finalizer(claim(allocated=False))


def test_reservations_are_made_for_pods_that_bypassed_the_scheduler():
    def pod(**spec: Any) -> Object:
        return {"metadata": {"uid": "p"}, "spec": spec, "status": {"phase": "Pending"}}

    assert should_reserve(pod(nodeName="n"), claim())
    assert not should_reserve(pod(), claim())
    assert not should_reserve(pod(nodeName="n"), claim(allocated=False))
    assert not should_reserve(pod(nodeName="n"), claim("p"))
    finished = {**pod(nodeName="n"), "status": {"phase": "Succeeded"}}
    assert not should_reserve(finished, claim("somebody-else")), (
        "it would be released at once, and so on for ever"
    )
