"""When a classic claim is allocated, who may use it, and when it is given back."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    POD_SCHEDULING_CONTEXTS,
    PODS,
)
from dray.driver import classic
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.wait import wait_for

pytestmark = pytest.mark.timeout(30)
RELEASES = pytest.mark.parametrize("emulate", ["1.30", ""])
Doc = dict[str, Any]


class Driver(classic.ClassicDriver):
    name = "cats.example.com"

    def __init__(self, *, shareable: bool = False) -> None:
        self.shareable = shareable
        self.held: dict[str, str] = {}  # claim's name → node

    async def allocate(self, pending: Any, *, node: str, others: Any) -> Any:
        given = []
        for one in pending:
            where = node or "node-1"
            self.held[one.claim["metadata"]["name"]] = where
            given.append({**classic.available_on(where, driver=self.name, data="cat"), "shareable": self.shareable})  # fmt: skip
        return given

    async def deallocate(self, claim: Any) -> None:
        self.held.pop(claim["metadata"]["name"], None)


@asynccontextmanager
async def scene_with(driver: Driver, emulate: str, **of_class: Any) -> AsyncIterator[ControlPlane]:
    async with cluster(emulate) as scene:
        body = {"metadata": {"name": "cats"}, "driverName": driver.name, **of_class}
        await scene.client.create(CLASSIC_RESOURCE_CLASSES, "", body)
        own = scene.client_of("cats")
        async with run_component(lambda: classic.run(own, driver, options=classic.Options())):
            yield scene


async def make_claim(scene: ControlPlane, **spec: Any) -> None:
    body = {"metadata": {"name": "c"}, "spec": {"resourceClassName": "cats", **spec}}
    await scene.client.create(CLASSIC_RESOURCE_CLAIMS, "default", body)


async def status(scene: ControlPlane) -> Doc:
    return (await scene.client.get(CLASSIC_RESOURCE_CLAIMS, "default", "c")).get("status") or {}


async def user(scene: ControlPlane, name: str, **spec: Any) -> None:
    entry = {"name": "cat", "source": {"resourceClaimName": "c"}}
    await scene.pod(name, resourceClaims=[entry], **spec)


async def says(scene: ControlPlane, pod: str) -> str:
    found = await scene.client.get(PODS, "default", pod)
    return "; ".join(c.get("message", "") for c in found["status"].get("conditions") or ())


@RELEASES
async def test_an_immediate_claim_is_allocated_at_once_and_until_it_is_deleted(emulate: str) -> None:
    driver = Driver()
    async with scene_with(driver, emulate) as scene:
        await make_claim(scene, allocationMode="Immediate")

        async def allocated() -> bool:
            return "allocation" in await status(scene)

        await wait_for("the claim to be allocated", allocated)
        await user(scene, "p")
        assert (await scene.wait_bound("p"))["spec"]["nodeName"] == "node-1"
        await scene.client.delete(PODS, "default", "p", grace_seconds=0)

        async def unused() -> bool:
            return not (await status(scene)).get("reservedFor")

        await wait_for("the claim to be reserved for nobody", unused)
        await scene.wait_quiet()
        assert await allocated()
        assert driver.held == {"c": "node-1"}
        await scene.client.delete(CLASSIC_RESOURCE_CLAIMS, "default", "c")
        await scene.wait_gone(CLASSIC_RESOURCE_CLAIMS, "c")
        assert not driver.held


@RELEASES
async def test_a_delayed_claim_is_allocated_for_its_first_user_and_given_back_after_the_last(
    emulate: str,
) -> None:
    driver = Driver()
    async with scene_with(driver, emulate) as scene:
        await make_claim(scene)
        await scene.wait_quiet()
        assert not driver.held
        await user(scene, "p", nodeSelector={"kubernetes.io/hostname": "node-0"})
        await scene.wait_bound("p")
        assert driver.held == {"c": "node-0"}
        await scene.client.delete(PODS, "default", "p", grace_seconds=0)

        async def freed() -> bool:
            found = await scene.client.get(CLASSIC_RESOURCE_CLAIMS, "default", "c")
            return not found.get("status") and not found["metadata"].get("finalizers")

        await wait_for("the claim to be deallocated and without finalizers", freed)
        assert not driver.held


@RELEASES
async def test_a_claim_that_cannot_be_shared_has_one_user_at_a_time(emulate: str) -> None:
    async with scene_with(Driver(), emulate) as scene:
        await make_claim(scene)
        await user(scene, "first")
        await scene.wait_bound("first")
        await user(scene, "second")

        async def refused() -> bool:
            return "resourceclaim in use" in await says(scene, "second")

        await wait_for("pod second to be told that the claim is in use", refused)
        await scene.client.delete(PODS, "default", "first", grace_seconds=0)
        second = await scene.wait_bound("second")
        assert [u["uid"] for u in (await status(scene))["reservedFor"]] == [second["metadata"]["uid"]]


@pytest.mark.parametrize(
    ("emulate", "refusal"),
    [("1.27", "status.reservedFor: Too long: may not be longer than 32"), ("", "resourceclaim in use")],
)
async def test_a_claim_that_can_be_shared_has_thirty_two_users(emulate: str, refusal: str) -> None:
    async with scene_with(Driver(shareable=True), emulate) as scene:
        await make_claim(scene)
        for number in range(33):
            await user(scene, f"p-{number}")

        async def full() -> bool:
            pods = (await scene.client.list(PODS, "default")).items
            waiting = [p["metadata"]["name"] for p in pods if not p["spec"].get("nodeName")]
            return len(waiting) == 1 and refusal in await says(scene, waiting[0])

        await wait_for("one pod to be told that the claim has no place for it", full)
        assert len((await status(scene))["reservedFor"]) == 32
        pods = (await scene.client.list(PODS, "default")).items
        last = next(p["metadata"]["name"] for p in pods if not p["spec"].get("nodeName"))
        first = next(p["metadata"]["name"] for p in pods if p["spec"].get("nodeName"))
        await scene.client.delete(PODS, "default", first, grace_seconds=0)
        await scene.wait_bound(last)


@RELEASES
async def test_a_pod_that_has_its_node_already_gets_its_claims_for_it(emulate: str) -> None:
    driver = Driver()
    async with scene_with(driver, emulate) as scene:
        await make_claim(scene)
        template = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "cats"}}}
        await scene.client.create(CLASSIC_RESOURCE_CLAIM_TEMPLATES, "default", template)
        entries = [
            {"name": "own", "source": {"resourceClaimTemplateName": "t"}},
            {"name": "named", "source": {"resourceClaimName": "c"}},
        ]
        await scene.pod("p", nodeName="node-1", resourceClaims=entries)

        async def reserved() -> bool:
            claims = (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items
            return len(claims) == 2 and all((c.get("status") or {}).get("reservedFor") for c in claims)

        await wait_for("two reserved claims", reserved)
        assert set(driver.held.values()) == {"node-1"}
        context = await scene.client.get(POD_SCHEDULING_CONTEXTS, "default", "p")
        assert context["spec"] == {"selectedNode": "node-1"}


@RELEASES
async def test_a_class_rules_nodes_out(emulate: str) -> None:
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["node-1"]}]}
    driver = Driver()
    async with scene_with(driver, emulate, suitableNodes={"nodeSelectorTerms": [term]}) as scene:
        await make_claim(scene)
        await user(scene, "p")
        assert (await scene.wait_bound("p"))["spec"]["nodeName"] == "node-1"
        await make_elsewhere(scene)

        async def refused() -> bool:
            return "excluded by resource class node filter" in await says(scene, "q")

        await wait_for("pod q to be told about the class's node filter", refused)


async def make_elsewhere(scene: ControlPlane) -> None:
    """Another claim, and a pod that may only go where the class may not."""
    body = {"metadata": {"name": "d"}, "spec": {"resourceClassName": "cats"}}
    await scene.client.create(CLASSIC_RESOURCE_CLAIMS, "default", body)
    entry = {"name": "cat", "source": {"resourceClaimName": "d"}}
    await scene.pod("q", resourceClaims=[entry], nodeSelector={"kubernetes.io/hostname": "node-0"})


async def test_an_unused_claim_that_is_on_another_node_is_allocated_anew() -> None:
    driver = Driver()
    async with scene_with(driver, "") as scene:
        await make_claim(scene)
        claim = await scene.client.get(CLASSIC_RESOURCE_CLAIMS, "default", "c")
        claim["metadata"]["finalizers"] = [f"{driver.name}/deletion-protection"]
        claim = await scene.client.update(CLASSIC_RESOURCE_CLAIMS, "default", claim)
        driver.held["c"] = "node-0"
        given = classic.available_on("node-0", driver=driver.name, data="cat")
        claim["status"] = {"driverName": driver.name, "allocation": given}
        await scene.client.update_status(CLASSIC_RESOURCE_CLAIMS, "default", claim)
        await user(scene, "p", nodeSelector={"kubernetes.io/hostname": "node-1"})
        await scene.wait_bound("p")
        assert driver.held == {"c": "node-1"}
