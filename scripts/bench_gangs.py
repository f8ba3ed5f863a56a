"""Pods scheduled per second in gangs, beside the same pods without gangs, on the same API server.

Every pod wants one device. Single pods and gangs of each size take turns, and the medians of several rounds are told, as
a busy machine is not busy evenly. A round ends when its last pod is bound; then its pods are deleted. What a pod costs is
the processor time of the server's process from the first object until the process is at rest again, which does not depend on
who else uses the machine. Prints one JSON line.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any, NamedTuple

from bench_nodes import create_nodes, in_turns

from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.resources import (
    DEVICE_CLASSES,
    NAMESPACES,
    POD_GROUPS,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
)

DRIVER = "gangs.example.com"
SIZES = (8, 64)


async def set_up(client: Client, nodes: int, devices: int) -> None:
    await create_nodes(client, nodes, devices=devices, driver=DRIVER)
    await client.create(DEVICE_CLASSES, "", {"metadata": {"name": "gangs"}, "spec": {}})


class Round(NamedTuple):
    pods_per_s: float  # from the first object created to the last pod bound
    processor_ms: float  # per pod


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def at_rest(pid: int) -> float:
    """The processor time of the process, once it hardly uses any."""
    before = processor_seconds(pid)
    while True:
        await asyncio.sleep(0.5)
        now = processor_seconds(pid)
        if now - before <= 0.02:
            return now
        before = now


async def one_round(client: Client, namespace: str, size: int, pods: int, *, pid: int) -> Round:
    """``size`` 1: no gangs."""
    await client.create(NAMESPACES, "", {"metadata": {"name": namespace}})
    request = {"name": "one", "exactly": {"deviceClassName": "gangs"}}
    template = {"metadata": {"name": "one"}, "spec": {"spec": {"devices": {"requests": [request]}}}}
    await client.create(RESOURCE_CLAIM_TEMPLATES, namespace, template)
    waiting = asyncio.create_task(all_bound(client, namespace, pods))
    used = await at_rest(pid)
    began = time.monotonic()

    async def pod(number: int) -> None:
        spec: dict[str, Any] = {
            "containers": [{"name": "c", "image": "bench", "resources": {"claims": [{"name": "one"}]}}],
            "resourceClaims": [{"name": "one", "resourceClaimTemplateName": "one"}],
            "terminationGracePeriodSeconds": 0,
        }
        if size > 1:
            spec["schedulingGroup"] = {"podGroupName": f"g-{number // size}"}
        await client.create(PODS, namespace, {"metadata": {"name": f"p-{number}"}, "spec": spec})

    async def group(number: int) -> None:
        spec = {"schedulingPolicy": {"gang": {"minCount": size}}}
        await client.create(POD_GROUPS, namespace, {"metadata": {"name": f"g-{number}"}, "spec": spec})

    if size > 1:
        await in_turns(pods // size, group)
    await in_turns(pods, pod)
    await waiting
    took = time.monotonic() - began
    used = await at_rest(pid) - used
    await client.delete_collection(PODS, namespace)
    await client.delete(NAMESPACES, "", namespace)
    return Round(pods / took, used / pods * 1000)


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


async def measure(client: Client, args: argparse.Namespace) -> dict[str, dict[str, float]]:
    await set_up(client, args.nodes, args.devices)
    found: dict[int, list[Round]] = {size: [] for size in (1, *SIZES)}
    for number in range(-1, args.rounds):
        for size, rounds in found.items():
            done = await one_round(client, f"round-{number + 1}-{size}", size, args.pods, pid=args.pid)
            if number >= 0:  # the first round warms up
                rounds.append(done)
    return {
        str(size): {name: statistics.median(getattr(one, name) for one in rounds) for name in Round._fields}
        for size, rounds in found.items()
    }


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--server", required=True)
    parser.add_argument("--token", required=True)
    parser.add_argument("--pid", type=int, required=True, help="of the server and scheduler")
    parser.add_argument("--nodes", type=int, default=500)
    parser.add_argument("--devices", type=int, default=10)
    parser.add_argument("--pods", type=int, default=512)
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    async with connect(Config(server=args.server, token=args.token, insecure=True)) as client:
        print(json.dumps(await measure(client, args)))


if __name__ == "__main__":
    asyncio.run(main())
