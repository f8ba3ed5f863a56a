"""Pods scheduled per second with each generation of claims, one after the other on the same API server.

Classic claims are negotiated with the controller of the cats driver, which runs here, in a process of its own and over
HTTP as any driver's would. The claims of 1.30's structured parameters and of today are allocated by the scheduler.
Every pod wants one of something that every node has plenty of. The generations take turns, and the medians of several
rounds are told, as a busy machine is not busy evenly. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import statistics
import time
from collections.abc import AsyncIterator
from typing import Any

from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLASSES,
    CLASSIC_RESOURCE_SLICES,
    DEVICE_CLASSES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_SLICES,
    Resource,
)
from dray.driver import classic
from dray.drivers.cats import DRIVER, CatsController

STRUCTURED = "structured.example.com"
TODAY = "today.example.com"
WRITERS = 16

Doc = dict[str, Any]


async def set_up(client: Client, nodes: int, each: int) -> None:
    """Nodes, and for each generation a class and plenty of instances."""
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}
    for number in range(nodes):
        name = f"bench-{number:03d}"
        status = {
            "capacity": room,
            "allocatable": room,
            "conditions": [{"type": "Ready", "status": "True", "reason": "bench", "message": ""}],
        }
        node = {"metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "status": status}
        await client.create(NODES, "", node)
        instances = {"instances": [{"name": f"i-{i:03d}"} for i in range(each)]}
        named = {"nodeName": name, "driverName": STRUCTURED, "namedResources": instances}
        await client.create(CLASSIC_RESOURCE_SLICES, "", {"metadata": {"name": f"named-{name}"}, **named})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        devices = [{"name": f"d-{i:03d}"} for i in range(each)]
        spec = {"driver": TODAY, "nodeName": name, "pool": pool, "devices": devices}
        await client.create(RESOURCE_SLICES, "", {"metadata": {"name": f"today-{name}"}, "spec": spec})
    for name, body in (
        ("classic", {"driverName": DRIVER}),
        ("structured", {"driverName": STRUCTURED, "structuredParameters": True}),
    ):
        await client.create(CLASSIC_RESOURCE_CLASSES, "", {"metadata": {"name": name}, **body})
    await client.create(DEVICE_CLASSES, "", {"metadata": {"name": "today"}, "spec": {}})


def template(generation: str) -> tuple[Resource, Doc]:
    if generation == "today":
        request = {"name": "one", "exactly": {"deviceClassName": "today"}}
        return RESOURCE_CLAIM_TEMPLATES, {"devices": {"requests": [request]}}
    return CLASSIC_RESOURCE_CLAIM_TEMPLATES, {"resourceClassName": generation}


async def pods_per_second(client: Client, generation: str, round_: int, pods: int) -> float:
    """From the first pod created to the last one bound."""
    namespace = f"bench-{generation}-{round_}"
    await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    resource, spec = template(generation)
    await client.create(resource, namespace, {"metadata": {"name": "one"}, "spec": {"spec": spec}})
    waiting = asyncio.create_task(all_bound(client, namespace, pods))
    began = time.monotonic()
    names = iter([f"p-{number:05d}" for number in range(pods)])

    async def write() -> None:
        for name in names:
            container = {"name": "c", "image": "i", "resources": {"claims": [{"name": "one"}]}}
            entry = {"name": "one", "resourceClaimTemplateName": "one"}
            body = {
                "metadata": {"name": name},
                "spec": {"containers": [container], "resourceClaims": [entry]},
            }
            await client.create(PODS, namespace, body)

    await asyncio.gather(*(write() for _ in range(WRITERS)))
    await waiting
    return pods / (time.monotonic() - began)


async def all_bound(client: Client, namespace: str, pods: int) -> None:
    start = (await client.list(PODS, namespace)).resource_version
    bound: set[str] = set()
    async with client.watch(PODS, namespace, resource_version=start) as stream:
        async for batch in stream:
            for event in batch:
                if event.type != "BOOKMARK" and event.object["spec"].get("nodeName"):
                    bound.add(event.object["metadata"]["name"])
            if len(bound) == pods:
                return


@contextlib.asynccontextmanager
async def driver(config: Config, each: int) -> AsyncIterator[None]:
    """The cats' controller."""
    async with connect(config) as client:
        ready = asyncio.Event()
        work = classic.run(client, CatsController(count=each), options=classic.Options(), ready=ready.set)
        task = asyncio.create_task(work)
        await ready.wait()
        try:
            yield
        finally:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task


async def main(args: argparse.Namespace) -> dict[str, float]:
    config = Config(server=args.server, token=args.token, insecure=True)
    each = 2 * args.pods * args.rounds // args.nodes
    found: dict[str, list[float]] = {"classic": [], "structured": [], "today": []}
    async with connect(config) as client:
        await set_up(client, args.nodes, each)
        async with driver(config, each):
            for round_ in range(args.rounds):
                for generation, figures in found.items():
                    figures.append(await pods_per_second(client, generation, round_, args.pods))
    return {generation: round(statistics.median(figures), 1) for generation, figures in found.items()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--nodes", type=int, default=10)
    parser.add_argument("--pods", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    print(json.dumps(asyncio.run(main(parser.parse_args()))))
