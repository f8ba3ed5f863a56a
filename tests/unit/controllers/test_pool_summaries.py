"""What a pool's status says about partitions and shared devices."""

from __future__ import annotations

from typing import Any

from dray.controllers.pool_summaries import PoolDevices, summarize

DRIVER = "gpu.example.com"


def part(name: str, kind: str | None, memory: str) -> Any:
    cost = [{"counterSet": "cs", "counters": {"mem": {"value": memory}}}]
    attributes = {"profile": {"string": kind}} if kind else {}
    return {"name": name, "consumesCounters": cost, "attributes": attributes}


def pool(*devices: Any, counters: bool = True, attribute: str = f"{DRIVER}/profile") -> PoolDevices:
    found = PoolDevices()
    spec: Any = {"devices": list(devices)}
    if attribute:
        spec["partitionTypeAttribute"] = attribute
    found.add(spec)
    if counters:
        found.add({"sharedCounters": [{"name": "cs", "counters": {"mem": {"value": "80Gi"}}}]})  # type: ignore[typeddict-item]
    return found


def counts(found: PoolDevices, *taken: str) -> dict[str, tuple[int, int]]:
    summaries = summarize(DRIVER, "p", found, set(taken), default_attribute="")
    assert not summaries.error, summaries.error
    return {one["type"]: (one["total"], one["allocatable"]) for one in summaries.partitions}


def test_each_type_is_counted_as_if_no_other_were_allocated():
    parts = [part("f", "Full", "80Gi"), part("h0", "Half", "40Gi"), part("h1", "Half", "40Gi"), part("q", "Quarter", "20Gi")]  # fmt: skip
    assert counts(pool(*parts)) == {"Full": (1, 1), "Half": (2, 2), "Quarter": (1, 1)}
    assert counts(pool(*parts), "h0") == {"Full": (1, 0), "Half": (2, 1), "Quarter": (1, 1)}


def test_what_is_wrong_with_partitions_is_told():
    def error(found: PoolDevices) -> str:
        return summarize(DRIVER, "p", found, set(), default_attribute=f"{DRIVER}/profile").error

    assert error(pool(part("a", "Full", "1Gi"), counters=False)).startswith("PartitionTypeMissing: pool")
    assert 'device "a" in pool' in error(pool(part("a", None, "1Gi"), attribute=""))
    assert error(pool(part("a", "x", "1Gi"), part("b", "x", "2Gi"))).startswith("PartitionCostMismatch:")


def test_shared_devices_are_summed_up():
    shared = [
        {"name": n, "allowMultipleAllocations": True, "capacity": {"mem": {"value": "8Gi"}}} for n in "ab"
    ]
    found = pool(*shared, counters=False, attribute="")
    found.consume({"mem": "2Gi"})
    assert summarize(DRIVER, "p", found, {"a"}, default_attribute="").shareable == {
        "fullyAvailableDevices": 1,
        "partiallyAvailableDevices": 1,
        "capacity": [{"name": "mem", "total": "16Gi", "consumed": "2Gi", "available": "14Gi"}],
    }
