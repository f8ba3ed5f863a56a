"""Waits for a DeviceClass that names the cats' driver: the driver need not publish devices before there is one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informers
from dray.client.resources import DEVICE_CLASSES
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


def selects_cats(device_class: DeviceClass) -> bool:
    selectors = (device_class.get("spec") or {}).get("selectors") or ()
    return any(DRIVER in (selector.get("cel") or {}).get("expression", "") for selector in selectors)
