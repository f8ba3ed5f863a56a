"""How long single requests take while pods with claims are scheduled: GET, LIST of 500, PATCH, and delivery to a watch.

A process of its own creates pods at a steady rate. Meanwhile one client makes one request of each sort after the other,
so that what is measured is the wait of one user and not the throughput. Prints one JSON line: milliseconds at the 50th, 95th
and 99th of 100, and how many pods a second were scheduled.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from typing import Any

from bench_nodes import create_nodes, in_turns

from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.resources import (
    CONFIGMAPS,
    DEVICE_CLASSES,
    NAMESPACES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
)

DRIVER = "latency.example.com"
LOAD, PROBED = "latency-load", "latency-probed"
LISTED = 500
PAUSE = 0.01  # seconds between two requests of one sort


async def set_up(client: Client, nodes: int, devices: int) -> None:
    await create_nodes(client, nodes, devices=devices, driver=DRIVER)
    expression = f'device.driver == "{DRIVER}"'
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    await client.create(DEVICE_CLASSES, "", {"metadata": {"name": "latency"}, "spec": spec})
    for namespace in (LOAD, PROBED):
        await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    request = {"name": "one", "exactly": {"deviceClassName": "latency"}}
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await client.create(RESOURCE_CLAIM_TEMPLATES, LOAD, template)

    async def listed(number: int) -> None:
        document = {"metadata": {"name": f"c-{number:03d}"}, "data": {"key": "x" * 500}}
        await client.create(CONFIGMAPS, PROBED, document)

    await in_turns(LISTED, listed)


async def create_pods(client: Client, *, rate: float, seconds: float) -> None:
    """Create pods at a rate, or as fast as the server takes them if that is less; until the time is over."""
    began = time.monotonic()
    spec = {
        "containers": [{"name": "c", "image": "bench", "resources": {"claims": [{"name": "one"}]}}],
        "resourceClaims": [{"name": "one", "resourceClaimTemplateName": "one"}],
    }

    async def pod(number: int) -> None:
        wait = began + number / rate - time.monotonic()
        if wait > 0:
            await asyncio.sleep(wait)
        if time.monotonic() - began < seconds:
            await client.create(PODS, LOAD, {"metadata": {"name": f"p-{number}"}, "spec": spec})

    await in_turns(int(rate * seconds), pod)


async def probe(client: Client, ended: asyncio.Event) -> dict[str, list[float]]:
    """The time of each request, in seconds, until nothing is created any more."""
    took: dict[str, list[float]] = {"get": [], "list": [], "patch": [], "watch": []}
    sent: dict[str, float] = {}

    async def repeat(name: str, request: Callable[[], Awaitable[Any]]) -> None:
        while not ended.is_set():
            began = time.perf_counter()
            await request()
            took[name].append(time.perf_counter() - began)
            await asyncio.sleep(PAUSE)

    async def patch() -> None:
        number = f"{len(sent)}"
        sent[number] = time.perf_counter()
        await client.patch(CONFIGMAPS, PROBED, "c-000", {"data": {"number": number}})

    async def watch() -> None:
        start = (await client.list(CONFIGMAPS, PROBED)).resource_version
        async with client.watch(CONFIGMAPS, PROBED, resource_version=start) as stream:
            async for batch in stream:
                for event in batch:
                    number = (event.object.get("data") or {}).get("number", "")
                    if number in sent:
                        took["watch"].append(time.perf_counter() - sent[number])

    watching = asyncio.create_task(watch())
    async with asyncio.TaskGroup() as group:
        group.create_task(repeat("get", lambda: client.get(CONFIGMAPS, PROBED, "c-001")))
        group.create_task(repeat("list", lambda: client.list(CONFIGMAPS, PROBED)))
        group.create_task(repeat("patch", patch))
    watching.cancel()
    return took


def percentiles(values: list[float]) -> list[float]:
    ordered = sorted(values)
    return [
        round(ordered[min(int(len(ordered) * share), len(ordered) - 1)] * 1000, 2)
        for share in (0.5, 0.95, 0.99)
    ]


async def measure(client: Client, args: argparse.Namespace) -> dict[str, Any]:
    await set_up(client, args.nodes, args.devices)
    began = time.monotonic()
    load = await asyncio.create_subprocess_exec(sys.executable, *sys.argv, "--create-pods")
    ended = asyncio.Event()
    probing = asyncio.create_task(probe(client, ended))
    if await load.wait():
        raise SystemExit("the process that creates pods has failed")
    took = time.monotonic() - began
    ended.set()
    found = await probing
    bound = [
        pod["metadata"]["name"]
        for pod in (await client.list(PODS, LOAD)).items
        if pod["spec"].get("nodeName")
    ]
    return {"pods_per_s": len(bound) / took, **{name: percentiles(values) for name, values in found.items()}}


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--rate", type=float, default=500.0, help="pods a second")
    parser.add_argument("--seconds", type=float, default=8.0)
    parser.add_argument("--create-pods", action="store_true", help="be the process that creates the pods")
    args = parser.parse_args()
    async with connect(Config(server=args.server, token=args.token, insecure=True)) as client:
        if args.create_pods:
            await create_pods(client, rate=args.rate, seconds=args.seconds)
        else:
            print(json.dumps(await measure(client, args)))


if __name__ == "__main__":
    asyncio.run(main())
