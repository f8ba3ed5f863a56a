"""Controllers that are stopped anywhere and started again leave nothing behind and forget nothing."""

from __future__ import annotations

import asyncio
import random

import pytest

from dray.client.resources import NAMESPACES, PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from tests.support.controlplane import ControlPlane, controllers, server

ALL = (
    "resourceclaim-controller", "garbage-collector-controller", "namespace-controller",
    "pod-garbage-collector-controller", "device-taint-eviction-controller",
)  # fmt: skip
SETTINGS = {"namespace-controller": {"grace_seconds": 0}}
SPEC = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}


async def users(s: ControlPlane, chance: random.Random, namespace: str) -> None:
    """Pods come, some are placed, finish or go; now and then the loop belongs to the others."""
    for i in range(25):
        entries = [{"name": e, "resourceClaimTemplateName": "t"} for e in ("a", "b")]
        await s.pod(f"p-{i}", namespace=namespace, resourceClaims=entries)
        for _ in range(chance.randrange(30)):
            await asyncio.sleep(0)
        match chance.randrange(4):
            case 0:
                await s.client.delete(PODS, namespace, f"p-{i}")
            case 1:
                await s.client.patch_status(PODS, namespace, f"p-{i}", {"status": {"phase": "Failed"}})
            case 2:
                await place(s, namespace, f"p-{i}")


async def place(s: ControlPlane, namespace: str, name: str) -> None:
    """Allocate and reserve whatever claims the pod has by now, as the scheduler would."""
    pod = await s.get(PODS, name, namespace)
    for entry in pod["status"].get("resourceClaimStatuses") or ():
        claim = entry["resourceClaimName"]
        if await s.find(RESOURCE_CLAIMS, claim, namespace) is None:
            continue  # named, and yet to be made
        finalizers = ["resource.kubernetes.io/delete-protection"]
        await s.client.patch(RESOURCE_CLAIMS, namespace, claim, {"metadata": {"finalizers": finalizers}})
        result = {"request": "r", "driver": "d.example.com", "pool": "n", "device": claim}
        consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [consumer]}
        await s.client.patch_status(RESOURCE_CLAIMS, namespace, claim, {"status": status})


async def check(s: ControlPlane, namespace: str) -> None:
    """Each pod that lives has its two claims, and nobody else has any."""
    pods = {p["metadata"]["uid"]: p for p in (await s.client.list(PODS, namespace)).items}
    living = {uid for uid, p in pods.items() if p["status"]["phase"] == "Pending"}
    owned: dict[str, set[str]] = {}
    for claim in (await s.client.list(RESOURCE_CLAIMS, namespace)).items:
        (owner,) = claim["metadata"]["ownerReferences"]
        owned.setdefault(owner["uid"], set()).add(claim["metadata"]["name"])
    assert owned.keys() == living
    for uid, names in owned.items():
        told = {e["resourceClaimName"] for e in pods[uid]["status"]["resourceClaimStatuses"]}
        assert names == told and len(names) == 2


@pytest.mark.parametrize("emulate", ["", "1.36"])
@pytest.mark.parametrize("seed", range(6))
async def test_whenever_they_are_stopped_the_next_ones_finish_the_work(seed, emulate):
    chance = random.Random(seed)
    async with server(emulate) as s:
        await s.namespace("n")
        await s.client.create(
            RESOURCE_CLAIM_TEMPLATES, "n", {"metadata": {"name": "t"}, "spec": {"spec": SPEC}}
        )
        work = asyncio.create_task(users(s, chance, "n"))
        while not work.done():
            async with controllers(s, *ALL, settings=SETTINGS):
                for _ in range(chance.randrange(200)):
                    await asyncio.sleep(0)
        await work
        async with controllers(s, *ALL, settings=SETTINGS):
            await s.wait_quiet()
            await check(s, "n")
        await s.client.delete(NAMESPACES, "", "n")
        for _ in range(3):
            async with controllers(s, *ALL, settings=SETTINGS):
                for _ in range(chance.randrange(100)):
                    await asyncio.sleep(0)
        async with controllers(s, *ALL, settings=SETTINGS):
            await s.wait_gone(NAMESPACES, "n")
        assert not (await s.client.list(RESOURCE_CLAIMS)).items
