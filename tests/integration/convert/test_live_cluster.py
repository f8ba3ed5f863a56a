"""What a live cluster of an old release holds, as manifests of today."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from dray.client.resources import DEPLOYMENTS, PODS, RESOURCE_CLAIMS
from dray.convert import convert_text
from dray.convert.collector import collect_manifests
from dray.driver import classic
from dray.drivers.cats import CatsController
from tests.support.controlplane import ControlPlane, cluster, run_component
from tests.support.seeds import RULES, manifests_of

pytestmark = pytest.mark.timeout(30)
Doc = dict[str, Any]


async def read(scene: ControlPlane) -> list[Doc]:
    """What ``dray convert --cluster`` would write."""
    text = yaml.safe_dump_all(await collect_manifests(scene.client), sort_keys=False)
    result = convert_text([text], rules=RULES)
    assert result.complete, result.notes
    return [document for text in result.texts for document in yaml.safe_load_all(text)]


async def run_today(manifests: list[Doc], folder: Path) -> list[Doc]:
    """Apply manifests to a cluster of today that has cats; the claims of the pod once it is placed."""
    path = folder / "today.yaml"
    path.write_text(yaml.safe_dump_all(manifests))
    async with cluster("1.36") as scene:
        await scene.apply("v1/slices.yaml", str(path))
        await scene.wait_bound("pod-with-cats")
        return list((await scene.client.list(RESOURCE_CLAIMS, "default")).items)


@pytest.mark.parametrize("release", ["1.26", "1.27", "1.30"])
async def test_a_running_pod_of_the_classic_age_can_be_run_today(release: str, tmp_path: Path) -> None:
    async with cluster(release) as scene:
        driver = scene.client_of("cats")
        async with run_component(lambda: classic.run(driver, CatsController(), options=classic.Options())):
            await scene.apply(*manifests_of(release, tmp_path))
            await scene.wait_bound("pod-with-cats")
            manifests = await read(scene)
    kinds = [m["kind"] for m in manifests]
    assert kinds == ["ClaimParameters", "DeviceClass", "ResourceClaimTemplate", "Pod"]
    pod = manifests[-1]
    assert "nodeName" not in pod["spec"]
    assert [e["resourceClaimTemplateName"] for e in pod["spec"]["resourceClaims"]] == [
        "large-black-cat-claim-template"
    ] * 2
    claims = await run_today([m for m in manifests if m["kind"] != "ClaimParameters"], tmp_path)
    assert all(claim["status"]["allocation"]["devices"]["results"] for claim in claims)
    assert len(claims) == 2


async def test_beta_claims_of_a_live_cluster_become_v1_claims(tmp_path: Path) -> None:
    async with cluster("1.32") as scene:
        await scene.apply("beta-1.32/slices.yaml", "beta-1.32/cats.yaml")
        await scene.wait_bound("pod-with-cats")
        manifests = await read(scene)
    assert [m["kind"] for m in manifests] == ["DeviceClass", "ResourceClaimTemplate", "Pod"]
    assert {m["apiVersion"] for m in manifests} == {"resource.k8s.io/v1", "v1"}
    assert len(await run_today(manifests, tmp_path)) == 2


async def test_workloads_are_taken_along_and_what_they_made_is_not() -> None:
    entry = {"name": "c", "source": {"resourceClaimName": "mine"}}
    labels = {"app": "x"}
    spec = {"containers": [{"name": "a", "image": "i"}], "resourceClaims": [entry]}
    async with cluster("1.30") as scene:
        template = {"metadata": {"labels": labels}, "spec": spec}
        body = {
            "metadata": {"name": "d"},
            "spec": {"selector": {"matchLabels": labels}, "template": template},
        }
        await scene.client.create(DEPLOYMENTS, "default", body)
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "d-1", "uid": "u", "controller": True}
        pod = {"metadata": {"name": "d-1-x", "ownerReferences": [owner]}, "spec": spec}
        await scene.client.create(PODS, "default", pod)
        await scene.pod("without-claims")
        [found] = await read(scene)
    assert (found["kind"], found["metadata"]["name"]) == ("Deployment", "d")
    assert "status" not in found
    assert found["spec"]["template"]["spec"]["resourceClaims"] == [{"name": "c", "resourceClaimName": "mine"}]
