"""A control plane in this process: the real API server in memory, and the components that a test wants beside it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import yaml

from dray.api.errors import NotFound
from dray.api.release import EffectiveVersion
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    CONFIGMAPS,
    DEVICE_CLASSES,
    EVENTS,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.controllers import manager
from dray.scheduler import component as scheduling
from dray.server.apiextensions.controller import CRDController
from dray.server.apiserver import APIServer
from dray.server.inprocess import InProcessTransport
from tests.support.apiserver import assembled, make_server
from tests.support.paths import SEEDS
from tests.support.wait import wait_for

NAMESPACE = "default"
NOW = "2024-01-01T00:00:00Z"
DRIVER = "gpu.example.com"
CLAIM_CONTROLLERS = (
    "resourceclaim-controller",
    "classic-resourceclaim-controller",
    "early-resourceclaim-controller",
    "garbage-collector-controller",
)


class ControlPlane:
    """What tests do with a cluster, in few words. Objects without a namespace of their own are in ``default``."""

    def __init__(self, api: APIServer) -> None:
        self.api = api
        self.client = self.client_of("test")

    def client_of(self, user: str) -> Client:
        """A client of an administrator with this name."""
        return Client(InProcessTransport(self.api, UserInfo(user, groups=("system:masters",)), agent=user))

    # Any kind

    async def create(self, resource: Resource, name: str, spec: Object, **metadata: Any) -> Object:
        document = {"metadata": {"name": name, **metadata}, "spec": spec}
        return await self.client.create(resource, _namespace(resource), document)

    async def get(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> Object:
        return await self.client.get(resource, _namespace(resource, namespace), name)

    async def find(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> Object | None:
        """The object, or nothing where there is none."""
        with contextlib.suppress(NotFound):
            return await self.get(resource, name, namespace)
        return None

    async def change(self, resource: Resource, name: str, spec: Object) -> Object:
        return await self.client.patch(resource, _namespace(resource), name, {"spec": spec})

    async def wait_gone(self, resource: Resource, name: str, namespace: str = NAMESPACE) -> None:
        async def gone() -> bool:
            return await self.find(resource, name, namespace) is None

        await wait_for(f"{resource.plural} {name} to go", gone)

    async def wait_quiet(self) -> None:
        """Wait until nothing has been written for fifty turns of the event loop."""
        before, still = "", 0

        async def look() -> bool:
            nonlocal before, still
            now = (await self.client.list(CONFIGMAPS, "kube-system")).resource_version
            still = still + 1 if now == before else 0
            before = now
            return still >= 50

        await wait_for("the writes to end", look, pause=0)

    async def apply(self, *files: str) -> None:
        """Create what manifests of ``examples/seeds`` describe, each kind as soon as it is served."""
        for file in files:
            for document in yaml.safe_load_all((SEEDS / file).read_text()):
                kind = document["kind"]
                resource = await wait_for(f"{kind} to be served", lambda d=document: self._served(d))
                namespace = document["metadata"].get("namespace", NAMESPACE)
                await self.client.create(resource, _namespace(resource, namespace), document)

    async def _served(self, document: Object) -> Any:
        return await Discovery(self.client).find(document["apiVersion"], document["kind"])

    async def events(self, reason: str) -> list[str]:
        """The messages of all events with this reason."""
        listed = await self.client.list(EVENTS)
        return [e["message"] for e in listed.items if e["reason"] == reason]

    # Namespaces, ConfigMaps, nodes, devices

    async def namespace(self, name: str) -> Object:
        return await self.client.create(NAMESPACES, "", {"metadata": {"name": name}})

    async def configmap(
        self, name: str, *owners: Object, namespace: str = NAMESPACE, **metadata: Any
    ) -> Object:
        metadata |= {"name": name, "ownerReferences": list(owners)}
        return await self.client.create(CONFIGMAPS, namespace, {"metadata": metadata})

    async def node(self, name: str, **spec: Any) -> Object:
        """A node that has said nothing yet."""
        return await self.client.create(NODES, "", {"metadata": {"name": name}, "spec": spec})

    async def ready_node(self, name: str, *, devices: int = 0, cpu: str = "8") -> None:
        """A node that pods can run on, with so many devices of ``DRIVER``."""
        resources = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
        ready = {"type": "Ready", "status": "True", "reason": "R", "message": ""}
        status = {"capacity": resources, "allocatable": resources, "conditions": [ready]}
        metadata = {"name": name, "labels": {"kubernetes.io/hostname": name}}
        await self.client.create(NODES, "", {"metadata": metadata, "status": status})
        if devices:
            await self.resource_slice(name, [{"name": f"gpu-{i}"} for i in range(devices)])

    async def resource_slice(self, node: str, devices: Iterable[Object]) -> None:
        pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": DRIVER, "nodeName": node, "pool": pool, "devices": list(devices)}
        await self.create(RESOURCE_SLICES, f"{node}-slice", spec)

    async def device_class(self, name: str = "gpu", **more: Any) -> None:
        spec = {"selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}], **more}
        await self.create(DEVICE_CLASSES, name, spec)

    async def claim(self, name: str, *, count: int = 1) -> None:
        await self.create(RESOURCE_CLAIMS, name, _claim_spec(count))

    async def claim_template(self, name: str, *, count: int = 1) -> None:
        await self.create(RESOURCE_CLAIM_TEMPLATES, name, {"spec": _claim_spec(count)})

    async def devices_in_use(self) -> list[tuple[str, str]]:
        claims = await self.client.list(RESOURCE_CLAIMS)
        return [
            (r["pool"], r["device"])
            for c in claims.items
            for r in (c.get("status") or {}).get("allocation", {}).get("devices", {}).get("results", ())
        ]

    # Pods

    async def pod(
        self,
        name: str,
        *,
        namespace: str = NAMESPACE,
        metadata: Object | None = None,
        claims: Mapping[str, Object] | None = None,
        resources: Object | None = None,
        **spec: Any,
    ) -> Object:
        """``claims`` are the sources of its claims by the names of their entries."""
        container = {"name": "c", "image": "i", "resources": resources or {}}
        body = {"containers": [container], "terminationGracePeriodSeconds": 0, **spec}
        if claims is not None:
            body["resourceClaims"] = [{"name": entry, **source} for entry, source in claims.items()]
        return await self.client.create(
            PODS, namespace, {"metadata": {"name": name, **(metadata or {})}, "spec": body}
        )

    async def pods(self, **labels: str) -> list[Object]:
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        found = await self.client.list(PODS, NAMESPACE, label_selector=selector)
        return sorted(found.items, key=lambda pod: pod["metadata"]["name"])

    async def wait_bound(self, name: str) -> Object:
        """The pod, once it has a node."""

        async def bound() -> Object | None:
            pod = await self.get(PODS, name)
            return pod if pod["spec"].get("nodeName") else None

        return await wait_for(f"pod {name} to be bound", bound)

    async def bound_node(self, name: str) -> str:
        return str((await self.wait_bound(name))["spec"]["nodeName"])

    async def wait_unschedulable(self, name: str) -> str:
        """The message of the pod's condition, once the scheduler has found no node for it."""

        async def message() -> str:
            for condition in (await self.get(PODS, name))["status"].get("conditions") or ():
                if condition["type"] == "PodScheduled" and condition["status"] == "False":
                    return str(condition["message"])
            return ""

        return str(await wait_for(f"pod {name} to be unschedulable", message))

    # What a kubelet writes

    async def run(self, pod: Object) -> None:
        """The pod's containers have started."""
        ready = {"type": "Ready", "status": "True", "lastTransitionTime": NOW}
        await self.set_status(pod, {"phase": "Running", "conditions": [ready]})

    async def finish(self, pod: Object, *, succeeded: bool = True, exit_code: int = 1) -> None:
        """The pod's container has ended."""
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

    @asynccontextmanager
    async def hollow_kubelet(self) -> AsyncIterator[None]:
        """Every pod that is there or comes runs at once, until the block ends."""

        async def work() -> None:
            async with self.client.watch(PODS, NAMESPACE, resource_version="0") as stream:
                async for batch in stream:
                    for event in batch:
                        phase = (event.object.get("status") or {}).get("phase")
                        if event.type in ("ADDED", "MODIFIED") and phase == "Pending":
                            await self.run(event.object)

        async with run_component(work):
            yield


