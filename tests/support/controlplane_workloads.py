"""The real API server in memory with some controllers, and a stand-in for kubelets that runs what is there."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from dray.api.errors import NotFound
from dray.api.scheme.kinds import Object, UserInfo
from dray.app.options import ServerOptions, parse_listen
from dray.app.server import run_server
from dray.client.client import Client
from dray.client.resources import EVENTS, PODS, Resource
from dray.controllers import manager
from dray.server.apiserver import APIServer
from dray.server.inprocess import InProcessTransport

T = TypeVar("T")
NAMESPACE = "default"
NOW = "2024-01-01T00:00:00Z"


class ControlPlane:
    """What tests do with the cluster, in few words."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def create(self, resource: Resource, name: str, spec: Object, **metadata: Any) -> Object:
        namespace = NAMESPACE if resource.namespaced else ""
        return await self.client.create(
            resource, namespace, {"metadata": {"name": name, **metadata}, "spec": spec}
        )

    async def get(self, resource: Resource, name: str) -> Object:
        return await self.client.get(resource, NAMESPACE if resource.namespaced else "", name)

    async def change(self, resource: Resource, name: str, spec: Object) -> Object:
        namespace = NAMESPACE if resource.namespaced else ""
        return await self.client.patch(resource, namespace, name, {"spec": spec})

    async def pods(self, **labels: str) -> list[Object]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.client.list(PODS, NAMESPACE, label_selector=selector)
        return sorted(found.items, key=lambda pod: pod["metadata"]["name"])

    async def run(self, pod: Object) -> None:
        """What a kubelet does when a pod's containers have started."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
        await self.set_status(pod, {"phase": "Running", "conditions": [ready]})

    async def finish(self, pod: Object, *, succeeded: bool = True, exit_code: int = 1) -> None:
        code = 0 if succeeded else exit_code
        terminated = {"exitCode": code, "startedAt": NOW, "finishedAt": NOW}
        container = {
            "name": "c", "image": "i", "imageID": "", "ready": False, "restartCount": 0,
            "state": {"terminated": terminated},
        }  # fmt: skip
        phase = "Succeeded" if succeeded else "Failed"
        await self.set_status(pod, {"phase": phase, "conditions": [], "containerStatuses": [container]})

    async def set_status(self, pod: Object, status: Object) -> None:
        with contextlib.suppress(NotFound):
            metadata = pod["metadata"]
            await self.client.patch_status(PODS, metadata["namespace"], metadata["name"], {"status": status})

    async def until(self, look: Callable[[], Awaitable[T]]) -> T:
        """Look again and again until something is true; the test's own time limit ends the wait."""
        while True:
            with contextlib.suppress(KeyError, IndexError, LookupError, NotFound):
                if found := await look():
                    return found
            await asyncio.sleep(0.005)

    async def events(self, reason: str) -> list[str]:
        listed = await self.client.list(EVENTS)
        return [e["message"] for e in listed.items if e["reason"] == reason]

    @asynccontextmanager
    async def kubelet(self) -> AsyncIterator[None]:
        """Every pod that is there or comes runs at once, until the block ends."""

        async def work() -> None:
            async with self.client.watch(PODS, NAMESPACE, resource_version="0") as stream:
                async for batch in stream:
                    for event in batch:
                        phase = (event.object.get("status") or {}).get("phase")
                        if event.type in ("ADDED", "MODIFIED") and phase == "Pending":
                            await self.run(event.object)

        task = asyncio.create_task(work())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


def template(**labels: str) -> Object:
    """A pod template with these labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


@asynccontextmanager
async def control_plane(
    tmp_path: Path, *controllers: str, settings: Mapping[str, Any] | None = None
) -> AsyncIterator[ControlPlane]:
    """A server with these controllers until the block ends."""
    options = ServerOptions(
        listen=parse_listen("127.0.0.1:0"),
        data=tmp_path,
        store="memory",
        disable_plugins=("ServiceAccount", "TaintNodesByCondition"),
        authorization=("AlwaysAllow",),
    )
    async with run_server(options) as server, _controllers(server.api, controllers, settings or {}) as client:
        yield ControlPlane(client)


@asynccontextmanager
async def _controllers(
    api: APIServer, controllers: tuple[str, ...], settings: Mapping[str, Any]
) -> AsyncIterator[Client]:
    def client(name: str) -> Client:
        return Client(InProcessTransport(api, UserInfo(name, groups=("system:masters",)), agent=name))

    ready = asyncio.Event()
    options = manager.Options(controllers=controllers, gates=api.gates, settings=settings)
    task = asyncio.create_task(manager.run(client("controllers"), options=options, ready=ready.set))
    await ready.wait()
    try:
        yield client("test")
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
