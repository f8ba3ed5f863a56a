"""Pods, claims and devices through the real API server: what the scheduler and the claim controller do together."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from dray.api.release import EffectiveVersion
from dray.client.resources import DEVICE_CLASSES, EVENTS, PODS, PRIORITY_CLASSES, RESOURCE_CLAIMS
from dray.placement.config import Configuration, SchedulerProfile
from tests.support.controlplane import ControlPlane, cluster, control_plane, scheduler
from tests.support.wait import wait_for

FINALIZER = "resource.kubernetes.io/delete-protection"


@asynccontextmanager
async def scheduled_cluster(data: Path, *profiles: SchedulerProfile) -> AsyncIterator[ControlPlane]:
    """The full API server, the claim controller and the scheduler."""
    configuration = Configuration(profiles=profiles or (SchedulerProfile(),))
    async with (
        control_plane("resourceclaim-controller", data=data) as plane,
        scheduler(plane, configuration=configuration),
    ):
        yield plane


def from_template(name: str = "t") -> dict[str, str]:
    return {"resourceClaimTemplateName": name}


def named(name: str) -> dict[str, str]:
    return {"resourceClaimName": name}


async def test_a_pod_without_claims_gets_a_node(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=0)
        await s.pod("p")
        assert await s.bound_node("p") == "a"


async def test_two_claims_of_one_template_are_two_devices(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.device_class()
        await s.claim_template("t")
        await s.pod("p", claims={"one": from_template(), "two": from_template()})
        assert await s.bound_node("p") == "a"
        names = {
            c["name"]: c["resourceClaimName"]
            for c in (await s.get(PODS, "p"))["status"]["resourceClaimStatuses"]
        }
        assert set(names) == {"one", "two"}
        assert sorted(await s.devices_in_use()) == [("a", "gpu-0"), ("a", "gpu-1")]
        claim = await s.get(RESOURCE_CLAIMS, names["one"])
        assert claim["metadata"]["finalizers"] == [FINALIZER]
        assert [r["name"] for r in claim["status"]["reservedFor"]] == ["p"]


async def test_a_shared_claim_is_one_device_for_all_its_pods(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.ready_node("b", devices=2)
        await s.device_class()
        await s.claim("shared")
        for i in range(5):
            await s.pod(f"p{i}", claims={"c": named("shared")})
        assert len({await s.bound_node(f"p{i}") for i in range(5)}) == 1
        assert len(await s.devices_in_use()) == 1
        assert len((await s.get(RESOURCE_CLAIMS, "shared"))["status"]["reservedFor"]) == 5


async def test_devices_come_back_when_the_pod_is_done(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=1)
        await s.device_class()
        await s.claim("c")
        await s.pod("first", claims={"c": named("c")})
        await s.bound_node("first")
        await s.claim("d")
        await s.pod("second", claims={"d": named("d")})
        assert "cannot allocate all claims" in await s.wait_unschedulable("second")
        await s.finish(await s.get(PODS, "first"))
        assert await s.bound_node("second") == "a"
        released = await s.get(RESOURCE_CLAIMS, "c")
        assert "allocation" not in released["status"]
        assert "finalizers" not in released["metadata"]


async def test_a_generated_claim_goes_with_its_pod(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=1)
        await s.device_class()
        await s.claim_template("t")
        await s.pod("p", claims={"c": from_template()})
        await s.bound_node("p")
        name = (await s.get(PODS, "p"))["status"]["resourceClaimStatuses"][0]["resourceClaimName"]
        await s.finish(await s.get(PODS, "p"))

        await s.wait_gone(RESOURCE_CLAIMS, name)


async def test_a_pending_pod_says_why_and_starts_when_it_can(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=0)
        await s.claim("c")
        await s.pod("p", claims={"c": named("c")})
        assert await s.wait_unschedulable("p") == (
            "0/1 nodes are available: request req: device class gpu does not exist. "
            "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
        )
        await s.device_class()
        await s.resource_slice("a", [{"name": "gpu-0"}])
        assert await s.bound_node("p") == "a"


async def test_a_pod_whose_claim_is_missing_is_gated(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.device_class()
        await s.pod("p", claims={"c": named("later")})
        await s.pod("marker")
        await s.bound_node("marker")
        assert "conditions" not in (await s.get(PODS, "p"))["status"]
        await s.claim("later")
        assert await s.bound_node("p") == "a"


async def test_a_gated_pod_gets_an_event(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.pod("p", claims={"c": named("later")})

        async def told() -> list[str]:
            return [e["message"] for e in (await s.client.list(EVENTS, "default")).items]

        assert await wait_for("events", told) == [
            'waiting for the claims of the pod: resourceclaim.resource.k8s.io "later" not found'
        ]


async def test_a_claim_allocated_elsewhere_and_unused_is_moved(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=1)
        await s.device_class()
        await s.claim("c")
        result = {"driver": "gpu.example.com", "pool": "a", "device": "gpu-0", "request": "req"}
        only_a = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}
        allocation = {"devices": {"results": [result]}, "nodeSelector": {"nodeSelectorTerms": [only_a]}}
        await s.client.patch_status(RESOURCE_CLAIMS, "default", "c", {"status": {"allocation": allocation}})
        await s.ready_node("b", devices=1)
        await s.pod("second", claims={"c": named("c")}, nodeSelector={"kubernetes.io/hostname": "b"})
        assert await s.bound_node("second") == "b"
        assert await s.devices_in_use() == [("b", "gpu-0")]


async def test_an_extended_resource_is_served_by_devices(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=1)
        await s.device_class(extendedResourceName="example.com/gpu")
        limits = {"limits": {"example.com/gpu": "1"}, "requests": {"example.com/gpu": "1"}}
        await s.pod("p", resources=limits)
        assert await s.bound_node("p") == "a"
        status = (await s.get(PODS, "p"))["status"]["extendedResourceClaimStatus"]
        assert status["requestMappings"] == [
            {"containerName": "c", "resourceName": "example.com/gpu", "requestName": "container-0-request-0"}
        ]
        await s.pod("q", resources=limits)
        assert "cannot allocate all claims" in await s.wait_unschedulable("q")


async def test_a_pod_with_a_preset_node_gets_its_reservation(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.device_class()
        await s.claim("c")
        await s.pod("p", claims={"c": named("c")})
        await s.bound_node("p")
        await s.pod("q", claims={"c": named("c")}, nodeName="a")

        async def reserved() -> bool:
            return {r["name"] for r in (await s.get(RESOURCE_CLAIMS, "c"))["status"]["reservedFor"]} == {
                "p",
                "q",
            }

        await wait_for("the claim to be reserved for p and q", reserved)


async def test_a_deleted_class_does_not_stop_others(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        await s.ready_node("a", devices=2)
        await s.device_class()
        await s.device_class("other")
        await s.client.delete(DEVICE_CLASSES, "", "other")
        await s.claim("c")
        await s.pod("p", claims={"c": named("c")})
        assert await s.bound_node("p") == "a"


async def test_each_profile_schedules_its_own_pods_and_reports_under_its_name(tmp_path: Path) -> None:
    packs = SchedulerProfile(name="packs", device_policy="pack")
    async with scheduled_cluster(tmp_path, SchedulerProfile(), packs) as s:
        for name in "ab":
            await s.ready_node(name, devices=3)
        await s.device_class()
        await s.claim_template("t")
        for i in range(3):
            await s.pod(f"p{i}", claims={"c": from_template()}, schedulerName="packs")
        assert len({await s.bound_node(f"p{i}") for i in range(3)}) == 1
        await s.pod("plain")
        await s.bound_node("plain")
        await s.pod("nobodys", schedulerName="another")

        async def speakers() -> dict[str, str]:
            events = (await s.client.list(EVENTS, "default")).items
            said = {e["involvedObject"]["name"]: e["reportingComponent"] for e in events}
            return said if {"plain", "p0"} <= said.keys() else {}

        said = await wait_for("events about both pods", speakers)
        assert (said["plain"], said["p0"]) == ("default-scheduler", "packs")
        assert "nodeName" not in (await s.get(PODS, "nobodys"))["spec"]


async def test_devices_of_lower_priority_are_preempted_where_the_profile_allows_it(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path, SchedulerProfile(device_preemption=True)) as s:
        await s.ready_node("a", devices=2)
        await s.device_class()
        for name in ("low", "high"):
            value = {"low": 1, "high": 10}[name]
            await s.client.create(PRIORITY_CLASSES, "", {"metadata": {"name": name}, "value": value})
        await s.claim_template("t")
        for i in range(2):
            await s.pod(
                f"low-{i}",
                claims={"c": from_template()},
                priorityClassName="low",
                terminationGracePeriodSeconds=30,
            )
            await s.bound_node(f"low-{i}")
        await s.pod("high", claims={"c": from_template()}, priorityClassName="high")

        async def victims() -> list[str]:
            pods = (await s.client.list(PODS)).items
            return [p["metadata"]["name"] for p in pods if "deletionTimestamp" in p["metadata"]]

        (victim,) = await wait_for("victims of the preemption", victims)
        assert (await s.get(PODS, "high"))["status"]["nominatedNodeName"] == "a"
        # A pod as important as those that had to go does not get what they leave.
        await s.pod("thief", claims={"c": from_template()}, priorityClassName="low")
        await s.client.delete(PODS, "default", victim, grace_seconds=0)
        assert await s.bound_node("high") == "a"
        assert "cannot allocate all claims" in await s.wait_unschedulable("thief")
        left = {p["metadata"]["name"] for p in (await s.client.list(PODS)).items}
        assert left == {"low-0", "low-1", "high", "thief"} - {victim}


async def fill(s: ControlPlane, pods: int) -> None:
    await asyncio.gather(*(s.pod(f"p{i}", claims={"c": from_template()}) for i in range(pods)))


async def test_no_device_is_given_twice_and_none_is_left_over(tmp_path: Path) -> None:
    async with scheduled_cluster(tmp_path) as s:
        for name in "abcd":
            await s.ready_node(name, devices=8)
        await s.device_class()
        await s.claim_template("t")
        await fill(s, 40)

        async def all_taken() -> bool:
            return len(await s.devices_in_use()) == 32

        await wait_for("all 32 devices to be allocated", all_taken)
        in_use = await s.devices_in_use()
        assert len(set(in_use)) == 32
        placed = [p for p in (await s.client.list(PODS)).items if p["spec"].get("nodeName")]
        for p in placed[:10]:
            await s.client.delete(PODS, "default", p["metadata"]["name"], grace_seconds=0)
        # No garbage collector runs here, but the claim controller frees what deleted pods held.
        waiting = {
            p["metadata"]["name"] for p in (await s.client.list(PODS)).items if not p["spec"].get("nodeName")
        }
        for name in waiting:
            await s.bound_node(name)
        in_use = await s.devices_in_use()
        assert len(in_use) == len(set(in_use))


async def test_a_scheduler_without_the_gate_binds_pods_with_claims_and_leaves_the_claims_alone(
    tmp_path: Path,
) -> None:
    """The claim need not even exist: the kubelet is the one that holds such pods back."""
    off = EffectiveVersion().gates({"DynamicResourceAllocation": False})
    async with (
        control_plane("resourceclaim-controller", data=tmp_path) as s,
        scheduler(s, gates=off),
    ):
        await s.ready_node("a", devices=1)
        await s.device_class()
        await s.claim("c")
        await s.pod("p", claims={"one": named("c")})
        await s.pod("q", claims={"one": named("missing")})
        assert await s.bound_node("p") == "a"
        assert await s.bound_node("q") == "a"
        assert "allocation" not in ((await s.get(RESOURCE_CLAIMS, "c")).get("status") or {})


async def test_in_an_emulated_release_the_api_server_refuses_one_user_too_many() -> None:
    users = [
        {"apiGroup": "example.com", "resource": "things", "name": f"n{i}", "uid": f"u{i}"} for i in range(256)
    ]
    async with cluster("1.36", nodes=("a",)) as s:
        await s.device_class()
        await s.claim("c")
        claim = await s.get(RESOURCE_CLAIMS, "c")
        allocation = {"devices": {"results": []}, "allocationTimestamp": "2026-01-01T00:00:00Z"}
        claim["status"] = {"allocation": allocation, "reservedFor": users}
        await s.client.update_status(RESOURCE_CLAIMS, "default", claim)
        await s.pod("p", claims={"c": named("c")})

        async def refused() -> dict[str, str] | None:
            conditions = (await s.get(PODS, "p"))["status"].get("conditions") or ()
            return next((c for c in conditions if c["reason"] == "SchedulerError"), None)

        condition = await wait_for("the scheduler's error", refused)
        assert condition["message"] == (
            'running PreBind plugin "DynamicResources": add reservation to claim default/c: '
            'ResourceClaim.resource.k8s.io "c" is invalid: status.reservedFor: Too many: 257: '
            "must have at most 256 items"
        )


async def test_selectors_that_take_long_delay_their_pod_alone(tmp_path: Path) -> None:
    """One pod with such selectors used to hold the event loop, and with it the API server, until all were evaluated."""
    numbers = list(range(14))
    slow = f"{numbers}.all(x, {numbers}.all(y, {numbers}.all(z, x + y + z >= 0)))"
    own = 'device.attributes["gpu.example.com"].n'
    selectors = [f"{own} >= -{i} && {slow}" for i in range(3)] + [f"{own} == 29"]
    exactly = {
        "deviceClassName": "gpu",
        "selectors": [{"cel": {"expression": selector}} for selector in selectors],
    }
    stalls = [0.0]

    async def watchdog() -> None:
        while True:
            began = time.monotonic()
            await asyncio.sleep(0.005)
            stalls.append(time.monotonic() - began)

    async with scheduled_cluster(tmp_path) as s, asyncio.TaskGroup() as tasks:
        await s.ready_node("a")
        await s.resource_slice(
            "a", ({"name": f"gpu-{i}", "attributes": {"n": {"int": i}}} for i in range(30))
        )
        await s.device_class()
        await s.create(RESOURCE_CLAIMS, "c", {"devices": {"requests": [{"name": "r", "exactly": exactly}]}})
        task = tasks.create_task(watchdog())
        await s.pod("slow", claims={"one": named("c")})
        await s.pod("plain")
        assert await s.bound_node("plain") == "a"
        assert "nodeName" not in (await s.get(PODS, "slow"))["spec"]
        assert await s.bound_node("slow") == "a"
        task.cancel()
        assert await s.devices_in_use() == [("a", "gpu-29")]
    assert max(stalls) < 1.0  # the evaluations take some seconds together
