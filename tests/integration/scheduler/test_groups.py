"""Groups of pods through the real API server: the scheduler, the claim controller and the Job controller together."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from dray.client.resources import JOBS, POD_GROUPS, PODS, PRIORITY_CLASSES, RESOURCE_CLAIMS, WORKLOADS
from dray.placement.config import Configuration, SchedulerProfile
from dray.scheduler import backfill
from tests.support.controlplane import ControlPlane, control_plane, scheduler
from tests.support.wait import wait_for

CONTROLLERS = (
    "resourceclaim-controller", "garbage-collector-controller", "podgroup-protection-controller", "job-controller",
)  # fmt: skip


@asynccontextmanager
async def cluster(data: Path, *, devices: int = 0, cpu: str = "8") -> AsyncIterator[ControlPlane]:
    """One node, a class of its devices, and a template for one of them."""
    configuration = Configuration(profiles=(SchedulerProfile(),), initial_backoff=0.05, max_backoff=0.2)
    async with control_plane(*CONTROLLERS, data=data) as plane, scheduler(plane, configuration=configuration):
        await plane.ready_node("a", devices=devices, cpu=cpu)
        await plane.device_class()
        await plane.claim_template("t")
        yield plane


async def gang(
    plane: ControlPlane, name: str, least: int, *, pods: int | None = None, cpu: str = "0", **spec: Any
) -> None:
    await plane.create(POD_GROUPS, name, {"schedulingPolicy": {"gang": {"minCount": least}}, **spec})
    for i in range(least if pods is None else pods):
        await member(
            plane, name, i, cpu=cpu, claims=None if cpu != "0" else {"c": {"resourceClaimTemplateName": "t"}}
        )


async def member(plane: ControlPlane, group: str, number: int, *, cpu: str = "0", claims: Any = None) -> None:
    resources = {"requests": {"cpu": cpu}}
    await plane.pod(
        f"{group}-{number}", schedulingGroup={"podGroupName": group}, claims=claims, resources=resources
    )


async def condition(plane: ControlPlane, group: str, reason: str) -> str:
    """The message of the group's condition, once it has this reason."""

    async def message() -> str | None:
        for one in ((await plane.get(POD_GROUPS, group)).get("status") or {}).get("conditions") or ():
            if one["reason"] == reason:
                return f"said: {one['message']}"
        return None

    return str(await wait_for(f"group {group} to be {reason}", message)).removeprefix("said: ")


async def bound(plane: ControlPlane, group: str) -> int:
    return sum(
        p["metadata"]["name"].startswith(f"{group}-") and bool(p["spec"].get("nodeName"))
        for p in await plane.pods()
    )


async def test_a_gang_starts_when_its_last_device_comes_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "PATIENCE_SECONDS", 1e6)
    async with cluster(tmp_path, devices=2) as s:
        await s.pod("other", claims={"c": {"resourceClaimTemplateName": "t"}})
        await s.wait_bound("other")
        await gang(s, "g", 2)
        assert (await condition(s, "g", "Unschedulable")).startswith(
            "minCount (2) cannot be satisfied: 1 scheduled"
        )
        assert await bound(s, "g") == 0 and len(await s.devices_in_use()) == 1
        await s.pod("quick", claims={"c": {"resourceClaimTemplateName": "t"}})
        await s.wait_bound("quick")  # the gang has not waited for long
        await s.client.delete(PODS, "default", "quick")
        await s.client.delete(PODS, "default", "other")
        await condition(s, "g", "Scheduled")
        await wait_for("both to be bound", lambda: _is(bound(s, "g"), 2))


async def _is(found: Any, wanted: Any) -> bool:
    return bool(await found == wanted)


async def test_a_gang_behind_another_takes_only_what_that_one_could_not_use(tmp_path: Path) -> None:
    """Five cores: the first gang needs six; the second would delay it, the third asks for devices alone."""
    async with cluster(tmp_path, devices=1, cpu="6") as s:
        await s.pod("other", resources={"requests": {"cpu": "1"}})
        await s.wait_bound("other")
        await gang(s, "first", 3, cpu="2")
        await condition(s, "first", "Unschedulable")
        await gang(s, "second", 2, cpu="2")
        assert "waiting in line: pod group first is first" in await condition(s, "second", "Unschedulable")
        await gang(s, "third", 1)
        await condition(s, "third", "Scheduled")
        assert await bound(s, "second") == 0
        await s.client.delete(PODS, "default", "other")
        await condition(s, "first", "Scheduled")
        for i in range(3):
            await s.client.delete(PODS, "default", f"first-{i}")
        await condition(s, "second", "Scheduled")


