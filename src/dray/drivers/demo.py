"""The hands-on tour, played on a running cluster with real API calls: from slices to a pod with its GPU and back.

``play`` yields one ``Step`` after another and the caller prints them. Each step names a kubectl command and shows what
kubectl prints for it.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.api.errors import AlreadyExists, NotFound, StatusError
from dray.api.scheme import printers
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    DEVICE_CLASSES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.driver.resource_api import FLAT_VERSIONS, VERSIONS
from dray.drivers.gpu import DRIVER

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod
    from dray.api.types.meta import Table
    from dray.api.types.resource import DeviceClass, ResourceClaim

_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
SCRIPT = "env | grep ^GPU_ | sort; trap 'exit 0' TERM; sleep 3600 & wait"


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what happens, how one would see it with kubectl, and what there is to see."""

    title: str
    command: str
    lines: Sequence[str]


class DemoError(Exception):
    """The cluster is not what the demo needs; the text says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    namespace: str = "default"
    name: str = "demo"
    image: str = "ubuntu:24.04"
    patience: float = 30.0  # seconds for each thing to happen


async def play(client: Client, *, options: Options | None = None) -> AsyncGenerator[Step]:
    """Plays the notes. What it made is removed at the end, also when something goes wrong."""
    demo = _Demo(client, options or Options(), await _version(client))
    try:
        yield await demo.slices()
        yield await demo.classes()
        yield await demo.template()
        async for scene in demo.pod():
            yield scene
        yield await demo.devices()
        yield await demo.end()
    finally:
        await demo.clean_up()


async def _version(client: Client) -> str:
    served = await Discovery(client).first_served(RESOURCE_SLICES, VERSIONS)
    if served is None:
        raise DemoError(
            f"the demo needs resource.k8s.io in one of {', '.join(VERSIONS)}, which this cluster has not"
        )
    return served.version


class _Demo:
    def __init__(self, client: Client, options: Options, version: str) -> None:
        self._client = client
        self._options = options
        self._version = version
        self._made_class = False

    async def slices(self) -> Step:
        selector = f"spec.driver={DRIVER}"
        deadline = asyncio.get_running_loop().time() + self._options.patience
        resource = RESOURCE_SLICES.at(self._version)
        while not (await self._client.list(resource, field_selector=selector)).items:
            if asyncio.get_running_loop().time() > deadline:
                raise DemoError(f"no slices of {DRIVER}: start a cluster with its driver (dray up)")
            await asyncio.sleep(0.2)
        lines = await self._printed(RESOURCE_SLICES)
        return Step("The driver has published its devices", "kubectl get resourceslices", lines)

    async def classes(self) -> Step:
        wanted: DeviceClass = {
            "metadata": {"name": DRIVER},
            "spec": {"selectors": [{"cel": {"expression": f"device.driver == '{DRIVER}'"}}]},
        }
        try:
            await self._client.create(DEVICE_CLASSES.at(self._version), "", wanted)
            self._made_class = True
        except AlreadyExists:
            pass
        lines = await self._printed(DEVICE_CLASSES)
        return Step("A class chooses among them", "kubectl get deviceclasses", lines)

    async def template(self) -> Step:
        wanted = {"deviceClassName": DRIVER}
        flat = self._version in FLAT_VERSIONS
        request = {"name": "gpu", **wanted} if flat else {"name": "gpu", "exactly": wanted}
        document: Any = {  # of whichever version the server has
            "metadata": {"name": self._options.name},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        resource = RESOURCE_CLAIM_TEMPLATES.at(self._version)
        await self._client.create(resource, self._options.namespace, document)
        line = f"resourceclaimtemplate.resource.k8s.io/{self._options.name} created"
        command = self._kubectl("apply -f template.yaml")
        return Step("A template says what a pod will claim", command, [line])

    async def pod(self) -> AsyncIterator[Step]:
        options = self._options
        container: Container = {
            "name": "main",
            "image": options.image,
            "command": ["bash", "-c", SCRIPT],
            "resources": {"claims": [{"name": "gpu"}]},
        }
        claims = RESOURCE_CLAIMS.at(self._version)
        since = (await self._client.list(claims, options.namespace)).resource_version
        made = await self._client.create(
            PODS,
            options.namespace,
            {
                "metadata": {"name": options.name},
                "spec": {
                    "containers": [container],
                    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": options.name}],
                    "terminationGracePeriodSeconds": 5,
                },
            },
        )
        command = self._kubectl("apply -f pod.yaml")
        yield Step("A pod names the template", command, [f"pod/{options.name} created"])
        owner = made["metadata"]["uid"]
        rows = [("NAME", "STATE", "AGE")]
        async with self._client.watch(claims, options.namespace, resource_version=since) as stream:
            async with asyncio.timeout(options.patience):
                async for batch in stream:
                    for event in batch:
                        if _owned_by(event.object, owner):
                            claim = event.object
                            aged = printers.age(claim, time.time())
                            rows.append((claim["metadata"]["name"], state_of(claim), aged))
                    if rows[-1][1].endswith("reserved"):
                        break
        command = self._kubectl(f"get resourceclaim {rows[-1][0]} -w")
        yield Step("Its claim is made, allocated and reserved", command, _watched(rows))

    async def devices(self) -> Step:
        options = self._options
        pod = await self._until(lambda p: (p.get("status") or {}).get("phase") == "Running")
        lines: list[str] = []
        try:
            async with asyncio.timeout(options.patience):
                while not lines:
                    async with self._client.log(options.namespace, options.name) as pieces:
                        text = b"".join([piece async for piece in pieces]).decode(errors="replace")
                    lines = text.splitlines()
                    await asyncio.sleep(0.1)
        except (StatusError, TimeoutError) as e:
            lines = [f"(the node offers no logs: {e})"]
        where = f"Inside the container, on node {pod['spec']['nodeName']}"
        return Step(where, self._kubectl(f"logs {options.name}"), lines)

    async def end(self) -> Step:
        options = self._options
        await self._client.delete(PODS, options.namespace, options.name)
        claims = RESOURCE_CLAIMS.at(self._version)
        async with asyncio.timeout(options.patience):
            while True:
                try:
                    await self._client.get(PODS, options.namespace, options.name)
                except NotFound:
                    listed = await self._client.list(claims, options.namespace)
                    if not any(
                        c["metadata"]["name"].startswith(f"{options.name}-gpu-") for c in listed.items
                    ):
                        break
                await asyncio.sleep(0.1)
        line = f'pod "{options.name}" deleted from {options.namespace} namespace'
        title = "The pod goes, its claim with it, and the GPU is free again"
        return Step(title, self._kubectl(f"delete pod {options.name}"), [line])

    def _kubectl(self, arguments: str) -> str:
        namespace = self._options.namespace
        return f"kubectl {arguments}" + (f" -n {namespace}" if namespace != "default" else "")

    async def _printed(self, resource: Resource[Any]) -> list[str]:
        """What kubectl prints for all objects of a resource: the server's columns, except those for ``-o wide``."""
        path = resource.at(self._version).path()
        table: Table = (await self._client.request("GET", path, accept=_TABLE)).object
        shown = [n for n, one in enumerate(table["columnDefinitions"]) if not one.get("priority")]
        header = tuple(table["columnDefinitions"][n]["name"].upper() for n in shown)
        return _table([header, *(tuple(str(row["cells"][n]) for n in shown) for row in table["rows"])])

    async def clean_up(self) -> None:
        options = self._options
        doomed: list[tuple[Resource[Any], str, str]] = [
            (PODS, options.namespace, options.name),
            (RESOURCE_CLAIM_TEMPLATES.at(self._version), options.namespace, options.name),
        ]
        if self._made_class:
            doomed.append((DEVICE_CLASSES.at(self._version), "", DRIVER))
        for resource, namespace, name in doomed:
            try:
                await self._client.delete(resource, namespace, name)
            except NotFound:
                continue

    async def _until(self, reached: Callable[[Pod], bool]) -> Pod:
        options = self._options
        async with asyncio.timeout(options.patience):
            while True:
                pod = await self._client.get(PODS, options.namespace, options.name)
                if reached(pod):
                    return pod
                await asyncio.sleep(0.05)


def state_of(claim: ResourceClaim) -> str:
    """As kubectl's STATE column has it."""
    status = claim.get("status") or {}
    states = ["deleted"] if "deletionTimestamp" in claim["metadata"] else []
    states.append("allocated" if status.get("allocation") else "pending")
    if status.get("reservedFor"):
        states.append("reserved")
    return ",".join(states)


def _owned_by(claim: ResourceClaim, uid: str) -> bool:
    return any(o["uid"] == uid for o in claim["metadata"].get("ownerReferences") or ())


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Three spaces between columns; the last one is not filled up."""
    widths = [max(6, 3 + max(len(row[i]) for row in rows)) for i in range(len(rows[0]) - 1)]
    return [
        "".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + row[-1] for row in rows
    ]


def _watched(rows: Sequence[Sequence[str]]) -> list[str]:
    """As kubectl prints rows while they come: a column is as wide as it has been so far."""
    lines = _table(rows[:2])
    return lines + [_table(rows[: n + 1])[n] for n in range(2, len(rows))]
