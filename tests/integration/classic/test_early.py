"""Claims as the first two releases had them: named after their pods, which say nothing about them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLAIMS,
    EVENTS,
    POD_SCHEDULING_CONTEXTS,
    POD_SCHEDULINGS,
    PODS,
    Resource,
)
from dray.driver import classic
from dray.drivers.cats import CatsController
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.seeds import manifests_of
from tests.support.wait import wait_for

pytestmark = pytest.mark.timeout(30)
CLAIMS = ["pod-with-cats-cat-0", "pod-with-cats-cat-1"]


def kinds(release: str) -> tuple[Resource, Resource]:
    """Claims and negotiations."""
    if release == "1.26":
        return CLASSIC_RESOURCE_CLAIMS.at("v1alpha1"), POD_SCHEDULINGS
    return CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS


async def messages(scene: ControlPlane, reason: str) -> list[str]:
    return [e["message"] for e in (await scene.client.list(EVENTS, "default")).items if e["reason"] == reason]


@pytest.mark.parametrize("release", ["1.26", "1.27"])
async def test_two_cats_are_found_by_the_names_of_their_claims(release: str, tmp_path: Path) -> None:
    resource, negotiations = kinds(release)

    async def claims() -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = (await scene.client.list(resource, "default")).items
        return sorted(found, key=lambda c: str(c["metadata"]["name"]))

    async with cluster(release) as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, CatsController(), options=classic.Options())):
            await scene.apply(*manifests_of(release, tmp_path))
            pod = await scene.wait_bound("pod-with-cats")
            assert "resourceClaimStatuses" not in pod["status"]
            found = await claims()
            assert [c["metadata"]["name"] for c in found] == CLAIMS
            assert all(c["status"]["reservedFor"][0]["uid"] == pod["metadata"]["uid"] for c in found)
            assert all("annotations" not in c["metadata"] for c in found)
            await scene.wait_gone(negotiations, "pod-with-cats")
            await scene.client.delete(PODS, "default", "pod-with-cats", grace_seconds=0)

            async def freed() -> bool:
                return not await claims()

            await wait_for("the claims to go", freed)
        said = await messages(scene, "FailedScheduling")
        assert (
            'running Reserve plugin "DynamicResources": waiting for resource driver to provide information'
            in said
        )


async def test_a_claim_of_somebody_else_under_the_name_is_not_taken(tmp_path: Path) -> None:
    async with cluster("1.27") as scene:
        crd, cats = manifests_of("1.27", tmp_path)
        await scene.apply(crd)
        manifests = list(yaml.safe_load_all(Path(cats).read_text()))
        Path(cats).write_text(yaml.safe_dump_all(m for m in manifests if m["kind"] != "Pod"))
        await scene.apply(cats)
        spec = {"resourceClassName": "resource.example.com"}
        usurper = {"metadata": {"name": CLAIMS[0]}, "spec": spec}
        await scene.client.create(CLASSIC_RESOURCE_CLAIMS, "default", usurper)
        pod = next(m for m in manifests if m["kind"] == "Pod")
        await scene.client.create(PODS, "default", pod)
        foreign = (
            "ResourceClaim default/pod-with-cats-cat-0 was not created for pod default/pod-with-cats "
            "(pod is not owner)"
        )

        async def told() -> bool:
            return f"PodResourceClaim cat-0: {foreign}" in await messages(
                scene, "FailedResourceClaimCreation"
            ) and any(foreign in text for text in await messages(scene, "FailedScheduling"))

        await wait_for("events about the foreign claim", told)
        await scene.client.delete(CLASSIC_RESOURCE_CLAIMS, "default", CLAIMS[0])

        async def made() -> bool:
            claim = await scene.get(CLASSIC_RESOURCE_CLAIMS, CLAIMS[0])
            return claim is not None and bool(claim["metadata"].get("ownerReferences"))

        await wait_for("the claim of entry cat-0", made)


async def test_a_claim_of_that_age_is_found_again_after_an_upgrade() -> None:
    async with cluster("1.30") as scene:
        entry = {"name": "cat", "source": {"resourceClaimTemplateName": "t"}}
        pod = await scene.pod("p", resourceClaims=[entry])
        owner = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": "p",
            "uid": pod["metadata"]["uid"],
            "controller": True,
        }
        claim = {
            "metadata": {"name": "p-cat", "ownerReferences": [owner]},
            "spec": {"resourceClassName": "c"},
        }
        await scene.client.create(CLASSIC_RESOURCE_CLAIMS, "default", claim)
        template = {"metadata": {"name": "t"}, "spec": {"spec": {"resourceClassName": "c"}}}
        await scene.client.create(CLASSIC_RESOURCE_CLAIM_TEMPLATES, "default", template)

        async def named() -> Any:
            found = await scene.client.get(PODS, "default", "p")
            return found["status"].get("resourceClaimStatuses")

        assert await wait_for("the pod's status to name its claims", named) == [
            {"name": "cat", "resourceClaimName": "p-cat"}
        ]


async def test_a_pod_that_got_its_node_without_the_scheduler_is_left_to_itself(tmp_path: Path) -> None:
    async with cluster("1.27") as scene:
        crd, cats = manifests_of("1.27", tmp_path)
        manifests = list(yaml.safe_load_all(Path(cats).read_text()))
        for manifest in manifests:
            if manifest["kind"] == "Pod":
                manifest["spec"]["nodeName"] = "node-0"
        Path(cats).write_text(yaml.safe_dump_all(manifests))
        await scene.apply(crd, cats)

        async def made() -> bool:
            return len((await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items) == 2

        await wait_for("two claims", made)
        await scene.wait_quiet()
        assert not (await scene.client.list(POD_SCHEDULING_CONTEXTS, "default")).items
