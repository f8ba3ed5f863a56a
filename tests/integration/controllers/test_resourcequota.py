"""The usage of quotas."""

from __future__ import annotations

import asyncio
from pathlib import Path

from dray.client.resources import (
    PODS,
    RESOURCE_CLAIMS,
    RESOURCE_QUOTAS,
)
from tests.support.controlplane import NAMESPACE, control_plane
from tests.support.wait import wait_for


def test_quotas_say_what_is_used_and_notice_what_goes(tmp_path: Path):
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "500m"}}}
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}

    async def play() -> None:
        async with control_plane("resourcequota-controller", data=tmp_path) as a:
            await a.create(PODS, "one", {"containers": [container]})
            await a.create(PODS, "two", {"containers": [container]})
            await a.create(RESOURCE_CLAIMS, "claim", {"devices": {"requests": [request]}})
            hard = {
                "pods": "5",
                "count/pods": "9",
                "requests.cpu": "4",
                "count/configmaps": "9",
                "count/resourceclaims.resource.k8s.io": "3",
                "gpu.deviceclass.resource.k8s.io/devices": "8",
            }
            await a.create(RESOURCE_QUOTAS, "q", {"hard": hard})

            async def used(**wanted: str) -> None:
                async def look() -> bool:
                    status = (await a.get(RESOURCE_QUOTAS, "q"))["status"]
                    found = status["used"]
                    return status["hard"] == hard and all(
                        found[n.replace("_", "/")] == v for n, v in wanted.items()
                    )

                await wait_for(f"quota usage {wanted}", look)

            await used(pods="2", count_pods="2")
            found = (await a.get(RESOURCE_QUOTAS, "q"))["status"]["used"]
            assert found == {
                "pods": "2",
                "count/pods": "2",
                "requests.cpu": "1",
                "count/configmaps": "0",
                "count/resourceclaims.resource.k8s.io": "1",
                "gpu.deviceclass.resource.k8s.io/devices": "2",
            }
            await a.finish(await a.get(PODS, "one"))
            await used(pods="1", count_pods="2")
            await a.client.delete(PODS, NAMESPACE, "one")
            await used(pods="1", count_pods="1")

    asyncio.run(play())
