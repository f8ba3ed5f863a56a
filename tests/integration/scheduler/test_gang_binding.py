"""Gangs are bound all or not at all, at every revision of the real API server, also if the scheduler dies in the middle."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from dray.api.errors import Conflict, NotFound
from dray.api.user import UserInfo
from dray.client.client import Client
from dray.client.resources import POD_GROUPS, PODS, PRIORITY_CLASSES, RESOURCE_CLAIMS
from dray.placement.config import Configuration, SchedulerProfile
from dray.scheduler import component
from dray.server.inprocess import InProcessTransport
from tests.support.controlplane import ControlPlane, control_plane, run_component, scheduler
from tests.support.gang_history import GangHistory
from tests.support.wait import wait_for

CONTROLLERS = ("resourceclaim-controller", "garbage-collector-controller", "podgroup-protection-controller")
CONFIGURATION = Configuration(profiles=(SchedulerProfile(),), initial_backoff=0.02, max_backoff=0.1)
OWN = {"c": {"resourceClaimTemplateName": "t"}}


class FailingTransport(InProcessTransport):
    """A scheduler's way to the server. It is cut after some writes, as if the process were killed, or refuses writes."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__(plane.api, UserInfo("scheduler", groups=("system:masters",)), agent="scheduler")
        self.dies_after: tuple[str, int] = ("", 0)
        self.refuses: tuple[str, int] = ("", 0)  # so many writes of this kind are refused, after the first
        self.seen: dict[str, int] = {}
        self.dead = asyncio.Event()

    async def request(self, method: str, path: str, **more: Any) -> Any:
        kind = (
            "bind"
            if path.endswith("/binding")
            else "claim"
            if "/resourceclaims/" in path and path.endswith("/status")
            else ""
        )
        if self.dead.is_set():
            await asyncio.Event().wait()
        if method in ("POST", "PUT") and kind:
            self.seen[kind] = self.seen.get(kind, 0) + 1
            if kind == self.refuses[0] and 1 < self.seen[kind] <= 1 + self.refuses[1]:
                raise Conflict("refused by the test")
            if kind == self.dies_after[0] and self.seen[kind] > self.dies_after[1]:
                self.dead.set()
                await asyncio.Event().wait()
        return await super().request(method, path, **more)


@asynccontextmanager
async def cluster(
    data: Path, *, nodes: dict[str, int], cpu: str = "8"
) -> AsyncIterator[tuple[ControlPlane, GangHistory]]:
    """Nodes with so many devices, no scheduler yet, and the history from the start."""
    async with control_plane(*CONTROLLERS, data=data) as plane:
        for name, devices in nodes.items():
            await plane.ready_node(name, devices=devices, cpu=cpu)
        await plane.device_class()
        await plane.claim_template("t")
        history = GangHistory()
        version = (await plane.client.list(PODS)).resource_version
        async with run_component(lambda: history.follow(plane.client, version)):
            yield plane, history


async def gang(
    plane: ControlPlane, name: str, members: int, *, least: int | None = None, cpu: str = "0", shares: bool = False,
    claims: Any = None,
) -> None:  # fmt: skip
    spec: dict[str, Any] = {"schedulingPolicy": {"gang": {"minCount": least or members}}}
    if shares:
        spec["resourceClaims"] = [{"name": "c", **OWN["c"]}]
    await plane.create(POD_GROUPS, name, spec)
    for i in range(members):
        await plane.pod(
            f"{name}-{i}",
            schedulingGroup={"podGroupName": name},
            claims=claims,
            resources={"requests": {"cpu": cpu}},
        )


async def bound(plane: ControlPlane, prefix: str) -> int:
    return sum(
        p["metadata"]["name"].startswith(prefix) and bool(p["spec"].get("nodeName"))
        for p in await plane.pods()
    )


async def wait_scheduled(plane: ControlPlane, group: str) -> None:
    async def scheduled() -> bool:
        conditions = ((await plane.get(POD_GROUPS, group)).get("status") or {}).get("conditions") or ()
        return any(c["status"] == "True" for c in conditions)

    await wait_for(f"group {group} to be scheduled", scheduled)


async def checked(plane: ControlPlane, history: GangHistory) -> None:
    """The watches have seen everything that was written so far, and none of it is wrong."""
    last = await plane.create(POD_GROUPS, "last", {"schedulingPolicy": {"basic": {}}})
    revision = int(last["metadata"]["resourceVersion"])
    await wait_for("the history", lambda: _truth(any(one.revision >= revision for one in history.revisions)))
    await plane.wait_quiet()
    assert history.check() == []


async def _truth(value: bool) -> bool:
    return value


@asynccontextmanager
async def failing_scheduler(plane: ControlPlane, transport: FailingTransport) -> AsyncIterator[None]:
    options = component.Options(gates=plane.api.gates, version=plane.api.version, configuration=CONFIGURATION)
    async with run_component(lambda: component.run(Client(transport), options=options, ready=lambda _: None)):
        yield


