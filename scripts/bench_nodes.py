"""Nodes with devices for measurements, made by several writers at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from dray.client.client import Client
from dray.client.resources import NODES, RESOURCE_SLICES

WRITERS = 16


async def in_turns(count: int, work: Callable[[int], Awaitable[Any]]) -> None:
    """Do the work for every number below a count; each writer takes the next one when it is done."""
    numbers = iter(range(count))

    async def writer() -> None:
        for number in numbers:
            await work(number)

    async with asyncio.TaskGroup() as group:
        for _ in range(WRITERS):
            group.create_task(writer())


async def create_nodes(client: Client, count: int, *, devices: int, driver: str) -> None:
    """Nodes that are ready, each with a slice of so many devices."""
    room = {"cpu": "64", "memory": "64Gi", "pods": "500"}

    async def node(number: int) -> None:
        name = f"bench-{number:04d}"
        ready = {"type": "Ready", "status": "True", "reason": "bench", "message": ""}
        status = {"capacity": room, "allocatable": room, "conditions": [ready]}
        labels = {"kubernetes.io/hostname": name}
        await client.create(NODES, "", {"metadata": {"name": name, "labels": labels}, "status": status})
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        listed = [{"name": f"d-{i:02d}"} for i in range(devices)]
        spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": listed}
        await client.create(RESOURCE_SLICES, "", {"metadata": {"name": name}, "spec": spec})

    await in_turns(count, node)
