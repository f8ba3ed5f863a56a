"""Devices that stand for cpu or memory of their node."""

from __future__ import annotations

from typing import Any

import pytest

from dray.placement.cache.pods import PodInfo
from dray.placement.outcome import Bind, Failure, Unschedulable
from dray.placement.plugins.dynamic_resources import NodePlan
from tests.support.scheduler import Harness, claim, node, pod, reservation


def cores(name: str, factor: str = "2", **mapping: Any) -> dict[str, Any]:
    return {
        "name": name,
        "nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": factor, **mapping}},
    }


def user(stage: Harness, *wanted: dict[str, Any], refers: bool = True, **spec: Any) -> PodInfo:
    """A pod whose only container refers to all its claims, or to none."""
    made = stage.user(*wanted, **spec)
    if refers:
        container = made.document["spec"]["containers"][0]
        container["resources"]["claims"] = [{"name": f"c{i}"} for i in range(len(wanted))]
    return made


def plan_of(stage: Harness, wanted: PodInfo) -> NodePlan:
    return reservation(stage.decide(wanted)).plan


def message(stage: Harness, wanted: PodInfo) -> str:
    decision = stage.decide(wanted)
    assert isinstance(decision, Unschedulable)
    return decision.message


def test_the_status_says_for_each_claim_what_its_devices_stand_for() -> None:
    stage = Harness({"a": [cores("c0"), cores("c1")]})
    plan = plan_of(stage, user(stage, claim("z"), claim("b")))
    assert plan.node_allocatable == [
        {"resourceClaimName": "b", "containers": ["main"], "resources": {"cpu": "2"}},
        {"resourceClaimName": "z", "containers": ["main"], "resources": {"cpu": "2"}},
    ]


def test_since_1_37_devices_and_their_overhead_are_told_apart_and_both_count() -> None:
    cpu = {"mapping": {"deviceMultiplier": "2"}, "overhead": {"perPod": "500m", "perContainer": "250m"}}
    stage = Harness({"a": [{"name": "c0", "nodeAllocatableResources": {"cpu": cpu}}]})
    wanted = user(stage, claim("b"))
    plan = plan_of(stage, wanted)
    assert plan.node_allocatable == [
        {
            "resourceClaimName": "b",
            "containers": ["main"],
            "mapping": [{"name": "cpu", "quantity": "2"}],
            "overhead": [{"name": "cpu", "perPod": "500m", "perContainer": "250m"}],
        }
    ]
    assert wanted.with_node_allocatable(plan.node_allocatable).node_allocatable.cpu == 2750
    assert "Insufficient cpu" in message(stage, user(stage, claim("c"), requests={"cpu": "1500m"}))


def test_devices_of_one_claim_add_up() -> None:
    stage = Harness({"a": [cores("c0", "1500m"), cores("c1", "500m")]})
    plan = plan_of(stage, user(stage, claim("b", count=2)))
    assert plan.node_allocatable[0]["resources"] == {"cpu": "2"}


def test_ordinary_devices_take_nothing_of_the_node() -> None:
    stage = Harness({"a": ["gpu-0"]})
    plan = plan_of(stage, user(stage, claim()))
    assert plan.node_allocatable == ()


def test_claims_and_requests_together_must_fit_the_node() -> None:
    stage = Harness({"a": [cores("c0", "3")]})
    text = message(stage, user(stage, claim(), requests={"cpu": "2"}))
    assert text.startswith("0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 ")


def test_what_claims_of_other_pods_take_is_not_free() -> None:
    stage = Harness({"a": [cores("c0", "3"), cores("c1", "3")]})
    first = user(stage, claim("one"))
    plan = plan_of(stage, first)
    stage.cluster.add_pod(first.with_node_allocatable(plan.node_allocatable), "a")
    assert isinstance(stage.decide(pod(requests={"cpu": "2"})), Unschedulable)
    stage.cluster.remove_pod(first.uid)
    assert isinstance(stage.decide(pod(requests={"cpu": "2"})), Bind)


def test_a_bound_pod_is_counted_again_when_its_status_says_what_its_claims_take() -> None:
    stage = Harness({"a": []})
    plain = pod()
    stage.cluster.add_pod(plain, "a")
    holding = plain.with_node_allocatable(
        [{"resourceClaimName": "c", "containers": ["main"], "resources": {"cpu": "3"}}]
    )
    assert not stage.cluster.confirm(holding, "a")


def test_the_consumed_capacity_counts_where_the_device_says_so() -> None:
    shareable = {
        **cores("c0", capacityKey="gpu.example.com/cores"),
        "allowMultipleAllocations": True,
        "capacity": {"gpu.example.com/cores": {"value": "8"}},
    }
    stage = Harness({"a": [shareable]})
    stage.cluster.set_node(node("a", cpu="64"))
    plan = plan_of(stage, user(stage, claim("b")))
    assert plan.node_allocatable[0]["resources"] == {"cpu": "16"}


def test_a_device_that_leaves_open_how_much_it_takes_is_an_error() -> None:
    stage = Harness({"a": [cores("c0", capacityKey="cores")]})
    decision = stage.decide(user(stage, claim("b")))
    assert decision == Failure(
        'running "DynamicResources" filter plugin: claim default/b, device c0: ConsumedCapacity is nil, '
        "but Capacity key 'cores' is set in NodeAllocatableResourceMappings for resource cpu"
    )


def test_a_claim_that_no_container_refers_to_fits_no_node() -> None:
    stage = Harness({"a": [cores("c0")]})
    text = "claim b: node-allocatable resource claim not referenced by any container within the pod"
    assert f"0/1 nodes are available: 1 {text}. preemption" in message(
        stage, user(stage, claim("b"), refers=False)
    )


def test_pod_level_requests_must_cover_the_claims() -> None:
    stage = Harness({"a": [cores("c0", "3")]})
    whole = {"requests": {"cpu": "2"}}
    assert "pod level request for cpu is insufficient to cover" in message(
        stage, user(stage, claim(), resources=whole)
    )
    assert isinstance(stage.decide(user(stage, claim(), resources={"requests": {"cpu": "4"}})), Bind)


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (1, "node allocatable resource claim b is already used by another pod"),
        (2, "node allocatable resource claim b shared by multiple pods"),
    ],
)
def test_a_claim_for_resources_of_the_node_is_not_shared(others: int, said: str) -> None:
    stage = Harness({"a": [cores("c0")]})
    wanted = claim("b", allocation={"devices": {"results": []}})
    for _ in range(others):
        held = [{"resourceClaimName": "b", "containers": ["main"], "resources": {"cpu": "1"}}]
        stage.cluster.add_pod(pod().with_node_allocatable(held), "a")
    assert f"1 {said}." in message(stage, user(stage, wanted))