@pytest.mark.parametrize(
    ("write", "after"), [("claim", 1), ("claim", 2), ("bind", 0), ("bind", 1), ("bind", 2)]
)
@pytest.mark.parametrize("shares", [False, True], ids=["own claims", "a claim of the group"])
async def test_a_scheduler_that_dies_in_the_middle_leaves_a_gang_that_the_next_one_completes_or_frees(
    tmp_path: Path, write: str, after: int, shares: bool
) -> None:
    """A rival with a higher priority waits for the next scheduler. It gets nothing of a gang that has begun, and no device
    of one whose claims are all written.
    """
    async with cluster(tmp_path, nodes={"a": 3}, cpu="3") as (plane, history):
        await plane.client.create(
            PRIORITY_CLASSES, "", {"metadata": {"name": "high"}, "value": 100, "preemptionPolicy": "Never"}
        )
        transport = FailingTransport(plane)
        transport.dies_after = write, 0 if shares and write == "claim" else after
        async with failing_scheduler(plane, transport):
            await gang(plane, "g", 3, cpu="1", shares=shares, claims=OWN)
            await wait_for("the scheduler to die", lambda: _truth(transport.dead.is_set()))
        begun = await bound(plane, "g-")
        assert begun == (after if write == "bind" else 0)
        await plane.pod("rival", priorityClassName="high", claims=OWN, resources={"requests": {"cpu": "1"}})
        await wait_for("its claim", lambda: _has_claim(plane, "rival"))
        async with scheduler(plane, configuration=CONFIGURATION):
            if begun or (write == "bind" and not shares):
                await wait_scheduled(plane, "g")
                assert await bound(plane, "g-") == 3
                assert "nodes are available" in await plane.wait_unschedulable("rival")
            else:
                await plane.wait_bound("rival")
                await wait_for("nothing to be held for the gang", lambda: _uses(plane, 1))
                assert await bound(plane, "g-") == 0
            await checked(plane, history)


async def _has_claim(plane: ControlPlane, pod: str) -> bool:
    statuses = (await plane.get(PODS, pod))["status"].get("resourceClaimStatuses") or ()
    return all([await plane.find(RESOURCE_CLAIMS, s["resourceClaimName"]) is not None for s in statuses])


async def _uses(plane: ControlPlane, devices: int) -> bool:
    return len(await plane.devices_in_use()) == devices


async def test_a_gang_whose_claims_cannot_all_be_written_is_taken_back_and_tried_again(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, nodes={"a": 3}) as (plane, history):
        transport = FailingTransport(plane)
        transport.refuses = "claim", 4
        async with failing_scheduler(plane, transport):
            await gang(plane, "g", 3, claims=OWN)
            await wait_scheduled(plane, "g")
            assert await bound(plane, "g-") == 3
            assert any(
                "another pod of the pod group cannot be bound" in m
                for m in await plane.events("FailedScheduling")
            )
            await checked(plane, history)


async def test_a_scheduled_gang_is_said_to_be_so_by_the_next_scheduler(tmp_path: Path) -> None:
    """The scheduler ends after the last bind, before it writes the condition."""
    async with cluster(tmp_path, nodes={"a": 0}) as (plane, history):
        await gang(plane, "g", 2)
        for i in range(2):
            await plane.client.bind("default", f"g-{i}", "a")
        async with scheduler(plane, configuration=CONFIGURATION):
            await wait_scheduled(plane, "g")
            await checked(plane, history)


@pytest.mark.parametrize("seed", range(3))
async def test_no_revision_shows_part_of_a_random_gang(tmp_path: Path, seed: int) -> None:
    """Gangs and single pods come, run and go on a small cluster, through two schedulers of which the first is killed."""
    rng = random.Random(seed)
    nodes = {f"n{i}": rng.randint(1, 3) for i in range(3)}
    gangs = {f"g{i}": rng.randint(2, min(4, sum(nodes.values()))) for i in range(7)}
    async with cluster(tmp_path, nodes=nodes) as (plane, history):

        async def live(name: str, size: int) -> None:
            claims = OWN if rng.random() < 0.8 else None
            await gang(
                plane,
                name,
                size + rng.randint(0, 1),
                least=size,
                cpu="1",
                shares=rng.random() < 0.3,
                claims=claims,
            )
            await wait_scheduled(plane, name)
            for pod in await plane.pods():
                if pod["metadata"]["name"].startswith(f"{name}-"):
                    await plane.client.delete(PODS, "default", pod["metadata"]["name"])
            await plane.client.delete(POD_GROUPS, "default", name)

        async def single(name: str) -> None:
            await plane.pod(name, claims=OWN)
            await plane.wait_bound(name)
            with suppress(NotFound):
                await plane.client.delete(PODS, "default", name, grace_seconds=0)

        transport = FailingTransport(plane)
        transport.dies_after = "bind", rng.randint(3, 9)
        async with asyncio.TaskGroup() as lives:
            for name, size in gangs.items():
                lives.create_task(live(name, size))
            for i in range(6):
                lives.create_task(single(f"s{i}"))
            async with failing_scheduler(plane, transport):
                await wait_for("the scheduler to die", lambda: _truth(transport.dead.is_set()))
            successor = scheduler(plane, configuration=CONFIGURATION)
            await successor.__aenter__()
        try:
            await wait_for("nothing to be left over", lambda: _uses(plane, 0))
            await checked(plane, history)
        finally:
            await successor.__aexit__(None, None, None)
