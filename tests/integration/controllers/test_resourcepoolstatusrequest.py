"""ResourcePoolStatusRequests and their answers."""

from __future__ import annotations

import time
from typing import Any

import pytest

from dray.api.release import V1_36, V1_37, EffectiveVersion
from dray.client.events import EventRecorder
from dray.client.resources import RESOURCE_POOL_STATUS_REQUESTS, RESOURCE_SLICES
from dray.controllers.controller import ControllerContext, SharedInformers
from dray.controllers.quirks import Quirks
from dray.controllers.resourcepoolstatusrequest import (
    INCOMPLETE_POOL_SECONDS,
    ResourcePoolStatusRequestController,
)
from tests.support.controlplane import ControlPlane, control_plane, server
from tests.support.wait import wait_for

STATUS = "resourcepoolstatusrequest-controller"
DRIVER = "d.example.com"


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


async def request(s: ControlPlane, name: str = "r") -> None:
    await s.client.create(
        RESOURCE_POOL_STATUS_REQUESTS, "", {"metadata": {"name": name}, "spec": {"driver": DRIVER}}
    )


async def status_of(s: ControlPlane, name: str = "r") -> dict:
    async def answered() -> dict | None:
        return (await s.get(RESOURCE_POOL_STATUS_REQUESTS, name)).get("status")

    found: dict = await wait_for(f"the status of {name}", answered)
    return found


async def test_a_request_is_answered():
    async with control_plane(STATUS) as s:
        await s.client.create(RESOURCE_SLICES, "", slice_("n", "x", "y", node="n"))
        await request(s)
        found = await status_of(s)
        assert found["pools"][0]["availableDevices"] == 2
        assert found["conditions"][0]["type"] == "Complete"


async def test_an_old_answer_is_removed():
    later = 0.0

    def clock() -> float:
        return time.time() + later

    async with control_plane(STATUS, clock=clock) as s:
        await request(s)
        await status_of(s)
        later = 3601.0
        await s.client.patch(
            RESOURCE_POOL_STATUS_REQUESTS, "", "r", {"metadata": {"labels": {"look": "again"}}}
        )
        await s.wait_gone(RESOURCE_POOL_STATUS_REQUESTS, "r")


@pytest.mark.parametrize(("release", "told"), [(V1_36, None), (V1_37, None), (None, ["validationError"])])
async def test_an_incomplete_pool_is_told_of_in_the_end_and_not_at_all_by_upstream(release, told):
    async with server() as s:
        await s.client.create(RESOURCE_SLICES, "", slice_("n", "x", count=2, node="n"))
        await request(s)
        informers = SharedInformers(s.client)
        later = time.time() + INCOMPLETE_POOL_SECONDS
        context = ControllerContext(
            client=s.client,
            informers=informers,
            recorder=EventRecorder(s.client, component="x"),
            quirks=Quirks.of(EffectiveVersion(release), s.api.gates),
            clock=lambda: later,
        )
        controller = ResourcePoolStatusRequestController(context)
        async with informers:
            await informers.synced()
            await controller.sync("r")
        found = (await s.get(RESOURCE_POOL_STATUS_REQUESTS, "r")).get("status")
        assert (found and [k for k in found["pools"][0] if k == "validationError"]) == told