@asynccontextmanager
async def server(emulate: str = "") -> AsyncIterator[ControlPlane]:
    """The API server alone, with hardly any admission."""
    made = await make_server(version=EffectiveVersion.parse(emulate), served=None, frozen_clock=False)
    definitions = CRDController(made.api)
    await definitions.start()
    async with run_component(definitions.run):
        try:
            yield ControlPlane(made.api)
        finally:
            made.api.resources.close()


@asynccontextmanager
async def full_server(data: Path) -> AsyncIterator[ControlPlane]:
    """The API server as dray runs it, except that pods need no service account and new nodes no readiness."""
    options = {
        "disable_plugins": ("ServiceAccount", "TaintNodesByCondition"),
        "authorization": ("AlwaysAllow",),
    }
    async with assembled(data, **options) as api:
        yield ControlPlane(api)


@asynccontextmanager
async def controllers(
    plane: ControlPlane, *names: str, settings: Mapping[str, Any] | None = None, **options: Any
) -> AsyncIterator[None]:
    """Some controllers, until the block ends."""
    options = {"version": plane.api.version, "gates": plane.api.gates, **options}
    chosen = manager.Options(controllers=names, settings=settings or {}, **options)
    ready = asyncio.Event()
    client = plane.client_of("controllers")
    async with _until_ready(lambda: manager.run(client, options=chosen, ready=ready.set), ready):
        yield


