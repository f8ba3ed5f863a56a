from __future__ import annotations

from typing import Any

import pytest

from dray.allocation import AllocationError, DeviceID, Features, Inventory, Plan, Unallocatable, Usage
from dray.allocation.consumable_capacity import consumption
from dray.api.quantity import Quantity
from dray.api.release import V1_36
from tests.support.allocation import (
    DRIVER,
    claim,
    device,
    devices_of,
    inventory,
    request,
    resource_slice,
    run,
)

RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "8Gi", "step": "2Gi"}}
VALUES = {"default": "2", "validValues": ["2", "4", "8"]}


def shared(*capacities: Any, name: str = "memory") -> Inventory:
    devices = [
        device(f"d{i}", allowMultipleAllocations=True, capacity={name: c}) for i, c in enumerate(capacities)
    ]
    return inventory(resource_slice(*devices))


def asking(amount: str, of: str = "memory", *, name: str = "claim") -> dict[str, Any]:
    return claim(request("r", capacity={"requests": {of: amount}}), name=name)


@pytest.mark.parametrize(
    ("wanted", "policy", "expected"),
    [
        (None, None, "10Gi"),
        (None, RANGE, "1Gi"),
        ("3Gi", None, "3Gi"),
        ("500Mi", RANGE, "1Gi"),
        ("1Gi", RANGE, "1Gi"),
        ("2Gi", RANGE, "3Gi"),
        ("3Gi", RANGE, "3Gi"),
        ("3", VALUES, "4"),
        ("9", VALUES, "9"),
        ("5Gi", {"validRange": {"min": "1Gi"}}, "5Gi"),
    ],
)
def test_requests_are_rounded_up_to_what_the_policy_allows(
    wanted: str | None, policy: Any, expected: str
) -> None:
    capacity = {"value": "10Gi", **({"requestPolicy": policy} if policy else {})}
    asked = Quantity.parse(wanted) if wanted else None
    for features in (Features.for_release(V1_36), Features()):
        assert str(consumption(asked, capacity, features)) == expected


def test_fractions_of_a_step_are_honoured_from_137_on() -> None:
    policy = {"validRange": {"min": "200m", "max": "1", "step": "100m"}}
    capacity = {"value": "1", "requestPolicy": policy}
    asked = Quantity.parse("250m")
    assert str(consumption(asked, capacity, Features(fractional_capacity=True))) == "300m"


def test_one_device_serves_many_until_it_is_full() -> None:
    stock, usage = shared("10Gi"), Usage()
    for name in ("a", "b"):
        asks = asking("4Gi", name=name)
        plan = run(stock, asks, usage=usage)
        assert isinstance(plan, Plan)
        (result,) = plan.results[0]["devices"]["results"]
        assert result["consumedCapacity"] == {"memory": "4Gi"}
        assert result["shareID"]
        result["shareID"] = name
        usage.add(asks, plan.results[0])
    assert isinstance(run(stock, asking("4Gi"), usage=usage), Unallocatable)
    assert isinstance(run(stock, asking("2Gi"), usage=usage), Plan)


def test_claims_of_one_pod_share_a_device_too_but_a_request_gets_it_once() -> None:
    stock = shared("4", "4")
    assert devices_of(run(stock, asking("3", name="a"), asking("1", name="b"), asking("1", name="c"))) == [
        ["d0"],
        ["d0"],
        ["d1"],
    ]
    both = claim(request("r", 2, capacity={"requests": {"memory": "1"}}))
    assert devices_of(run(stock, both)) == [["d0", "d1"]]


def test_the_search_backtracks_when_capacity_does_not_suffice() -> None:
    stock = shared("6", "4")
    asks = [asking(amount, name=amount) for amount in ("2", "4", "4")]
    assert devices_of(run(stock, *asks)) == [["d0"], ["d0"], ["d1"]]
    asks = [asking(amount, name=amount) for amount in ("2", "2", "6")]
    assert devices_of(run(stock, *asks)) == [["d1"], ["d1"], ["d0"]]


def test_a_device_without_the_requested_capacity_is_not_allocated() -> None:
    assert isinstance(run(shared("4"), asking("1", "bandwidth")), Unallocatable)


def test_amounts_outside_of_the_request_policy_are_not_allocated() -> None:
    assert isinstance(run(shared({"value": "10Gi", "requestPolicy": RANGE}), asking("9Gi")), Unallocatable)
    assert isinstance(run(shared({"value": "10", "requestPolicy": VALUES}), asking("9")), Unallocatable)


def test_a_device_that_is_not_shared_is_taken_whole() -> None:
    stock = inventory(resource_slice(device("d0", capacity={"memory": "10Gi"})))
    plan = run(stock, asking("1Gi"))
    assert isinstance(plan, Plan)
    (result,) = plan.results[0]["devices"]["results"]
    assert "consumedCapacity" not in result
    assert "shareID" not in result
    assert isinstance(run(stock, asking("11Gi")), Unallocatable)
    assert isinstance(run(stock, asking("1Gi", name="a"), asking("1Gi", name="b")), Unallocatable)


def test_all_devices_leaves_out_full_ones_in_136_and_fails_because_of_them_in_137() -> None:
    stock, usage = shared("4", "4"), Usage()
    usage.consume(DeviceID(DRIVER, "pool", "d0"), {"memory": "4"})
    asks = claim(request("r", "All", capacity={"requests": {"memory": "1"}}))
    assert devices_of(
        run(stock, asks, usage=usage, features=Features.for_release(V1_36, consumable_capacity=True))
    ) == [["d1"]]
    later = Features(consumable_capacity=True)
    assert isinstance(run(stock, asks, usage=usage, features=later), Unallocatable)


def test_amounts_that_cannot_be_computed_with_are_an_error_from_137_on() -> None:
    policy = {"validRange": {"min": "1", "step": "2"}}
    stock = shared({"value": "10", "requestPolicy": policy})
    with pytest.raises(AllocationError, match=r"checking capacity for device .* cannot be represented"):
        run(stock, asking("9223372036854775807000"), features=Features(consumable_capacity=True))
    with pytest.raises(AllocationError, match="capacity value is negative"):
        run(shared("10"), asking("-1"), features=Features(consumable_capacity=True))
