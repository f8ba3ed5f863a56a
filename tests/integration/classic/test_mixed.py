"""Pods whose claims are of several generations: each claim is dealt with in its own way, and the pod gets them all."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    CLASSIC_RESOURCE_SLICES,
    DEVICE_CLASSES,
    EVENTS,
    POD_SCHEDULING_CONTEXTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.driver import classic
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.wait import wait_for

pytestmark = pytest.mark.timeout(30)
Doc = dict[str, Any]


class Driver(classic.ClassicDriver):
    """Has room on some nodes only, for one claim each."""

    name = "cats.example.com"

    def __init__(self, *nodes: str) -> None:
        self.nodes = nodes

    async def unsuitable_nodes(self, pod: Any, pending: Any, nodes: Any, others: Any) -> Any:
        return [[node for node in nodes if node not in self.nodes] for _ in pending]

    async def allocate(self, pending: Any, *, node: str, others: Any) -> Any:
        return [classic.available_on(node, driver=self.name, data="cat") for _ in pending]


async def create(scene: ControlPlane, resource: Resource, name: str, **body: Any) -> Doc:
    namespace = "default" if resource.namespaced else ""
    return await scene.client.create(resource, namespace, {"metadata": {"name": name}, **body})


async def classes(scene: ControlPlane, *, nodes_with_gpus: tuple[str, ...] = ("node-1",)) -> None:
    """A class of each generation; GPUs of today's on some nodes, mice of 1.30's on all."""
    await create(scene, CLASSIC_RESOURCE_CLASSES, "cats", driverName="cats.example.com")
    await create(
        scene, CLASSIC_RESOURCE_CLASSES, "mice", driverName="mice.example.com", structuredParameters=True
    )
    await create(scene, DEVICE_CLASSES, "gpus", spec={})
    request = {"name": "r", "exactly": {"deviceClassName": "gpus"}}
    today = {"spec": {"devices": {"requests": [request]}}}
    await create(scene, RESOURCE_CLAIM_TEMPLATES, "gpu", spec=today)
    for name in ("cats", "mice"):
        spec = {"spec": {"resourceClassName": name}}
        await create(scene, CLASSIC_RESOURCE_CLAIM_TEMPLATES, name[:3], spec=spec)
    for node in ("node-0", "node-1"):
        mice = {"instances": [{"name": "mouse"}]}
        slice_ = {"nodeName": node, "driverName": "mice.example.com", "namedResources": mice}
        await create(scene, CLASSIC_RESOURCE_SLICES, f"mice-{node}", **slice_)
    for node in nodes_with_gpus:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": node, "pool": pool, "devices": [{"name": "gpu-0"}]}
        await create(scene, RESOURCE_SLICES, f"gpu-{node}", spec=spec)


def entries(*templates: str) -> list[Doc]:
    return [{"name": t, "resourceClaimTemplateName": t} for t in templates]


async def all_claims(scene: ControlPlane) -> list[Doc]:
    """Each in its own generation."""
    today = (await scene.client.list(RESOURCE_CLAIMS, "default")).items
    own = [c for c in today if (c["spec"].get("devices") or {}).get("requests")]
    return own + (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items


async def bound_at(scene: ControlPlane, name: str) -> int:
    """The revision at which the pod got its node."""
    begin = (await scene.client.list(PODS, "default")).resource_version
    async with scene.client.watch(PODS, "default", resource_version=begin) as stream:
        async for batch in stream:
            for event in batch:
                if event.object["spec"].get("nodeName") and event.object["metadata"]["name"] == name:
                    return int(event.object["metadata"]["resourceVersion"])
    raise AssertionError("the watch ended")


async def test_a_pod_is_bound_when_claims_of_all_three_generations_are_its_own() -> None:
    async with cluster("") as scene:
        driver = scene.client_of("cats")
        async with run_component(
            lambda: classic.run(driver, Driver("node-0", "node-1"), options=classic.Options())
        ):
            await classes(scene)
            binding = asyncio.create_task(bound_at(scene, "mixed"))
            await asyncio.sleep(0)
            await scene.pod("mixed", resourceClaims=entries("cat", "gpu", "mic"))
            pod = await scene.wait_bound("mixed")
            assert pod["spec"]["nodeName"] == "node-1"  # the only one with a GPU
            claims = await all_claims(scene)
            assert len(claims) == 3
            for claim in claims:
                assert claim["status"]["allocation"]
                assert [c["uid"] for c in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
                assert int(claim["metadata"]["resourceVersion"]) < await binding
            named = {s["name"]: s["resourceClaimName"] for s in pod["status"]["resourceClaimStatuses"]}
            assert sorted(named.values()) == sorted(c["metadata"]["name"] for c in claims)
            await scene.wait_gone(POD_SCHEDULING_CONTEXTS, "mixed")
            warnings = [e for e in (await scene.client.list(EVENTS, "default")).items if e["reason"] == "FailedResourceClaimCreation"]  # fmt: skip
            assert not warnings

            await scene.client.delete(PODS, "default", "mixed", grace_seconds=0)

            async def freed() -> bool:
                return not await all_claims(scene)

            await wait_for("the claims to go", freed)


async def test_a_pod_may_name_claims_of_different_generations() -> None:
    async with cluster("") as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, Driver("node-1"), options=classic.Options())):
            await classes(scene, nodes_with_gpus=("node-0", "node-1"))
            named = [{"name": "a", "resourceClaimName": "old"}, {"name": "b", "resourceClaimName": "new"}]
            await scene.pod("mixed", resourceClaims=named)
            await create(scene, CLASSIC_RESOURCE_CLAIMS, "old", spec={"resourceClassName": "cats"})
            request = {"name": "r", "exactly": {"deviceClassName": "gpus"}}
            await create(scene, RESOURCE_CLAIMS, "new", spec={"devices": {"requests": [request]}})
            pod = await scene.wait_bound("mixed")
            assert pod["spec"]["nodeName"] == "node-1"  # the only one that the driver likes


async def test_while_one_generation_cannot_be_allocated_the_other_stays_free() -> None:
    async with cluster("") as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, Driver("node-0"), options=classic.Options())):
            await classes(scene)  # cats are on one node, the GPU is on the other
            await scene.pod("mixed", resourceClaims=entries("cat", "gpu"))

            async def refused() -> bool:
                pod = await scene.client.get(PODS, "default", "mixed")
                return any(
                    "unsuitable" in c.get("message", "") for c in pod["status"].get("conditions") or ()
                )

            await wait_for("pod mixed to be told that no node suits it", refused)
            await scene.wait_quiet()
            for claim in await all_claims(scene):
                status = claim.get("status") or {}
                assert not status.get("allocation") or status.get("deallocationRequested")
                assert not status.get("reservedFor")
            await scene.pod("modest", resourceClaims=entries("gpu"))
            assert (await scene.wait_bound("modest"))["spec"]["nodeName"] == "node-1"


async def test_a_classic_claim_shows_through_v1_with_its_state_and_without_requests() -> None:
    async with cluster("") as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, Driver("node-0"), options=classic.Options())):
            await classes(scene)
            await scene.pod("cat-lover", resourceClaims=entries("cat"))
            pod = await scene.wait_bound("cat-lover")
            [shown] = (await scene.client.list(RESOURCE_CLAIMS, "default")).items
            assert shown["metadata"]["annotations"]["resource.dray.dev/generation"] == "v1alpha2"
            assert not (shown["spec"].get("devices") or {}).get("requests")
            assert shown["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"]
            assert shown["status"]["allocation"]["nodeSelector"]
