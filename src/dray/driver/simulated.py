"""Publishes a driver's devices for simulated nodes: slices without sockets, for any number of nodes."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api.errors import AlreadyExists
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import CLASSIC_RESOURCE_SLICES
from dray.driver.base import Driver
from dray.driver.publisher import Publisher
from dray.driver.resource_api import ResourceApi, wait_for_api

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceSlice as ClassicSlice


async def publish(client: Client, driver: Driver, *, nodes: Sequence[str]) -> None:
    """Publishes the driver's devices for all these nodes, and keeps them published until cancelled.

    One watch serves all of them. Claims need no preparing there: simulated nodes take every driver for granted.
    """
    api = await wait_for_api(driver.name, lambda: ResourceApi.connect(client))
    informer = api.slice_informer(driver.name, "")
    async with asyncio.TaskGroup() as group:
        group.create_task(informer.run(), name=f"slices of {driver.name}")
        for node in nodes:
            publisher = Publisher(api, driver.name, node=node, informer=informer, on_error=driver.on_error)
            publisher.publish(driver.pools(node))
            group.create_task(publisher.run(), name=f"slices of {driver.name} on {node}")


async def publish_named(client: Client, driver: Driver, nodes: Sequence[str]) -> None:
    """The slices that kubelets of 1.30 would write, where the server has them. They do not change."""
    from dray.driver.classic.node_services import named_resources

    if not await Discovery(client).serves(CLASSIC_RESOURCE_SLICES):
        return
    for node in nodes:
        body: ClassicSlice = {
            "metadata": {"name": f"{node}-{driver.name}"},
            "nodeName": node,
            "driverName": driver.name,
            "namedResources": named_resources(list(driver.named_resources(node))),
        }
        with contextlib.suppress(AlreadyExists):
            await client.create(CLASSIC_RESOURCE_SLICES, "", body)
