"""The ResourceSlices that the kubelet of 1.30 wrote for its drivers: drivers told it which resources the node has.

A slice is kept if its content is still wanted, rewritten if not, and deleted when its driver has gone. A driver that has
not registered yet gets some time to do so before its slices are deleted; the node's options say how long a driver may be
away.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dray.api.errors import NotFound
from dray.client.client import Client
from dray.client.informers import Informer
from dray.client.resources import CLASSIC_RESOURCE_SLICES
from dray.client.workqueue import WorkQueue

if TYPE_CHECKING:
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource_v1alpha2 import NamedResourcesResources, ResourceModel, ResourceSlice

#: Seconds that drivers with slices from before have to register.
REGISTRATION_GRACE = 30.0


class NodeResourcesController:
    """The slices of one node in v1alpha2."""

    def __init__(
        self, client: Client, node: str, *, node_uid: Callable[[], str], withdraw_after: float = 0.0
    ) -> None:
        self._client = client
        self._node = node
        self._node_uid = node_uid
        self._informer = Informer(client, CLASSIC_RESOURCE_SLICES, field_selector=f"nodeName={node}")
        self._wanted: dict[str, Sequence[ResourceModel]] = {}
        self._withdraw_after = withdraw_after
        self._withdraw_at: dict[str, float] = {}  # with drivers that have been heard of
        self._withdraw_unknown_at = 0.0
        self._queue: WorkQueue[str] = WorkQueue()
        self._written: dict[str, ResourceSlice] = {}  # what no watch has shown yet

    def changed(self, driver: str, resources: Sequence[ResourceModel] | None) -> None:
        """What the driver has on the node from now on; None when it has gone."""
        self._withdraw_at[driver] = 0.0
        if resources is None:
            self._wanted.pop(driver, None)
            self._withdraw_at[driver] = asyncio.get_running_loop().time() + self._withdraw_after
        else:
            self._wanted[driver] = resources
        self._queue.add(driver)

    async def run(self) -> None:
        self._withdraw_unknown_at = asyncio.get_running_loop().time() + REGISTRATION_GRACE
        self._informer.add_handler(
            on_add=self._seen, on_update=lambda old, new: self._seen(new), on_delete=self._seen
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(self._informer.run(), name=f"old slices of {self._node}")
            await self._informer.synced()
            await self._queue.run(self._sync)

    def _seen(self, document: ResourceSlice) -> None:
        self._written.pop(document["metadata"]["name"], None)
        self._queue.add(document["driverName"])

    async def _sync(self, driver: str) -> float | None:
        until = self._withdraw_at.get(driver, self._withdraw_unknown_at)
        patience = until - asyncio.get_running_loop().time()
        if driver not in self._wanted and patience > 0:
            return patience
        there = {s["metadata"]["name"]: s for s in self._informer.items()} | self._written
        mine = [s for s in there.values() if s["driverName"] == driver]
        wanted = list(self._wanted.get(driver, ()))
        obsolete = []
        for found in mine:
            model = _model(found)
            if model in wanted:
                wanted.remove(model)
            else:
                obsolete.append(found)
        for model in wanted:
            await self._write(driver, model, obsolete.pop() if obsolete else None)
        for found in obsolete:
            try:
                await self._client.delete(CLASSIC_RESOURCE_SLICES, "", found["metadata"]["name"])
            except NotFound:
                self._written.pop(found["metadata"]["name"], None)
        return None

    async def _write(self, driver: str, model: ResourceModel, old: ResourceSlice | None) -> None:
        named: NamedResourcesResources = model["namedResources"]
        if old is not None:
            changed: ResourceSlice = {**old, "namedResources": named}
            stored = await self._client.update(CLASSIC_RESOURCE_SLICES, "", changed)
        else:
            owner: OwnerReference = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": self._node,
                "uid": self._node_uid(),
                "controller": True,
            }
            body: ResourceSlice = {
                "metadata": {"generateName": f"{self._node}-{driver}-", "ownerReferences": [owner]},
                "nodeName": self._node,
                "driverName": driver,
                "namedResources": named,
            }
            stored = await self._client.create(CLASSIC_RESOURCE_SLICES, "", body)
        self._written[stored["metadata"]["name"]] = stored


def _model(found: ResourceSlice) -> ResourceModel:
    return {"namedResources": found["namedResources"]} if "namedResources" in found else {}
