"""Requests for the status of pools."""

from __future__ import annotations

from typing import Any

from dray.api.times import from_epoch
from dray.client.resources import RESOURCE_POOL_STATUS_REQUESTS
from dray.controllers.resourcepoolstatusrequest import (
    CountingRules,
    is_incomplete,
    pool_status,
    ttl_remaining,
)
from tests.support.controlplane import ControlPlane

DRIVER = "d.example.com"
PLAIN = CountingRules(once=False, taints=False)


def slice_(pool: str, *devices: Any, generation: int = 1, count: int = 1, node: str = "") -> dict:
    listed = [{"name": d} if isinstance(d, str) else d for d in devices]
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": count},
        "devices": listed,
    }
    return {
        "metadata": {"name": f"{pool}-{generation}"},
        "spec": {**spec, "nodeName": node} if node else spec,
    }


def claim(*devices: str, pool: str = "a", **result: Any) -> dict:
    results = [{"driver": DRIVER, "pool": pool, "device": d, **result} for d in devices]
    return {"status": {"allocation": {"devices": {"results": results}}}}


def ask(slices: list, claims: list | tuple = (), *, counting: CountingRules = PLAIN, **spec: Any) -> dict:
    return pool_status({"spec": {"driver": DRIVER, **spec}}, slices, claims, counting=counting, now="now")


def test_devices_are_counted_by_pool():
    found = ask([slice_("b", "x"), slice_("a", "x", "y", "z", node="n")], [claim("x"), claim("y")])
    assert found["poolCount"] == 2
    assert found["pools"][0] == {
        "driver": DRIVER,
        "poolName": "a",
        "generation": 1,
        "nodeName": "n",
        "resourceSliceCount": 1,
        "totalDevices": 3,
        "allocatedDevices": 2,
        "availableDevices": 1,
        "unavailableDevices": 0,
    }
    assert found["pools"][1]["poolName"] == "b"
    assert "nodeName" not in found["pools"][1]
    assert found["conditions"][0]["message"] == "Calculated status for 2 pools"


def test_only_the_newest_generation_and_the_driver_asked_for_count():
    other = slice_("a", "o")
    other["spec"]["driver"] = "other.example.com"
    old, new = slice_("a", "x", "y"), slice_("a", "x", generation=2)
    for slices in ([old, new, other], [new, other, old]):
        (pool,) = ask(slices)["pools"]
        assert (pool["generation"], pool["totalDevices"]) == (2, 1)


def test_a_pool_spread_over_nodes_has_no_node():
    first, second = slice_("a", "x", count=2, node="n"), slice_("a", "y", count=2, node="m")
    (pool,) = ask([first, second])["pools"]
    assert "nodeName" not in pool
    assert (pool["resourceSliceCount"], pool["totalDevices"]) == (2, 2)


def test_an_incomplete_pool_says_so_instead_of_counting():
    found = ask([slice_("a", "x", count=3)])
    assert is_incomplete(found)
    assert found["pools"] == [
        {
            "driver": DRIVER,
            "poolName": "a",
            "generation": 1,
            "validationError": f"pool {DRIVER}/a is incomplete: observed 1/3 slices at generation 1",
        }
    ]
    assert found["conditions"][0]["message"] == "Calculated status for 1 pools (1 incomplete)"


def test_the_limit_cuts_the_list_and_not_the_count():
    found = ask([slice_(p, "x") for p in "cab"], limit=2)
    assert found["poolCount"] == 3
    assert [p["poolName"] for p in found["pools"]] == ["a", "b"]
    assert [p["poolName"] for p in ask([slice_(p, "x") for p in "cab"], poolName="c")["pools"]] == ["c"]


def test_a_shared_device_is_counted_once_and_observers_not_at_all():
    claims = [claim("x"), claim("x"), claim("y", adminAccess=True)]
    (pool,) = ask([slice_("a", "x", "y")], claims, counting=CountingRules())["pools"]
    assert (pool["allocatedDevices"], pool["availableDevices"]) == (1, 1)
    (pool,) = ask([slice_("a", "x", "y")], claims)["pools"]
    assert (pool["allocatedDevices"], pool["availableDevices"]) == (3, 0), "as it was at first"


def test_tainted_devices_are_unavailable():
    tainted = {"name": "x", "taints": [{"key": "k", "effect": "NoSchedule"}]}
    harmless = {"name": "y", "taints": [{"key": "k", "effect": "None"}]}
    rule = {"spec": {"deviceSelector": {"device": "z"}, "taint": {"effect": "NoExecute"}}}
    (pool,) = ask([slice_("a", tainted, harmless, "z")], counting=CountingRules(rules=(rule,)))["pools"]
    assert (pool["unavailableDevices"], pool["availableDevices"]) == (2, 1)


def test_requests_are_kept_for_an_hour_once_answered_and_for_a_day_otherwise():
    request: dict = {"metadata": {"creationTimestamp": from_epoch(1000)}}
    assert ttl_remaining(request, 2000) == 1000 + 24 * 3600 - 2000
    request["status"] = {"conditions": [{"type": "Complete", "lastTransitionTime": from_epoch(1500)}]}
    assert ttl_remaining(request, 2000) == 1500 + 3600 - 2000


async def request(s: ControlPlane, name: str = "r") -> None:
    await s.client.create(
        RESOURCE_POOL_STATUS_REQUESTS, "", {"metadata": {"name": name}, "spec": {"driver": DRIVER}}
    )
