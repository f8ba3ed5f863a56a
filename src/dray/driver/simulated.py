"""A driver's devices on simulated nodes: slices without sockets, for as many nodes as one likes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dray.client.client import Client
from dray.driver.api import ResourceApi
from dray.driver.base import Driver
from dray.driver.publisher import Publisher


async def publish(client: Client, driver: Driver, *, nodes: Sequence[str]) -> None:
    """Publishes the driver's devices for all these nodes, and keeps them published until cancelled.

    One watch serves all of them. Claims need no preparing there: simulated nodes take every driver for granted.
    """
    api = await ResourceApi.connect(client)
    informer = api.slice_informer(driver.name, "")
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(), name=f"slices of {driver.name}")
        for node in nodes:
            publisher = Publisher(api, driver.name, node=node, informer=informer, on_error=driver.on_error)
            publisher.publish(driver.pools(node))
            group.create_task(publisher.run(), name=f"slices of {driver.name} on {node}")
