from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import DeviceID, Features, Inventory, Plan, Unallocatable, Usage
from dray.api.release import V1_36
from tests.support.allocation import (
    DRIVER,
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


def partitions(*amounts: int, total: int = 4, **fields: Any) -> Inventory:
    devices = [device(f"d{i}", consumesCounters=draws("set", mem=n), **fields) for i, n in enumerate(amounts)]
    return inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=total)], of=2),
        resource_slice(*devices, name="devices", of=2),
    )


def taken(*names: str) -> Usage:
    usage = Usage()
    for name in names:
        usage.take(DeviceID(DRIVER, "pool", name), "default/other")
    return usage


def test_devices_that_consume_the_same_counters_exclude_each_other() -> None:
    stock = partitions(3, 2, 1, 1)
    assert devices_of(run(stock, claim(request("r", 2)))) == [["d0", "d2"]]
    assert devices_of(run(stock, claim(request("r", 3)))) == [["d1", "d2", "d3"]]
    assert isinstance(run(stock, claim(request("r", 4))), Unallocatable)


def test_counters_consumed_by_allocated_devices_count() -> None:
    assert devices_of(run(partitions(2, 2, 2), claim(request("r")), usage=taken("d1"))) == [["d0"]]
    assert isinstance(run(partitions(2, 2, 2), claim(request("r", 2)), usage=taken("d1")), Unallocatable)


def test_available_counters_follow_usage() -> None:
    stock, usage = partitions(4, 4), Usage()
    asks = claim(request("r"), name="asks")
    plan = run(stock, asks, usage=usage)
    assert isinstance(plan, Plan)
    usage.add(asks, plan.results[0])
    assert isinstance(run(stock, claim(request("r")), usage=usage), Unallocatable)
    usage.remove(asks, plan.results[0])
    assert isinstance(run(stock, claim(request("r")), usage=usage), Plan)


def test_devices_that_only_other_nodes_see_consume_the_same_counters() -> None:
    stock = inventory(
        resource_slice(name="counters", node=None, allNodes=True, counters=[counter_set("set", mem=4)], of=3),
        resource_slice(device("here", consumesCounters=draws("set", mem=2)), name="a", of=3),
        resource_slice(device("there", consumesCounters=draws("set", mem=3)), name="b", node="other", of=3),
    )
    assert isinstance(run(stock, claim(request("r")), usage=taken("there")), Unallocatable)
    assert devices_of(run(stock, claim(request("r")), on=node("other"))) == [["there"]]


def test_an_overdrawn_pool_offers_no_device_that_consumes_counters() -> None:
    stock = inventory(
        resource_slice(
            name="counters", counters=[counter_set("set", mem=1), counter_set("spare", mem=9)], of=2
        ),
        resource_slice(
            device("d0", consumesCounters=draws("set", mem=2)),
            device("d1", consumesCounters=draws("spare", mem=1)),
            device("d2"),
            name="devices",
            of=2,
        ),
    )
    assert devices_of(run(stock, claim(request("r")), usage=taken("d0"))) == [["d2"]]


def test_without_the_feature_devices_that_consume_counters_are_not_allocated() -> None:
    stock = inventory(resource_slice(device("d0", consumesCounters=draws("set", mem=1)), device("d1")))
    assert devices_of(run(stock, claim(request("r")), features=Features.for_release(V1_36))) == [["d1"]]


def test_further_shares_of_a_device_consume_no_counters() -> None:
    stock = partitions(4, 1, allowMultipleAllocations=True, capacity={"bw": "2"})
    two = claim(
        request("r", capacity={"requests": {"bw": "1"}}), request("s", capacity={"requests": {"bw": "1"}})
    )
    assert devices_of(run(stock, two)) == [["d0", "d0"]]


@pytest.mark.parametrize(
    ("groups", "together"),
    [
        ((["a"], ["a"]), True),
        ((["a", "b"], ["b", "c"]), True),
        ((["a"], ["b"]), False),
        (([], []), True),
        ((["a"], []), False),
    ],
)
def test_only_compatible_groups_share_a_counter_set(
    groups: tuple[list[str], list[str]], together: bool
) -> None:
    devices = [
        device(f"d{i}", consumesCounters=[{**draws("set", mem=1)[0], "compatibilityGroups": g}])
        for i, g in enumerate(groups)
    ]
    stock = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=4)], of=2),
        resource_slice(*devices, name="devices", of=2),
    )
    features = Features(partitionable_devices=True, compatibility_groups=True)
    assert isinstance(run(stock, claim(request("r", 2)), features=features), Plan) is together
    assert isinstance(run(stock, claim(request("r")), usage=taken("d0"), features=features), Plan) is together
    if any(groups):
        off = Features(partitionable_devices=True)
        assert isinstance(run(stock, claim(request("r")), features=off), Unallocatable)


def test_backtracking_restores_the_groups_of_a_counter_set() -> None:
    def grouped(name: str, group: str, size: int) -> dict[str, Any]:
        draw = {**draws("set", mem=1)[0], "compatibilityGroups": [group]}
        return device(name, attributes={"size": size}, consumesCounters=[draw])

    stock = inventory(
        resource_slice(name="counters", counters=[counter_set("set", mem=4)], of=2),
        resource_slice(
            grouped("d0", "a", 1), grouped("d1", "b", 1), grouped("d2", "b", 2), name="devices", of=2
        ),
    )
    features = Features(partitionable_devices=True, compatibility_groups=True)
    small = f'device.attributes["{DRIVER}"].size == 1'
    large = f'device.attributes["{DRIVER}"].size == 2'
    outcome = run(stock, claim(request("r", 1, small), request("s", 1, large)), features=features)
    assert devices_of(outcome) == [["d1", "d2"]]
