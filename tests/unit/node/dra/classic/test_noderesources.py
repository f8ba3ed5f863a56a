"""The slices that the node writes for drivers of 1.30."""

from __future__ import annotations

import asyncio
from typing import Any

from dray.node.dra.classic.noderesources import NodeResourcesController
from tests.support.wait import wait_for


async def test_slices_follow_the_resources_that_drivers_tell(api: Any) -> None:
    def models(*names: str) -> list[dict[str, Any]]:
        return [{"namedResources": {"instances": [{"name": name}]}} for name in names]

    def published() -> list[str]:
        return sorted(s["namedResources"]["instances"][0]["name"] for s in api.all("resourceslices"))

    async def wait_published(wanted: list[str]) -> None:
        await wait_for(f"slices {wanted}", lambda: published() == wanted)

    stray = {"nodeName": "las1", "driverName": "away", **models("stray")[0]}
    api.put("/apis/resource.k8s.io/v1alpha2/resourceslices/s", {"metadata": {"name": "s"}, **stray})
    slices = NodeResourcesController(api.client, "las1", node_uid=lambda: "node-uid")
    task = asyncio.create_task(slices.run())
    slices.changed("cats", models("tom", "felix"))
    await wait_published(["felix", "stray", "tom"])  # who has not registered yet may still come
    slices.changed("cats", models("felix", "minka"))
    await wait_published(["felix", "minka", "stray"])
    assert len(api.requested("POST", "resourceslices")) == 2
    slices.changed("cats", None)
    slices.changed("away", None)
    await wait_published([])
    task.cancel()
