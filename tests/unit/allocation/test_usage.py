from __future__ import annotations

from typing import Any

from dray.allocation import DeviceID, Plan, PoolID, Unallocatable, Usage
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

POOL = PoolID(DRIVER, "pool")


def allocated(name: str, *devices: str, **fields: Any) -> dict[str, Any]:
    results = [{"request": "r", "driver": DRIVER, "pool": "pool", "device": d, **fields} for d in devices]
    return {**claim(name=name), "status": {"allocation": {"devices": {"results": results}}}}


def test_what_is_taken_is_not_given_again_until_it_is_returned() -> None:
    stock, usage = inventory(resource_slice(device("d0"), device("d1"))), Usage()
    holder = allocated("holder", "d0")
    assert usage.add(holder) == [POOL]
    assert devices_of(run(stock, claim(request("r")), usage=usage)) == [["d1"]]
    assert isinstance(run(stock, claim(request("r", 2)), usage=usage), Unallocatable)
    assert usage.remove(holder) == [POOL]
    assert devices_of(run(stock, claim(request("r", 2)), usage=usage)) == [["d0", "d1"]]


def test_an_assumed_allocation_counts_before_it_is_written() -> None:
    stock, usage = inventory(resource_slice(device("d0"), device("d1"))), Usage()
    first = claim(request("r"), name="first")
    plan = run(stock, first, usage=usage)
    assert isinstance(plan, Plan)
    usage.add(first, plan.results[0])
    assert devices_of(run(stock, claim(request("r")), usage=usage)) == [["d1"]]
    assert list(usage.owners(DeviceID(DRIVER, "pool", "d0"))) == ["default/first"]


def test_a_snapshot_does_not_change() -> None:
    usage = Usage()
    before = usage.snapshot()
    usage.add(allocated("holder", "d0"))
    assert not before.of(POOL).taken
    assert usage.of(POOL).taken == {"d0": "default/holder"}


def test_the_usage_of_an_unchanged_pool_stays_the_same_object() -> None:
    usage = Usage()
    usage.add(allocated("holder", "d0"))
    part = usage.of(POOL)
    usage.take(DeviceID(DRIVER, "another", "d0"))
    assert usage.of(POOL) is part


def test_admin_access_uses_no_device() -> None:
    usage = Usage()
    assert usage.add(allocated("looking", "d0", adminAccess=True)) == []
    assert not usage.of(POOL).touches("d0")


def test_shares_add_up_and_come_back() -> None:
    usage = Usage()
    one = allocated("one", "d0", shareID="1", consumedCapacity={"memory": "1Gi"})
    two = allocated("two", "d0", shareID="2", consumedCapacity={"memory": "2Gi"})
    usage.add(one)
    usage.add(two)
    part = usage.of(POOL)
    assert part.consumed == {"d0": {"memory": 3 * 2**30 * 10**9}}
    assert set(usage.owners(DeviceID(DRIVER, "pool", "d0"))) == {"default/one", "default/two"}
    usage.remove(one)
    usage.remove(two)
    assert not usage.of(POOL).touches("d0")


def test_without_sharing_a_share_takes_the_device() -> None:
    usage = Usage(sharing=False)
    usage.add(allocated("one", "d0", shareID="1", consumedCapacity={"memory": "1Gi"}))
    assert usage.of(POOL).taken == {"d0": "default/one"}
    usage.remove(allocated("one", "d0", shareID="1", consumedCapacity={"memory": "1Gi"}))
    assert not usage.of(POOL).taken


def test_claims_recorded_at_once_are_as_if_recorded_one_by_one() -> None:
    claims = [
        allocated("one", "d0", "d1"),
        allocated("two", "d2", shareID="s1", consumedCapacity={"memory": "2Gi"}),
        allocated("three", "d2", shareID="s2", consumedCapacity={"memory": "3Gi"}),
        allocated("admin", "d3", adminAccess=True),
        allocated("later", "d0"),
        claim(name="pending"),
    ]
    for sharing in (True, False):
        at_once, by_and_by = Usage.by(claims, sharing=sharing), Usage(sharing=sharing)
        for one in claims:
            by_and_by.add(one)
        found, wanted = at_once.of(POOL), by_and_by.of(POOL)
        assert (found.taken, found.shares, found.consumed) == (wanted.taken, wanted.shares, wanted.consumed)


def test_a_claim_that_lost_its_device_does_not_free_it() -> None:
    usage = Usage()
    ours, theirs = allocated("ours", "d0"), allocated("theirs", "d0")
    usage.add(ours)  # promised, but another scheduler was faster
    usage.add(theirs)
    usage.remove(ours)
    assert list(usage.owners(DeviceID(DRIVER, "pool", "d0"))) == ["default/theirs"]
    usage.remove(theirs)
    assert list(usage.owners(DeviceID(DRIVER, "pool", "d0"))) == []
