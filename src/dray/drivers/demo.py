"""The hands-on tour, played on a running cluster with real API calls: from slices to a pod with its GPU and back.

``play`` yields one ``Step`` after another and the caller prints them. Each step names the kubectl command that shows the
same.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.api.errors import AlreadyExists, NotFound, StatusError
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
from dray.drivers.gpu import DRIVER

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod
    from dray.api.types.resource import DeviceClass, ResourceClaim

VERSIONS = ("v1", "v1beta2", "v1beta1")
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


async def play(client: Client, *, options: Options | None = None) -> AsyncIterator[Step]:
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
        raise DemoError("this cluster does not serve resource.k8s.io in v1, v1beta2 or v1beta1")
    return served.version


class _Demo:
    def __init__(self, client: Client, options: Options, version: str) -> None:
        self._client = client
        self._options = options
        self._version = version
        self._made_class = False
        self._seen: list[str] = []

    async def slices(self) -> Step:
        selector = f"spec.driver={DRIVER}"
        deadline = asyncio.get_running_loop().time() + self._options.patience
        while not (
            listed := await self._client.list(RESOURCE_SLICES.at(self._version), field_selector=selector)
        ).items:
            if asyncio.get_running_loop().time() > deadline:
                raise DemoError(f"no slices of {DRIVER}: start a cluster with its driver (dray up)")
            await asyncio.sleep(0.2)
        rows = [("NAME", "NODE", "DRIVER", "POOL", "DEVICES")]
        for s in listed.items:
            spec = s["spec"]
            rows.append(
                (
                    s["metadata"]["name"],
                    spec.get("nodeName", ""),
                    spec["driver"],
                    spec["pool"]["name"],
                    str(len(spec.get("devices") or ())),
                )
            )
        return Step("The driver has published its devices", "kubectl get resourceslices", _table(rows))

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
        listed = await self._client.list(DEVICE_CLASSES.at(self._version))
        names = [("NAME",), *((c["metadata"]["name"],) for c in listed.items)]
        return Step("A class chooses among them", "kubectl get deviceclasses", _table(names))

    async def template(self) -> Step:
        wanted = {"deviceClassName": DRIVER}
        request = (
            {"name": "gpu", "exactly": wanted} if self._version != "v1beta1" else {"name": "gpu", **wanted}
        )
        document: Any = {  # of whichever version the server has
            "metadata": {"name": self._options.name},
            "spec": {"spec": {"devices": {"requests": [request]}}},
        }
        resource = RESOURCE_CLAIM_TEMPLATES.at(self._version)
        await self._client.create(resource, self._options.namespace, document)
        line = f"resourceclaimtemplate.resource.k8s.io/{self._options.name} created"
        return Step("A template says what a pod will claim", "kubectl apply -f template.yaml", [line])

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
        yield Step("A pod names the template", "kubectl apply -f pod.yaml", [f"pod/{options.name} created"])
        owner = made["metadata"]["uid"]
        async with self._client.watch(claims, options.namespace, resource_version=since) as stream:
            async with asyncio.timeout(options.patience):
                async for batch in stream:
                    for event in batch:
                        if _owned_by(event.object, owner):
                            self._seen.append(
                                f"{event.object['metadata']['name']}   {state_of(event.object)}"
                            )
                    if self._seen and self._seen[-1].endswith("reserved"):
                        break
        yield Step(
            "Its claim is made, allocated and reserved", "kubectl get resourceclaim -w", list(self._seen)
        )

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
        return Step(where, f"kubectl logs {options.name}", lines)

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
        line = f'pod "{options.name}" deleted; its claim went with it, and the GPU is free again'
        return Step("The pod goes", f"kubectl delete pod {options.name}", [line])

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
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["   ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