async def test_a_single_pod_takes_nothing_that_a_gang_which_has_waited_for_long_could_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three of four devices are free, and the gang wants four."""
    monkeypatch.setattr(backfill, "PATIENCE_SECONDS", 0.0)
    claims = {"c": {"resourceClaimTemplateName": "t"}}
    async with cluster(tmp_path, devices=4, cpu="8") as s:
        await s.client.create(PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 5})
        await s.pod("other", claims=claims)
        await s.wait_bound("other")
        await gang(s, "g", 4)
        await condition(s, "g", "Unschedulable")
        await s.pod("late", claims=claims)
        assert "waiting in line: pod group g is first" in await s.wait_unschedulable("late")
        await s.pod("without-devices", resources={"requests": {"cpu": "1"}})
        await s.wait_bound("without-devices")
        await s.pod("important", claims=claims, priorityClassName="high")
        await s.wait_bound("important")
        await s.ready_node("b", devices=2)
        await condition(s, "g", "Scheduled")
        await s.client.delete(PODS, "default", "important")
        await s.wait_bound("late")


async def test_single_pods_that_come_and_go_do_not_keep_a_gang_waiting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two devices, and always a pod that wants the one that comes free."""
    monkeypatch.setattr(backfill, "PATIENCE_SECONDS", 0.0)
    claims = {"c": {"resourceClaimTemplateName": "t"}}
    async with cluster(tmp_path, devices=2) as s:
        for name in ("a0", "a1"):
            await s.pod(name, claims=claims)
            await s.wait_bound(name)
        await gang(s, "g", 2)
        await condition(s, "g", "Unschedulable")
        for i in range(4):
            await s.pod(f"z-{i}", claims=claims)
        for name in ("a0", "a1"):
            await s.client.delete(PODS, "default", name)
        await condition(s, "g", "Scheduled")
        assert await bound(s, "z") == 0
        await s.client.delete(PODS, "default", "g-0")
        await wait_for("a single pod to be bound", lambda: bound(s, "z"))


async def test_who_waits_for_a_gang_is_tried_when_the_gang_is_gone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backfill, "PATIENCE_SECONDS", 0.0)
    claims = {"c": {"resourceClaimTemplateName": "t"}}
    async with cluster(tmp_path, devices=2) as s:
        await s.pod("other", claims=claims)
        await s.wait_bound("other")
        await gang(s, "g", 2)
        await condition(s, "g", "Unschedulable")
        await s.pod("late", claims=claims)
        await s.wait_unschedulable("late")
        await s.client.delete(PODS, "default", "g-0")
        await s.wait_bound("late")


async def test_a_gang_that_can_never_be_placed_holds_nobody_up(tmp_path: Path) -> None:
    async with cluster(tmp_path, cpu="4") as s:
        await gang(s, "huge", 3, cpu="2")
        await condition(s, "huge", "Unschedulable")
        await gang(s, "small", 2, cpu="1")
        await condition(s, "small", "Scheduled")


async def test_a_claim_of_the_group_is_reserved_once_and_goes_with_the_group(tmp_path: Path) -> None:
    shared = [{"name": "c", "resourceClaimTemplateName": "t"}]
    async with cluster(tmp_path, devices=2) as s:
        await gang(s, "g", 3, resourceClaims=shared)
        await condition(s, "g", "Scheduled")
        await wait_for("all to be bound", lambda: _is(bound(s, "g"), 3))
        [claim] = (await s.client.list(RESOURCE_CLAIMS)).items
        assert [(r["resource"], r["name"]) for r in claim["status"]["reservedFor"]] == [("podgroups", "g")]
        assert claim["metadata"]["ownerReferences"][0]["kind"] == "PodGroup"
        await s.client.delete(POD_GROUPS, "default", "g")
        for i in range(3):
            assert await s.find(POD_GROUPS, "g") is not None
            await s.client.delete(PODS, "default", f"g-{i}")
        await s.wait_gone(POD_GROUPS, "g")
        await s.wait_gone(RESOURCE_CLAIMS, claim["metadata"]["name"])


async def test_a_job_with_a_gang_gets_workload_and_group_which_follow_its_size(tmp_path: Path) -> None:
    async with cluster(tmp_path, cpu="3") as s:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "2"}}}
        template = {"spec": {"containers": [container], "restartPolicy": "Never"}}
        scheduling = {"schedulingPolicy": {"gang": {}}}
        await s.create(JOBS, "j", {"parallelism": 2, "template": template, "scheduling": scheduling})
        groups = await wait_for("the group", lambda: _items(s, POD_GROUPS))
        name = groups[0]["metadata"]["name"]
        assert groups[0]["spec"]["schedulingPolicy"] == {"gang": {"minCount": 2}}
        assert len((await s.client.list(WORKLOADS)).items) == 1
        await condition(s, name, "Unschedulable")
        await s.change(JOBS, "j", {"parallelism": 1})
        await condition(s, name, "Scheduled")
        await s.create(JOBS, "plain", {"parallelism": 1, "template": template})
        await wait_for("its pod", lambda: _pods_of(s, "plain"))
        assert len((await s.client.list(POD_GROUPS)).items) == 1


async def _items(s: ControlPlane, resource: Any) -> list[Any]:
    return list((await s.client.list(resource)).items)


async def _pods_of(s: ControlPlane, job: str) -> list[Any]:
    return await s.pods(**{"batch.kubernetes.io/job-name": job})
