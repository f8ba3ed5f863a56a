from __future__ import annotations

from dray.allocation import DEFAULT, PACK, POLICIES, SPREAD, DeviceID, Plan, Usage
from tests.support.allocation import (
    DRIVER,
    claim,
    counter_set,
    device,
    devices_of,
    draws,
    inventory,
    request,
    resource_slice,
    run,
)


def taken(*names: str, pool: str = "pool") -> Usage:
    usage = Usage()
    for name in names:
        usage.take(DeviceID(DRIVER, pool, name))
    return usage


def test_pack_prefers_the_pool_in_use_and_spread_the_other() -> None:
    stock = inventory(
        resource_slice(device("a0"), device("a1"), device("a2"), name="a", pool="a"),
        resource_slice(device("b0"), device("b1"), device("b2"), name="b", pool="b"),
    )
    usage = taken("b0", pool="b")
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=DEFAULT)) == [["a0"]]
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=PACK)) == [["b1"]]
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=SPREAD)) == [["a0"]]
    usage = taken("a0", pool="a")
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=SPREAD)) == [["b0"]]


def test_packing_keeps_groups_of_devices_whole() -> None:
    devices = [device(f"d{i}", attributes={"root": f"r{i // 2}", "uuid": f"u{i}"}) for i in range(4)]
    stock = inventory(resource_slice(*devices))
    usage = taken("d3")
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=PACK)) == [["d2"]]
    assert devices_of(run(stock, claim(request("r")), usage=usage, policy=SPREAD)) == [["d0"]]


def test_packing_keeps_large_partitions_whole() -> None:
    devices = [
        device("half", consumesCounters=draws("one", mem=2)),
        device("whole", consumesCounters=draws("two", mem=4)),
        device("slice", consumesCounters=draws("two", mem=1)),
        device("broken", consumesCounters=draws("one", mem=1)),
    ]
    stock = inventory(
        resource_slice(
            name="counters", counters=[counter_set("one", mem=4), counter_set("two", mem=4)], of=2
        ),
        resource_slice(*devices, name="devices", of=2),
    )
    assert devices_of(run(stock, claim(request("r")), policy=PACK)) == [["slice"]]
    assert devices_of(run(stock, claim(request("r")), usage=taken("half"), policy=PACK)) == [["broken"]]


def test_pack_prefers_shared_devices_in_use() -> None:
    shared = [device(f"d{i}", allowMultipleAllocations=True, capacity={"m": "4"}) for i in range(2)]
    stock, usage = inventory(resource_slice(*shared)), Usage()
    usage.share(DeviceID(DRIVER, "pool", "d1"), "s")
    usage.consume(DeviceID(DRIVER, "pool", "d1"), {"m": "1"})
    asks = claim(request("r", capacity={"requests": {"m": "1"}}))
    assert devices_of(run(stock, asks, usage=usage, policy=PACK)) == [["d1"]]
    assert devices_of(run(stock, asks, usage=usage, policy=SPREAD)) == [["d0"]]


def test_whatever_the_policy_a_plan_is_found_if_there_is_one() -> None:
    devices = [device(f"d{i}", attributes={"root": f"r{i // 2}"}) for i in range(6)]
    stock = inventory(resource_slice(*devices))
    asks = claim(request("r", 2), constraints=[{"matchAttribute": f"{DRIVER}/root"}])
    for policy in POLICIES.values():
        assert isinstance(run(stock, asks, usage=taken("d0", "d3"), policy=policy), Plan)


def test_devices_with_binding_conditions_stay_last() -> None:
    stock = inventory(
        resource_slice(device("w0", bindingConditions=["ready"]), device("w1"), name="a", pool="a"),
        resource_slice(device("d0"), device("d1"), device("d2"), name="b", pool="b"),
    )
    for policy in (PACK, SPREAD):
        assert devices_of(run(stock, claim(request("r")), policy=policy)) == [["d0"]]
