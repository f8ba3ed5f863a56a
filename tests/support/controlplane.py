"""The real API server in memory with the controllers under test beside it, and few words for what tests do with it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from dray.api.errors import NotFound
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Object, UserInfo
from dray.api.scheme.registry import kinds
from dray.client.client import Client
from dray.client.resources import CONFIGMAPS, NAMESPACES, NODES, PODS, Resource
from dray.controllers import manager
from dray.server import beyond_upstream, subresources
from dray.server.admission import AdmissionChain
from dray.server.admission.listers import Listers
from dray.server.admission.plugin.namespace import NamespaceLifecycle
from dray.server.apiextensions.controller import CRDController
from dray.server.apiserver import APIServer
from dray.server.auth.authenticator import AuthenticatorChain
from dray.server.auth.authorizer import AlwaysAllow
from dray.server.bootstrap import bootstrap
from dray.server.inprocess import InProcessTransport
from dray.server.registry import serviceallocators
from dray.server.registry.cel import compile_expression, compile_rule
from dray.server.routes.discovery import Discovery
from dray.store.memory import MemoryStore


class ControlPlane:
    def __init__(self, api: APIServer) -> None:
        self.api = api
        self.client = Client(InProcessTransport(api, UserInfo("test", groups=("system:masters",))))

    async def namespace(self, name: str) -> Object:
        return await self.client.create(NAMESPACES, "", {"metadata": {"name": name}})

    async def configmap(
        self, name: str, *owners: Object, namespace: str = "default", **metadata: Any
    ) -> Object:
        metadata |= {"name": name, "ownerReferences": list(owners)}
        return await self.client.create(CONFIGMAPS, namespace, {"metadata": metadata})

    async def pod(
        self, name: str, *, namespace: str = "default", metadata: Object | None = None, **spec: Any
    ) -> Object:
        body = {"containers": [{"name": "c", "image": "i"}], "terminationGracePeriodSeconds": 0, **spec}
        return await self.client.create(
            PODS, namespace, {"metadata": {"name": name, **(metadata or {})}, "spec": body}
        )

    async def node(self, name: str, **spec: Any) -> Object:
        return await self.client.create(NODES, "", {"metadata": {"name": name}, "spec": spec})

    async def get(self, resource: Resource, name: str, namespace: str = "default") -> Object | None:
        with contextlib.suppress(NotFound):
            return await self.client.get(resource, namespace if resource.namespaced else "", name)
        return None

    async def gone(self, resource: Resource, name: str, namespace: str = "default") -> None:
        async def is_gone() -> bool:
            return await self.get(resource, name, namespace) is None

        await until(is_gone)

    async def quiet(self) -> None:
        """Let everything that is under way come to rest: no write for a while of the event loop."""
        before, still = -1, 0
        while still < 50:
            now = (await self.client.list(CONFIGMAPS, "kube-system")).resource_version
            still = still + 1 if now == before else 0
            before = now
            await asyncio.sleep(0)


async def until(what: Callable[[], Awaitable[Any]]) -> Any:
    """Look again and again until something is true; the test's own time limit ends the wait."""
    while True:
        with contextlib.suppress(LookupError):
            found = await what()
            if found:
                return found
        await asyncio.sleep(0.002)


def owned_by(kind: str, owner: Object, *, api_version: str = "v1", **more: Any) -> Object:
    metadata = owner["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}


@asynccontextmanager
async def server(emulate: str = "") -> AsyncIterator[ControlPlane]:
    """The API server alone."""
    version = EffectiveVersion.parse(emulate)
    gates = version.gates()
    api = APIServer(
        MemoryStore(),
        version=version,
        gates=gates,
        authenticator=AuthenticatorChain([]),
        authorizer=AlwaysAllow(),
        expressions=compile_expression,
        rules=compile_rule,
    )
    api.admission = AdmissionChain([NamespaceLifecycle(Listers(api))])
    await api.resources.serve(kinds(version), version.serving(gates=gates), gates)
    serviceallocators.install(api.resources)
    beyond_upstream.install(api.resources, api.quirks)
    Discovery(api).install()
    subresources.install(api)
    definitions = CRDController(api)
    await definitions.start()
    await bootstrap(api, port=6443)
    task = asyncio.create_task(definitions.run())
    try:
        yield ControlPlane(api)
    finally:
        await _cancel(task)
        api.resources.close()


@asynccontextmanager
async def controllers(
    scene: ControlPlane, *names: str, settings: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[None]:
    """Some controllers, until the block ends."""
    ready = asyncio.Event()
    client = Client(InProcessTransport(scene.api, UserInfo("controllers", groups=("system:masters",))))
    options = {"gates": scene.api.gates, **options}
    wanted = manager.Options(controllers=names, settings=settings or {}, **options)
    task = asyncio.create_task(manager.run(client, options=wanted, ready=ready.set))
    waiting = asyncio.create_task(ready.wait())
    try:
        await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        if task.done():
            task.result()
        yield
    finally:
        waiting.cancel()
        await _cancel(task)


@asynccontextmanager
async def control_plane(*names: str, emulate: str = "", **options: Any) -> AsyncIterator[ControlPlane]:
    """Server and controllers."""
    async with server(emulate) as found, controllers(found, *names, **options):
        yield found


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
