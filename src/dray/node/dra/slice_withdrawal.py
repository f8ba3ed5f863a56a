"""Slice withdrawal: the node deletes the ResourceSlices of a driver that has been away too long.

The kubelet's sources call this wiping. ``DRAPluginManager`` decides when; this is the part that talks to the API server.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from dray.api.errors import NotFound, StatusError
from dray.backoff import Backoff
from dray.client.client import Client
from dray.client.resources import Resource

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSlice

log = logging.getLogger(__name__)

_RETRY = Backoff(initial=1.0, factor=2.0, maximum=300.0, jitter=0.2)


class SliceWithdrawal:
    """The slices of one node."""

    def __init__(self, client: Client, slices: Resource[ResourceSlice], node: str) -> None:
        self._client = client
        self._slices = slices
        self._node = node

    async def drivers(self) -> list[str]:
        """The drivers that have slices on the node; none if the server cannot tell."""
        try:
            found = await self._client.list(self._slices, field_selector=f"spec.nodeName={self._node}")
        except StatusError:
            return []
        return [s["spec"]["driver"] for s in found.items]

    async def withdraw(self, driver: str) -> None:
        """Deletes the slices of a driver, and keeps trying until that works."""
        selector = f"spec.driver={driver},spec.nodeName={self._node}"
        for pause in _RETRY.pauses():
            try:
                await self._client.delete_collection(self._slices, field_selector=selector)
                return
            except NotFound:
                return
            except StatusError as e:
                log.info("slices of %s cannot be withdrawn yet: %s", driver, e)
            await asyncio.sleep(pause)
