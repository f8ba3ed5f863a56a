"""The cats of the seeds, in each generation, with the cats driver."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from dray.client.client import Client
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    DEVICE_CLASSES,
    POD_SCHEDULING_CONTEXTS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
)
from dray.driver import classic
from dray.drivers.cats import CatsController, CatsDriver
from dray.drivers.cats.deviceclass import announced
from dray.explain import collect_snapshot
from dray.explain.model import manifests
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.paths import SEEDS
from tests.support.wait import wait_for

pytestmark = pytest.mark.timeout(30)
CLASSIC = ("classic-1.27/claim-parameters-crd.yaml", "classic-1.27/cats.yaml")
STRUCTURED = (
    "structured-1.30/claim-parameters-crd.yaml",
    "structured-1.30/slices.yaml",
    "structured-1.30/cats.yaml",
)


async def claims_of(scene: ControlPlane) -> list[dict[str, Any]]:
    return (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items


def cats_in(claims: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = []
    for claim in claims:
        for handle in (claim.get("status") or {}).get("allocation", {}).get("resourceHandles") or ():
            data = json.loads(handle["data"])
            found.append((data["node"], data["name"]))
    return found


@pytest.mark.parametrize("emulate", ["1.30", ""])
async def test_a_driver_negotiates_two_cats_for_one_pod(emulate: str) -> None:
    async with cluster(emulate) as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, CatsController(), options=classic.Options())):
            await scene.apply(*CLASSIC)
            pod = await scene.wait_bound("pod-with-cats")
            claims = await claims_of(scene)
            cats = cats_in(claims)
            assert sorted(cats) == [(pod["spec"]["nodeName"], cat) for cat in ("felix", "mohrle")]
            assert all(c["status"]["reservedFor"][0]["name"] == "pod-with-cats" for c in claims)
            await scene.wait_gone(POD_SCHEDULING_CONTEXTS, "pod-with-cats")
            await scene.client.delete(PODS, "default", "pod-with-cats", grace_seconds=0)

            async def freed() -> bool:
                return not await claims_of(scene)

            await wait_for("the claims to go", freed)


@pytest.mark.parametrize("emulate", ["1.30", ""])
async def test_the_scheduler_allocates_two_cats_from_slices(emulate: str) -> None:
    async with cluster(emulate) as scene:
        await scene.apply(*STRUCTURED)
        pod = await scene.wait_bound("pod-with-cats")
        names = [
            result["namedResources"]["name"]
            for claim in await claims_of(scene)
            for handle in claim["status"]["allocation"]["resourceHandles"]
            for result in handle["structuredData"]["results"]
        ]
        assert pod["spec"]["nodeName"] == "node-1"  # the only one with two large black cats
        assert sorted(names) == ["mohrle", "panther"]


async def test_generations_live_side_by_side() -> None:
    async with cluster("") as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, CatsController(), options=classic.Options())):
            await scene.apply(*CLASSIC)
            today = {"name": "a", "attributes": {}}
            pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
            for resource, body in (
                (DEVICE_CLASSES, {"metadata": {"name": "c"}, "spec": {}}),
                (RESOURCE_SLICES, {"metadata": {"name": "s"}, "spec": {"driver": "d", "pool": pool, "allNodes": True, "devices": [today]}}),
                (RESOURCE_CLAIM_TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c"}}]}}}}),
            ):  # fmt: skip
                await scene.client.create(resource, "default" if resource.namespaced else "", body)
            await scene.pod("modern", resourceClaims=[{"name": "r", "resourceClaimTemplateName": "t"}])
            await scene.wait_bound("pod-with-cats")
            await scene.wait_bound("modern")


class Mortal(Client):
    """A client of a process that is killed just after its n-th write."""

    def __init__(self, whole: Client, writes: int) -> None:
        super().__init__(whole.transport)
        self.left = writes
        self.dead = asyncio.Event()

    async def _write(self, result: Any) -> Any:
        self.left -= 1
        if self.left <= 0:
            self.dead.set()
            await asyncio.Event().wait()
        return result

    async def update(self, *args: Any, **kwargs: Any) -> Any:
        return await self._write(await super().update(*args, **kwargs))

    async def update_status(self, *args: Any, **kwargs: Any) -> Any:
        return await self._write(await super().update_status(*args, **kwargs))


@pytest.mark.parametrize("writes", [1, 2, 3, 4, 5])
async def test_a_driver_killed_after_any_write_leaves_nothing_stuck_or_given_twice(writes: int) -> None:
    async with cluster("1.30") as scene:
        mortal = Mortal(scene.client_of("cats"), writes)
        async with run_component(lambda: classic.run(mortal, CatsController(), options=classic.Options())):
            await scene.apply(*CLASSIC)
            with suppress(TimeoutError):
                await asyncio.wait_for(mortal.dead.wait(), 5)
        successor = scene.client_of("cats")
        async with run_component(lambda: classic.run(successor, CatsController(), options=classic.Options())):
            await scene.wait_bound("pod-with-cats")
            cats = cats_in(await claims_of(scene))
            assert len(cats) == len(set(cats)) == 2


async def test_with_no_cats_left_the_pod_waits_and_says_why() -> None:
    async with cluster("1.30") as scene:
        driver = scene.client_of("cats")
        options = classic.Options()
        async with run_component(lambda: classic.run(driver, CatsController(count=1), options=options)):
            await scene.apply(*CLASSIC)

            async def refused() -> bool:
                pod = await scene.client.get(PODS, "default", "pod-with-cats")
                return any(
                    "unsuitable" in c.get("message", "") for c in pod["status"].get("conditions") or ()
                )

            await wait_for("the pod to be told that no node suits it", refused)
            assert not cats_in(await claims_of(scene))


async def test_cats_are_announced_until_a_class_names_their_driver() -> None:
    cats = CatsDriver()
    async with cluster("") as scene:
        async with announced(scene.client, cats.devices("node-1")):
            snapshot = await collect_snapshot(scene.client)
            found = manifests.read_files([SEEDS / "v1" / "cats.yaml"])
            applied = snapshot.with_objects(one.document for one in found)
            names = {one["spec"]["nodeName"] for one in applied.slices}
            assert names == {one["metadata"]["name"] for one in snapshot.nodes} != set()
            assert not snapshot.slices
        assert not (await collect_snapshot(scene.client)).on_demand
