"""Claims for extended resources that an earlier attempt, or another scheduler, has left behind."""

from __future__ import annotations

from typing import Any

from dray.placement.cache.pods import PodInfo
from dray.placement.claims import DeleteLeftover
from dray.placement.outcome import Bind, Unschedulable
from tests.support.scheduler import Harness, pod, reservation

RESOURCE = "example.com/gpu"


def stage() -> Harness:
    made = Harness({"a": ["d0", "d1"], "b": ["d0", "d1"]})
    made.claim_cache.set_class({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": RESOURCE}})
    return made


def left_behind(
    s: Harness, wanted: PodInfo, *, reserved: bool = True, **metadata: Any
) -> tuple[str, dict[str, Any]]:
    """What an attempt that was killed before it bound the pod has written; the node it had chosen, and the claim."""
    decision = s.decide(wanted)
    plan = reservation(decision).plan
    generated = plan.extended_resource_claim
    assert isinstance(decision, Bind) and generated is not None
    claim = {
        **generated,
        "metadata": {
            **generated["metadata"], "name": "made", "uid": "made-uid", "resourceVersion": "1", **metadata,
        },
        "status": {
            "allocation": plan.results[-1],
            "reservedFor": [{"resource": "pods", "name": wanted.name, "uid": wanted.uid}] if reserved else [],
        },
    }  # fmt: skip
    s.claim_cache.set_claim(claim)
    return decision.node, claim


def test_a_claim_that_is_allocated_and_reserved_is_used_again() -> None:
    s = stage()
    wanted = pod(requests={RESOURCE: "1"})
    node, claim = left_behind(s, wanted)
    again = s.decide(wanted)
    plan = reservation(again).plan
    assert isinstance(again, Bind) and again.node == node
    assert plan.extended_resource_claim is claim
    assert plan.claims == ()  # nothing more to allocate
    assert [m["resourceName"] for m in plan.mappings] == [RESOURCE]


def test_a_claim_that_is_reserved_for_nobody_is_deleted() -> None:
    s = stage()
    wanted = pod(requests={RESOURCE: "1"})
    _, claim = left_behind(s, wanted, reserved=False)
    again = s.decide(wanted)
    assert isinstance(again, Unschedulable)
    assert again.writes == (DeleteLeftover(claim),)
    assert "cannot schedule extended resource claim" in again.message


def test_a_claim_with_other_requests_is_deleted() -> None:
    s = stage()
    wanted = pod(requests={RESOURCE: "1"})
    _, claim = left_behind(s, wanted)
    more = PodInfo({**wanted.document, "spec": pod(requests={RESOURCE: "2"}).document["spec"]})
    again = s.decide(more)
    assert isinstance(again, Unschedulable) and again.writes == (DeleteLeftover(claim),)


def test_of_two_leftover_claims_the_older_is_used() -> None:
    s = stage()
    wanted = pod(requests={RESOURCE: "1"})
    _, claim = left_behind(s, wanted, creationTimestamp="2026-01-01T00:00:00Z")
    later = {**claim["metadata"], "name": "a", "uid": "other", "creationTimestamp": "2026-01-01T00:00:01Z"}
    s.claim_cache.set_claim({**claim, "metadata": later, "status": {}})
    assert s.claim_cache.extended_resource_claim(wanted.uid) is claim
