"""Device taint eviction on a real API server."""

from __future__ import annotations

from typing import Any

from dray.api.scheme.kinds import Object
from dray.client.resources import DEVICE_TAINT_RULES, EVENTS, PODS, RESOURCE_CLAIMS, RESOURCE_SLICES
from tests.support.controlplane import ControlPlane, control_plane, controllers, server
from tests.support.wait import wait_for

TAINTS = "device-taint-eviction-controller"
DRIVER = "d.example.com"


async def publish(s: ControlPlane, *taints: Object) -> None:
    spec = {
        "driver": DRIVER,
        "nodeName": "n",
        "pool": {"name": "n", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "taints": list(taints)}, {"name": "gpu-1"}],
    }
    old = await s.find(RESOURCE_SLICES, "s")
    metadata = {"name": "s"} if old is None else old["metadata"]
    write = s.client.create if old is None else s.client.update
    await write(RESOURCE_SLICES, "", {"metadata": metadata, "spec": spec})


async def user(
    s: ControlPlane, name: str = "p", *, device: str = "gpu-0", tolerations: list[Object] | None = None
) -> Object:
    """A pod on a node, with a claim of its name that has a device."""
    spec = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
    await s.client.create(RESOURCE_CLAIMS, "default", {"metadata": {"name": name}, "spec": spec})
    entries = [{"name": "gpu", "resourceClaimName": name}]
    pod = await s.pod(name, nodeName="n", resourceClaims=entries)
    result = {
        "request": "r",
        "driver": DRIVER,
        "pool": "n",
        "device": device,
        "tolerations": tolerations or [],
    }
    status = {
        "allocation": {"devices": {"results": [result]}},
        "reservedFor": [{"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}],
    }
    await s.client.patch_status(RESOURCE_CLAIMS, "default", name, {"status": status})
    return pod


async def rule(s: ControlPlane, name: str = "rule", *, effect: str = "NoExecute", **selector: Any) -> None:
    spec = {"deviceSelector": selector, "taint": {"key": "broken", "effect": effect}}
    await s.client.create(DEVICE_TAINT_RULES, "", {"metadata": {"name": name}, "spec": spec})


async def condition(s: ControlPlane, name: str = "rule") -> Object:
    async def told() -> Object:
        return (await s.get(DEVICE_TAINT_RULES, name))["status"]["conditions"][0]

    found: Object = await wait_for(f"a condition of DeviceTaintRule {name}", told)
    return found


BROKEN = {"key": "broken", "effect": "NoExecute"}
BEAR = {"key": "broken", "operator": "Exists", "effect": "NoExecute"}


async def test_a_tainted_device_drives_its_pod_away_and_no_other():
    async with control_plane(TAINTS) as s:
        await publish(s)
        pod = await user(s)
        await user(s, "other", device="gpu-1")
        await user(s, "patient", tolerations=[BEAR])
        await s.client.patch(PODS, "default", "p", {"metadata": {"finalizers": ["example.com/hold"]}})
        await publish(s, BROKEN)

        async def going() -> bool:
            return "deletionTimestamp" in (await s.get(PODS, "p"))["metadata"]

        await wait_for("pod p to be deleted", going)
        (told,) = [
            c for c in (await s.get(PODS, "p"))["status"]["conditions"] if c["type"] == "DisruptionTarget"
        ]
        assert (told["status"], told["reason"]) == ("True", "DeletionByDeviceTaintManager")

        async def events() -> list[Object]:
            found = (await s.client.list(EVENTS, "default")).items
            return [e for e in found if e["reason"] == "DeviceTaintManagerEviction"]

        (event,) = await wait_for("an eviction event", events)
        assert (event["message"], event["involvedObject"]["uid"]) == (
            "Marking for deletion", pod["metadata"]["uid"],
        )  # fmt: skip
        assert "deletionTimestamp" not in (await s.get(PODS, "other"))["metadata"]
        assert "deletionTimestamp" not in (await s.get(PODS, "patient"))["metadata"]


async def test_taints_set_before_the_controller_started_count():
    async with server() as s:
        await publish(s, BROKEN)
        await user(s)
        async with controllers(s, TAINTS):
            await s.wait_gone(PODS, "p")


async def test_a_pod_that_gets_a_tainted_device_goes():
    async with control_plane(TAINTS) as s:
        await publish(s, BROKEN)
        await user(s)
        await s.wait_gone(PODS, "p")


async def test_a_rule_drives_pods_away_and_tells_of_them_first():
    async with control_plane(TAINTS) as s:
        await publish(s)
        await user(s, tolerations=[{**BEAR, "tolerationSeconds": 3600}])
        await user(s, "victim")
        await rule(s, driver=DRIVER)
        told = await condition(s)
        assert (told["status"], told["message"]) == ("True", "2 pods need to be evicted in 1 namespace.")
        await s.wait_gone(PODS, "victim")
        assert await s.get(PODS, "p")


async def test_a_rule_that_goes_in_time_spares_the_pod():
    async with control_plane(TAINTS) as s:
        await publish(s)
        await user(s, tolerations=[{**BEAR, "tolerationSeconds": 3600}])
        await rule(s, driver=DRIVER)
        await condition(s)
        await s.client.delete(DEVICE_TAINT_RULES, "", "rule")

        async def spared() -> bool:
            found = (await s.client.list(EVENTS, "default")).items
            return any(e["message"] == "Cancelling deletion" for e in found)

        await wait_for("an event about the cancelled deletion", spared)


async def test_a_rule_without_effect_only_counts():
    async with control_plane(TAINTS) as s:
        await publish(s)
        await user(s)
        await rule(s, effect="None", driver=DRIVER)
        told = await condition(s)
        assert told["message"].startswith(
            "2 published devices selected. 1 allocated device selected. 1 pod would be evicted in 1 namespace"
        )
        await s.wait_quiet()
        assert await s.get(PODS, "p")


async def test_a_claim_reserved_for_somebody_else_is_no_reason():
    async with control_plane(TAINTS) as s:
        await publish(s)
        await user(s, "owner")
        entries = [{"name": "gpu", "resourceClaimName": "owner"}]
        await s.pod("bystander", nodeName="n", resourceClaims=entries)
        await publish(s, BROKEN)
        await s.wait_gone(PODS, "owner")
        await s.wait_quiet()
        assert await s.get(PODS, "bystander")