@asynccontextmanager
async def scheduler(plane: ControlPlane, **options: Any) -> AsyncIterator[None]:
    """The scheduler, until the block ends."""
    version = plane.api.version
    chosen = scheduling.Options(
        **{
            "gates": plane.api.gates,
            "version": version,
            **options,
        }
    )
    ready = asyncio.Event()
    client = plane.client_of("scheduler")
    async with _until_ready(
        lambda: scheduling.run(client, options=chosen, ready=lambda _: ready.set()), ready
    ):
        yield


@asynccontextmanager
async def control_plane(
    *names: str, emulate: str = "", data: Path | None = None, **options: Any
) -> AsyncIterator[ControlPlane]:
    """Server and controllers; with a directory for ``data`` it is the full server."""
    made = server(emulate) if data is None else full_server(data)
    async with made as plane, controllers(plane, *names, **options):
        yield plane


@asynccontextmanager
async def cluster(
    emulate: str, *, nodes: tuple[str, ...] = ("node-0", "node-1")
) -> AsyncIterator[ControlPlane]:
    """Server, claim controllers, scheduler and nodes, of a release or of all of them."""
    async with server(emulate) as plane, controllers(plane, *CLAIM_CONTROLLERS):
        for name in nodes:
            await plane.ready_node(name)
        async with scheduler(plane):
            yield plane


@asynccontextmanager
async def run_component(
    component: Callable[[], Coroutine[Any, Any, None]],
) -> AsyncIterator[asyncio.Task[None]]:
    """A component as a task, until the block ends."""
    task = asyncio.create_task(component())
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


@asynccontextmanager
async def _until_ready(
    component: Callable[[], Coroutine[Any, Any, None]], ready: asyncio.Event
) -> AsyncIterator[None]:
    """The block begins when the component is ready; if it fails before, the test fails with its error."""
    async with run_component(component) as task:
        waiting = asyncio.create_task(ready.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        if task.done():
            task.result()
        yield


def owned_by(kind: str, owner: Object, *, api_version: str = "v1", **more: Any) -> Object:
    """An owner reference."""
    metadata = owner["metadata"]
    return {"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"], **more}


def pod_template(**labels: str) -> Object:
    """A pod template with these labels."""
    return {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}


def _namespace(resource: Resource, namespace: str = NAMESPACE) -> str:
    return namespace if resource.namespaced else ""


def _claim_spec(count: int) -> Object:
    return {"devices": {"requests": [{"name": "req", "exactly": {"deviceClassName": "gpu", "count": count}}]}}
