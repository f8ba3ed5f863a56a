"""Waits for a DeviceClass that names the cats' driver: the driver need only announce its devices before there is one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from dray.api import on_demand
from dray.api.errors import StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informers
from dray.client.resources import CONFIGMAPS, DEVICE_CLASSES
from dray.driver.model import Device
from dray.driver.resource_api import VERSIONS
from dray.drivers.cats.inventory import DRIVER

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceClass


async def class_exists(client: Client) -> bool:
    """Whether there is a class that asks for cats."""
    classes = await Discovery(client).first_served(DEVICE_CLASSES, VERSIONS)
    return classes is not None and any(map(selects_cats, (await client.list(classes)).items))


async def wait_for_class(client: Client) -> None:
    """Returns when there is a class that asks for cats; never on servers that have no such classes."""
    calling = asyncio.Event()

    def look(device_class: DeviceClass) -> None:
        if selects_cats(device_class):
            calling.set()

    informers = Informers(client)
    if classes := await Discovery(client).first_served(DEVICE_CLASSES, VERSIONS):
        informers.get(classes).add_handler(on_add=look, on_update=lambda old, new: look(new))
    async with informers:
        await calling.wait()


@asynccontextmanager
async def announced(client: Client, devices: Iterable[Device]) -> AsyncIterator[None]:
    """Tell tools which devices every node would have, until they are published or the driver stops."""
    config = on_demand.announcement(DRIVER, (device.document() for device in devices))
    await client.create_if_missing(CONFIGMAPS, on_demand.NAMESPACE, config)
    try:
        yield
    finally:
        with suppress(StatusError, OSError):
            await client.delete(CONFIGMAPS, on_demand.NAMESPACE, config["metadata"]["name"])


def selects_cats(device_class: DeviceClass) -> bool:
    return on_demand.names_driver(device_class, DRIVER)
