"""A control plane in one process: the real API server in memory, the scheduler and the claim controller."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from dray.api.scheme.kinds import Object, UserInfo
from dray.app.options import ServerOptions, parse_listen
from dray.app.server import run_server
from dray.client.client import Client
from dray.client.resources import (
    DEVICE_CLASSES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
)
from dray.controllers import manager as controllers
from dray.placement.config import Configuration, SchedulerProfile
from dray.scheduler import component as scheduling
from dray.server.apiserver import APIServer
from dray.server.inprocess import InProcessTransport

DRIVER = "gpu.example.com"


class ControlPlane:
    """What tests do with the cluster, in few words."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def node(self, name: str, *, devices: int = 2, cpu: str = "4") -> None:
        offered = {"cpu": cpu, "memory": "8Gi", "pods": "110"}
        node = {
            "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
            "status": {
                "allocatable": offered,
                "capacity": offered,
                "conditions": [{"type": "Ready", "status": "True"}],
            },
        }
        await self.client.create(NODES, "", node)
        if devices:
            await self.slice(name, [{"name": f"gpu-{i}"} for i in range(devices)])

    async def slice(self, node: str, devices: Iterable[Object]) -> None:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
        await self.client.create(RESOURCE_SLICES, "", {"metadata": {"name": f"{node}-slice"}, "spec": spec})

    async def device_class(self, name: str = "gpu", **more: Any) -> None:
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], **more}
        await self.client.create(DEVICE_CLASSES, "", {"metadata": {"name": name}, "spec": spec})

    async def claim(self, name: str, *, count: int = 1) -> None:
        await self.client.create(
            RESOURCE_CLAIMS, "default", {"metadata": {"name": name}, "spec": _spec(count)}
        )

    async def template(self, name: str, *, count: int = 1) -> None:
        await self.client.create(
            RESOURCE_CLAIM_TEMPLATES, "default", {"metadata": {"name": name}, "spec": {"spec": _spec(count)}}
        )

    async def pod(self, name: str, *, claims: dict[str, Object] | None = None, **spec: Any) -> None:
        entries = [{"name": entry, **source} for entry, source in (claims or {}).items()]
        container = {"name": "c", "image": "i", "resources": spec.pop("resources", {})}
        body = {"containers": [container], "resourceClaims": entries, **spec}
        await self.client.create(PODS, "default", {"metadata": {"name": name}, "spec": body})

    async def get_pod(self, name: str) -> Object:
        return await self.client.get(PODS, "default", name)

    async def get_claim(self, name: str) -> Object:
        return await self.client.get(RESOURCE_CLAIMS, "default", name)

    async def finish(self, name: str) -> None:
        await self.client.patch_status(PODS, "default", name, {"status": {"phase": "Succeeded"}})

    async def until(self, what: Callable[[], Any]) -> Any:
        """Look again after every change until something is true; the test's own time limit ends the wait."""
        while True:
            with contextlib.suppress(KeyError, IndexError, LookupError):
                found = await what()
                if found:
                    return found
            await asyncio.sleep(0.005)

    async def bound(self, name: str) -> str:
        async def node() -> str:
            return (await self.get_pod(name))["spec"].get("nodeName") or ""

        return str(await self.until(node))

    async def unschedulable(self, name: str) -> str:
        async def message() -> str:
            for condition in (await self.get_pod(name))["status"].get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition["message"])
            return ""

        return str(await self.until(message))

    async def devices_in_use(self) -> list[tuple[str, str]]:
        claims = await self.client.list(RESOURCE_CLAIMS)
        return [
            (r["pool"], r["device"])
            for c in claims.items
            for r in (c.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", ())
        ]


def _spec(count: int) -> Object:
    return {"devices": {"requests": [{"name": "req", "exactly": {"deviceClassName": "gpu", "count": count}}]}}


@asynccontextmanager
async def control_plane(tmp_path: Path, *profiles: SchedulerProfile) -> AsyncIterator[ControlPlane]:
    """Server, scheduler and claim controller, each under its own name, until the block ends."""
    options = ServerOptions(
        listen=parse_listen("127.0.0.1:0"),
        data=tmp_path,
        store="memory",
        disable_plugins=("ServiceAccount", "TaintNodesByCondition"),
        authorization=("AlwaysAllow",),
    )
    async with run_server(options) as server, _components(server.api, profiles) as client:
        yield ControlPlane(client)


@asynccontextmanager
async def _components(api: APIServer, profiles: tuple[SchedulerProfile, ...]) -> AsyncIterator[Client]:
    def client(name: str) -> Client:
        return Client(InProcessTransport(api, UserInfo(name, groups=("system:masters",)), agent=name))

    configuration = Configuration(profiles=profiles or (SchedulerProfile(),))
    scheduler = scheduling.Options(gates=api.gates, configuration=configuration)
    ready = asyncio.Event()
    tasks = [
        asyncio.create_task(
            scheduling.run(client("scheduler"), options=scheduler, ready=lambda s: ready.set())
        ),
        asyncio.create_task(
            controllers.run(
                client("controllers"),
                options=controllers.Options(controllers=("resourceclaim-controller",), gates=api.gates),
            )
        ),
    ]
    await ready.wait()
    try:
        yield client("test")
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
