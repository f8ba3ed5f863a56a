"""Two drivers' controllers and one pod: they have to agree on a node."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
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


class Driver(classic.ClassicDriver):
    """Remembers what it has handed out, by node."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.held: dict[str, str] = {}  # claim → node
        self.asked: list[str] = []

    async def unsuitable_nodes(self, pod: Any, pending: Any, nodes: Any, others: Any) -> Any:
        return [[] for _ in pending]

    async def allocate(self, pending: Any, *, node: str, others: Any) -> Any:
        self.asked.append(node)
        for one in pending:
            self.held[one.claim["metadata"]["uid"]] = node
        return [classic.available_on(node, driver=self.name, data="x") for _ in pending]

    async def deallocate(self, claim: Any) -> None:
        self.held.pop(claim["metadata"]["uid"], None)


class Doubtful(Driver):
    """Calls a node suitable until it is asked to allocate there, which works only on some."""

    def __init__(self, name: str, *good: str) -> None:
        super().__init__(name)
        self.good = good

    async def unsuitable_nodes(self, pod: Any, pending: Any, nodes: Any, others: Any) -> Any:
        return [[node for node in nodes if node in self.asked and node not in self.good] for _ in pending]

    async def allocate(self, pending: Any, *, node: str, others: Any) -> Any:
        if node not in self.good:
            self.asked.append(node)
            raise classic.CannotAllocate(f"nothing left on {node}")
        return await super().allocate(pending, node=node, others=others)


@asynccontextmanager
async def drivers(scene: ControlPlane, *each: Driver) -> AsyncIterator[None]:
    """The drivers, a class and a template for each, and a pod that wants something of all."""
    async with AsyncExitStack() as stack:
        for driver in each:
            own = scene.client_of(driver.name)
            await stack.enter_async_context(
                run_component(
                    lambda own=own, driver=driver: classic.run(own, driver, options=classic.Options())
                )
            )
            name = driver.name.partition(".")[0]
            await scene.client.create(
                CLASSIC_RESOURCE_CLASSES, "", {"metadata": {"name": name}, "driverName": driver.name}
            )
            spec = {"spec": {"resourceClassName": name}}
            await scene.client.create(
                CLASSIC_RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": name}, "spec": spec}
            )
        entries = [
            {"name": name, "source": {"resourceClaimTemplateName": name}}
            for name in (driver.name.partition(".")[0] for driver in each)
        ]
        await scene.pod("p", resourceClaims=entries)
        yield


async def condition(scene: ControlPlane) -> str:
    pod = await scene.client.get(PODS, "default", "p")
    said = {c["type"]: c.get("message", "") for c in pod["status"].get("conditions") or ()}
    return str(said.get("PodScheduled", ""))


@pytest.mark.parametrize("doubtful_first", [True, False])
@pytest.mark.parametrize("emulate", ["1.27", "1.30", ""])
async def test_when_one_cannot_allocate_on_the_selected_node_another_is_chosen(
    emulate: str, doubtful_first: bool
) -> None:
    easy, doubtful = Driver("a.example.com"), Doubtful("b.example.com")
    async with cluster(emulate, nodes=("node-0", "node-1", "node-2")) as scene:
        both = (doubtful, easy) if doubtful_first else (easy, doubtful)
        doubtful.good = ("node-2",)
        async with drivers(scene, *both):
            pod = await scene.wait_bound("p")
            assert pod["spec"]["nodeName"] == "node-2"
            claims = (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items
            for claim in claims:
                assert [u["uid"] for u in claim["status"]["reservedFor"]] == [pod["metadata"]["uid"]]
            assert list(easy.held.values()) == list(doubtful.held.values()) == ["node-2"]
            await scene.wait_gone(POD_SCHEDULING_CONTEXTS, "p")


@pytest.mark.parametrize("doubtful_first", [True, False])
@pytest.mark.parametrize(
    ("emulate", "nodes"), [("1.30", ("node-0", "node-1")), ("", ("node-0", "node-1")), ("", ("node-0",))]
)
async def test_with_no_node_left_the_pod_waits_and_nothing_stays_locked(
    emulate: str, nodes: tuple[str, ...], doubtful_first: bool
) -> None:
    easy, doubtful = Driver("a.example.com"), Doubtful("b.example.com")
    both = (doubtful, easy) if doubtful_first else (easy, doubtful)
    async with cluster(emulate, nodes=nodes) as scene, drivers(scene, *both):

        async def given_up() -> bool:
            claims = (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items
            return (
                set(doubtful.asked) == set(nodes)
                and not easy.held
                and len(claims) == 2
                and not any((c.get("status") or {}).get("allocation") for c in claims)
                and f"{len(nodes)} resourceclaim cannot be allocated for the node (unsuitable)"
                in await condition(scene)
            )

        await wait_for("the scheduler to give up all nodes", given_up)
        await scene.wait_quiet()
        assert await given_up()
        pod = await scene.client.get(PODS, "default", "p")
        assert not pod["spec"].get("nodeName")
        claims = (await scene.client.list(CLASSIC_RESOURCE_CLAIMS, "default")).items
        assert not any((c.get("status") or {}).get("reservedFor") for c in claims)
