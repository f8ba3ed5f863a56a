"""API server, scheduler and controllers in one process, of a release or of all of them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from dray.api.scheme.kinds import Object, UserInfo
from dray.app import server as app_server
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import NODES, PODS
from dray.scheduler import component as scheduling
from dray.server.inprocess import InProcessTransport
from tests.support.controlplane import ControlPlane, controllers, server, until

SEEDS = Path(__file__).parents[2] / "examples" / "seeds"
CLAIM_CONTROLLERS = (
    "resourceclaim-controller",
    "classic-resourceclaim-controller",
    "early-resourceclaim-controller",
    "garbage-collector-controller",
)


@asynccontextmanager
async def cluster(
    emulate: str, *, nodes: tuple[str, ...] = ("node-0", "node-1")
) -> AsyncIterator[ControlPlane]:
    async with server(emulate) as scene:
        app_server._bridge_generations(scene.api)
        async with _components(scene, nodes):
            yield scene


@asynccontextmanager
async def _components(scene: ControlPlane, nodes: tuple[str, ...]) -> AsyncIterator[None]:
    async with controllers(scene, *CLAIM_CONTROLLERS):
        for name in nodes:
            await scene.client.create(NODES, "", node(name))
        release = scene.api.version
        options = scheduling.Options(
            gates=scene.api.gates, release=release.release[1], classic=release.serves_classic
        )
        async with run_component(lambda: scheduling.run(client(scene, "scheduler"), options=options)):
            yield


def client(scene: ControlPlane, name: str) -> Client:
    return Client(InProcessTransport(scene.api, UserInfo(name, groups=("system:masters",)), agent=name))


@asynccontextmanager
async def run_component(
    component: Callable[[], Coroutine[Any, Any, None]],
) -> AsyncIterator[asyncio.Task[None]]:
    task = asyncio.create_task(component())
    try:
        yield task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


def node(name: str) -> Object:
    room = {"cpu": "8", "memory": "16Gi", "pods": "110"}
    return {
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": ""}],
        },
    }


async def apply(scene: ControlPlane, *files: str) -> None:
    """Create what manifests describe, each kind as soon as it is served."""
    for file in files:
        for document in yaml.safe_load_all((SEEDS / file).read_text()):
            resource = await until(lambda d=document: _served(scene, d))
            namespace = document["metadata"].get("namespace", "default") if resource.namespaced else ""
            await scene.client.create(resource, namespace, document)


async def _served(scene: ControlPlane, document: Object) -> Any:
    return await Discovery(scene.client).find(document["apiVersion"], document["kind"])


async def wait_bound(scene: ControlPlane, name: str) -> Object:
    async def has_node() -> Object | None:
        pod = await scene.client.get(PODS, "default", name)
        return pod if pod["spec"].get("nodeName") else None

    return await until(has_node)  # type: ignore[no-any-return]
