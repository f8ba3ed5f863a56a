from __future__ import annotations

import pytest

from dray.allocation import AllocationError, Features, Plan, Unallocatable
from dray.api.release import V1_36, V1_37
from tests.support.allocation import (
    EVERYTHING,
    claim,
    counter_set,
    device,
    devices_of,
    draws,
    inventory,
    node,
    request,
    resource_slice,
    run,
)


def test_only_the_newest_generation_counts() -> None:
    stock = inventory(
        resource_slice(device("old"), name="a", generation=1),
        resource_slice(device("new"), name="b", generation=2),
    )
    assert devices_of(run(stock, claim(request("r")))) == [["new"]]


def test_an_incomplete_pool_offers_nothing() -> None:
    stock = inventory(resource_slice(device("d"), of=2))
    assert isinstance(run(stock, claim(request("r"))), Unallocatable)


def test_all_devices_of_an_incomplete_pool_is_an_error() -> None:
    stock = inventory(resource_slice(device("d"), of=2))
    with pytest.raises(
        AllocationError, match=r"resource pool gpu.example.com/pool is currently being updated"
    ):
        run(stock, claim(request("r", "All")))


def test_slices_for_other_nodes_complete_a_pool() -> None:
    stock = inventory(
        resource_slice(device("here"), name="a", of=2),
        resource_slice(device("there"), name="b", node="other", of=2),
    )
    assert devices_of(run(stock, claim(request("r")))) == [["here"]]


def test_an_old_generation_is_ignored_once_the_new_one_is_seen_elsewhere() -> None:
    stock = inventory(
        resource_slice(device("here"), name="a", of=2),
        resource_slice(device("there"), name="b", node="other", generation=2, of=2),
    )
    assert isinstance(run(stock, claim(request("r"))), Unallocatable)


def test_duplicate_device_names_make_a_pool_invalid() -> None:
    stock = inventory(resource_slice(device("d"), device("d")))
    outcome = run(stock, claim(request("r")))
    assert isinstance(outcome, Unallocatable)
    assert outcome.message == "invalid resource pools were encountered"


def test_an_invalid_pool_does_not_keep_others_from_being_used() -> None:
    stock = inventory(
        resource_slice(device("d"), device("d"), name="a", pool="bad"),
        resource_slice(device("e"), name="b", pool="ok"),
    )
    assert devices_of(run(stock, claim(request("r")))) == [["e"]]


@pytest.mark.parametrize(
    ("drawn", "reason"),
    [("nowhere", "counter set nowhere not found"), ("set", "counter x not found in counter set set")],
)
def test_consuming_undeclared_counters_makes_a_pool_invalid(drawn: str, reason: str) -> None:
    stock = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=1)], of=2),
        resource_slice(device("d", consumesCounters=draws(drawn, x=1)), name="devices", of=2),
    )
    outcome = run(stock, claim(request("r")))
    assert isinstance(outcome, Unallocatable)
    assert outcome.message == "invalid resource pools were encountered"
    assert outcome.reasons.pools == (f"gpu.example.com/pool: {reason}",)


def test_136_shows_a_pool_with_invalid_counters_to_every_node() -> None:
    broken = resource_slice(
        name="counters", node="other", pool="elsewhere", counters=[counter_set("set", mem=1)] * 2
    )
    stock = inventory(resource_slice(device("d")), broken)
    for release, message in (
        (V1_36, "invalid resource pools were encountered"),
        (V1_37, "cannot allocate all claims"),
    ):
        features = Features.for_release(release, partitionable_devices=True)
        outcome = run(stock, claim(request("r", 2)), features=features)
        assert isinstance(outcome, Unallocatable)
        assert outcome.message == message


def test_slices_are_tried_by_name_and_pools_too() -> None:
    stock = inventory(
        resource_slice(device("p2"), name="x", pool="pool-2"),
        resource_slice(device("second"), name="b", pool="pool-1", of=2),
        resource_slice(device("first"), name="a", pool="pool-1", of=2),
    )
    assert devices_of(run(stock, claim(request("r", 3)))) == [["first", "second", "p2"]]


def test_pools_with_binding_conditions_come_last() -> None:
    stock = inventory(
        resource_slice(device("waits", bindingConditions=["ready"]), name="a", pool="a"),
        resource_slice(device("ready"), name="b", pool="b"),
    )
    assert devices_of(run(stock, claim(request("r")))) == [["ready"]]


def test_without_the_feature_devices_with_binding_conditions_are_left_out() -> None:
    stock = inventory(resource_slice(device("waits", bindingConditions=["ready"])))
    assert isinstance(run(stock, claim(request("r")), features=Features.for_release(V1_36)), Unallocatable)


@pytest.mark.parametrize(
    ("selection", "seen"),
    [
        ({"allNodes": True}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "In", "values": ["b"]}]}]}}, False),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["b"]}]}]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpus", "operator": "Gt", "values": ["3"]}]}]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "gpus", "operator": "Lt", "values": ["3"]}]}]}}, False),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "Exists"}]}]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}]}}, False),
        ({"nodeSelector": {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node"]}]}]}}, True),
        ({"nodeSelector": {"nodeSelectorTerms": [{}]}}, False),
        ({}, False),
    ],
)  # fmt: skip
def test_a_slice_is_for_the_nodes_it_selects(selection: dict[str, object], seen: bool) -> None:
    stock = inventory(resource_slice(device("d"), node=None, **selection))
    outcome = run(stock, claim(request("r")), on=node(zone="a", gpus="4"))
    assert isinstance(outcome, Plan) is seen


def test_each_device_may_select_its_own_nodes() -> None:
    stock = inventory(
        resource_slice(
            device("there", nodeName="other"),
            device("here", nodeName="node"),
            device("anywhere", allNodes=True),
            node=None,
            perDeviceNodeSelection=True,
        )
    )
    assert devices_of(run(stock, claim(request("r", "All")))) == [["here", "anywhere"]]
    assert isinstance(run(stock, claim(request("r")), features=Features.for_release(V1_36)), Unallocatable)


def test_an_unknown_operator_is_an_error_that_names_the_slice() -> None:
    term = {"matchExpressions": [{"key": "zone", "operator": "Near", "values": ["a"]}]}
    stock = inventory(resource_slice(device("d"), node=None, nodeSelector={"nodeSelectorTerms": [term]}))
    with pytest.raises(
        AllocationError, match=r"^gather pool information: failed to perform node selection for slice slice: "
    ):
        run(stock, claim(request("r")), features=EVERYTHING)
