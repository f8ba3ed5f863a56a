"""Keeping slices right on a server that fails, forgets and is meddled with."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.api.errors import InternalError
from dray.driver.model import Device, Pool
from dray.driver.publisher import DroppedFieldsError, Publisher
from dray.driver.resource_api import ResourceApi
from tests.support.wait import wait_for

SLICES = "/apis/resource.k8s.io/v1/resourceslices"


def devices(number: int) -> list[Device]:
    return [Device(name=f"gpu-{i}", attributes={"index": i}) for i in range(number)]


@asynccontextmanager
async def publishing(api: Any, pools: dict[str, Pool], **options: Any) -> AsyncIterator[Publisher]:
    api.put("/api/v1/nodes/las1", {"metadata": {"uid": "node-uid"}})
    publisher = Publisher(
        await ResourceApi.connect(api.client),
        "gpu.example.com",
        **{"node": "las1", "sync_delay": 0.01, **options},
    )
    publisher.publish(pools)
    task = asyncio.create_task(publisher.run())
    try:
        yield publisher
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def names(api: Any) -> list[str]:
    return [d["name"] for s in api.all("resourceslices") for d in s["spec"].get("devices") or []]


async def test_slices_appear_follow_the_driver_and_stay(api: Any) -> None:
    async with publishing(api, {"las1": Pool.of(devices(2))}) as publisher:
        await wait_for("two published devices", lambda: names(api) == ["gpu-0", "gpu-1"])
        publisher.publish({"las1": Pool.of(devices(1))})
        await wait_for("gpu-0 to be published alone", lambda: names(api) == ["gpu-0"])
        assert (publisher.counts.creates, publisher.counts.updates) == (1, 1)
    assert names(api) == ["gpu-0"]


async def test_a_deleted_slice_comes_back(api: Any) -> None:
    async with publishing(api, {"las1": Pool.of(devices(2))}):
        await wait_for("published devices", lambda: names(api))
        [found] = api.all("resourceslices")
        api.remove(f"{SLICES}/{found['metadata']['name']}")
        await wait_for("two published devices", lambda: names(api) == ["gpu-0", "gpu-1"])


async def test_a_slice_that_another_client_changed_is_restored(api: Any) -> None:
    async with publishing(api, {"las1": Pool.of(devices(1))}):
        await wait_for("published devices", lambda: names(api))
        [found] = api.all("resourceslices")
        meddled = {**found, "spec": {**found["spec"], "devices": [{"name": "foreign"}]}}
        api.put(f"{SLICES}/{found['metadata']['name']}", meddled)
        await wait_for("gpu-0 to be published alone", lambda: names(api) == ["gpu-0"])


async def test_slices_of_other_pools_and_drivers_are_left_alone(api: Any) -> None:
    def foreign(driver: str, node: str) -> dict[str, Any]:
        return {"spec": {"driver": driver, "nodeName": node, "pool": {"name": "p", "generation": 1}}}

    api.put(f"{SLICES}/a", foreign("other.example.com", "las1"))
    api.put(f"{SLICES}/b", foreign("gpu.example.com", "las2"))
    api.put(f"{SLICES}/stray", foreign("gpu.example.com", "las1"))
    async with publishing(api, {"las1": Pool.of(devices(1))}):
        await wait_for(
            "slice stray to be deleted", lambda: f"{SLICES}/stray" not in api.objects and names(api)
        )
    assert {f"{SLICES}/a", f"{SLICES}/b"} <= set(api.objects)


async def test_failed_slice_writes_are_retried_and_reported_to_the_driver(api: Any) -> None:
    errors: list[Exception] = []
    api.fail["POST", SLICES] = InternalError("not now")
    async with publishing(api, {"las1": Pool.of(devices(1))}, on_error=errors.append):
        await wait_for("published devices", lambda: names(api))
    assert [str(e) for e in errors] == ["not now"]


async def test_a_restarted_driver_finds_its_slices_and_writes_nothing(api: Any) -> None:
    async with publishing(api, {"las1": Pool.of(devices(2))}):
        await wait_for("published devices", lambda: names(api))
    api.requests.clear()
    async with publishing(api, {"las1": Pool.of(devices(2))}) as publisher:
        publisher.publish({"las1": Pool.of(devices(2))})
        await wait_for("the node to be read", lambda: api.requested("GET", "/nodes/las1"))
        await asyncio.sleep(0.05)
    assert not api.requested("POST") + api.requested("PUT") + api.requested("DELETE")


@pytest.mark.parametrize(("version", "memory"), [("v1beta1", {"value": "80Gi"}), ("v1alpha3", "80Gi")])
async def test_an_old_server_gets_devices_in_its_own_shape(fake_api: Any, version: str, memory: Any) -> None:
    api, errors = fake_api(versions=[version]), list[Exception]()
    pool = Pool.of([Device(name="gpu-0", attributes={"index": 0}, capacity={"memory": "80Gi"})])
    async with publishing(api, {"las1": pool}, on_error=errors.append) as publisher:
        await wait_for("published devices", lambda: names(api))
        [found] = api.all("resourceslices")
        properties = {"attributes": {"index": {"int": 0}}, "capacity": {"memory": memory}}
        assert found["spec"]["devices"] == [{"name": "gpu-0", "basic": properties}]
        assert errors == []
        publisher.publish({"las1": pool})
        await asyncio.sleep(0.05)
        assert publisher.counts.updates == 0


async def test_fields_that_the_server_drops_are_reported_once_and_not_written_again(api: Any) -> None:
    errors: list[Exception] = []
    store = api.put

    def forgetful(path: str, obj: dict[str, Any]) -> dict[str, Any]:
        for device in obj.get("spec", {}).get("devices") or []:
            device.pop("allowMultipleAllocations", None)
        stored: dict[str, Any] = store(path, obj)
        return stored

    api.put = forgetful
    pool = Pool.of([Device(name="gpu-0", many_allocations=True)])
    async with publishing(api, {"las1": pool}, on_error=errors.append) as publisher:
        await wait_for("an error", lambda: errors)
        await asyncio.sleep(0.1)
        assert publisher.counts.updates == 0
    [error] = errors
    assert isinstance(error, DroppedFieldsError)
    assert "DRAConsumableCapacity" in str(error)
