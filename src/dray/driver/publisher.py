"""Keeps a driver's ResourceSlices as the driver wants them, also after failures and after changes by others.

``slices`` has the plan, which is pure. The publisher carries it out, pool by pool. It remembers what it wrote last until
the informer shows it, so that no slice is created twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.api.errors import NotFound
from dray.client.informers import Informer
from dray.client.workqueue import WorkQueue
from dray.driver.model import Pool
from dray.driver.resource_api import ResourceApi
from dray.driver.slices import Owner, Write, content, dropped_features, equal_except_times, plan, wanted_spec

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSlice

#: Seconds between a change that another client makes to a slice and the look at its pool.
SYNC_DELAY = 1.0


class DroppedFieldsError(Exception):
    """The server did not keep all of a slice, as some features are off there. What is left is published."""


@dataclass(slots=True)
class Counts:
    creates: int = 0
    updates: int = 0
    deletes: int = 0


class Publisher:
    """The slices of one driver on one node, or of its network-attached devices."""

    def __init__(
        self,
        api: ResourceApi,
        driver: str,
        *,
        node: str = "",
        node_uid: str = "",
        informer: Informer[ResourceSlice] | None = None,
        sync_delay: float = SYNC_DELAY,
        on_error: Callable[[Exception], None] | None = None,
    ) -> None:
        """An ``informer`` that is given is shared with others, and the caller runs it."""
        self.driver = driver
        self.counts = Counts()
        self._api = api
        self._node = node
        self._owner = Owner("v1", "Node", node, node_uid) if node and node_uid else None
        self._own_informer = informer is None
        self._informer = informer or api.slice_informer(driver, node)
        self._informer.add_index("node", _node_of)
        self._sync_delay = sync_delay
        self._on_error = on_error
        self._pools: Mapping[str, Pool] = {}
        self._written: dict[str, ResourceSlice] = {}
        self._deleted: set[str] = set()
        self._accepted: dict[tuple[str, int], tuple[object, object]] = {}
        self._queue: WorkQueue[str] | None = None

    def publish(self, pools: Mapping[str, Pool]) -> None:
        """From now on these pools, and no others."""
        affected = {*self._pools, *pools}
        self._pools = dict(pools)
        self._accepted = {key: v for key, v in self._accepted.items() if key[0] not in affected}
        if self._queue is not None:
            for name in affected:
                self._queue.add(name)

    async def run(self) -> None:
        self._queue = queue = WorkQueue[str](base_delay=0.1, max_delay=60.0)
        async with asyncio.TaskGroup() as group:
            if self._own_informer:
                group.create_task(self._informer.run())
            await self._informer.synced()
            self._informer.add_handler(
                on_add=self._seen, on_update=lambda old, new: self._seen(new), on_delete=self._gone
            )
            for name in {*self._pools, *(s["spec"]["pool"]["name"] for s in self._slices())}:
                queue.add(name)
            await queue.run(self._sync)

    async def withdraw(self) -> None:
        """Removes everything this publisher has published."""
        for found in self._slices():
            await self._delete(found)

    def _slices(self) -> list[ResourceSlice]:
        """What is there, as far as anybody here knows."""
        there = self._informer.by_index("node", self._node)
        known = {s["metadata"]["name"]: s for s in there if self._is_mine(s)}
        for name, mine in list(self._written.items()):
            found = known.get(name)
            if found is not None and _version(found) >= _version(mine):
                del self._written[name]
            else:
                known[name] = mine
        return [self._api.read(s) for s in known.values() if s["metadata"]["uid"] not in self._deleted]

    def _is_mine(self, document: ResourceSlice) -> bool:
        spec = document["spec"]
        return spec["driver"] == self.driver and _node_of(document) == [self._node]

    def _seen(self, document: ResourceSlice) -> None:
        if self._is_mine(document) and self._queue is not None:
            mine = self._written.get(document["metadata"]["name"])
            if mine is None or _version(mine) < _version(document):
                self._queue.add_after(document["spec"]["pool"]["name"], self._sync_delay)

    def _gone(self, document: ResourceSlice) -> None:
        if not self._is_mine(document):
            return
        uid = document["metadata"]["uid"]
        self._written.pop(document["metadata"]["name"], None)
        if uid in self._deleted:
            self._deleted.discard(uid)
        elif self._queue is not None:
            self._queue.add_after(document["spec"]["pool"]["name"], self._sync_delay)

    async def _sync(self, name: str) -> None:
        try:
            await self._write(name)
        except Exception as e:
            if self._on_error:
                self._on_error(e)
            raise

    async def _write(self, name: str) -> None:
        if self._node and self._owner is None:
            self._owner = Owner("v1", "Node", self._node, await self._api.node_uid(self._node))
        existing = [s for s in self._slices() if s["spec"]["pool"]["name"] == name]
        pool = self._pools.get(name)
        accepted = {i: pair for (p, i), pair in self._accepted.items() if p == name}
        todo = plan(
            driver=self.driver, name=name, pool=pool, existing=existing, owner=self._owner, accepted=accepted
        )
        for found in todo.delete:
            await self._delete(found)
        for write in todo.update:
            self._stored(name, write, await self._api.update_slice(write.document))
            self.counts.updates += 1
        for write in todo.create:
            self._stored(name, write, await self._api.create_slice(write.document))
            self.counts.creates += 1

    async def _delete(self, found: ResourceSlice) -> None:
        uid = found["metadata"]["uid"]
        self._deleted.add(uid)
        self._written.pop(found["metadata"]["name"], None)
        try:
            await self._api.delete_slice(found)
            self.counts.deletes += 1
        except NotFound:
            self._deleted.discard(uid)
        except BaseException:
            self._deleted.discard(uid)
            raise

    def _stored(self, name: str, write: Write, stored: ResourceSlice) -> None:
        self._written[stored["metadata"]["name"]] = stored
        asked, kept = content(write.document["spec"]), content(stored["spec"])
        if equal_except_times(asked, kept):
            return
        wanted = content(wanted_spec(self._pools[name], write.position)) if name in self._pools else asked
        self._accepted[name, write.position] = wanted, kept
        features = dropped_features(write.document["spec"], stored["spec"]) or ["unknown"]
        problem = DroppedFieldsError(
            f'pool "{name}", slice #{write.position}: some fields were dropped by the apiserver, '
            f"probably because these features are disabled: {' '.join(features)}"
        )
        if self._on_error:
            self._on_error(problem)


def _node_of(document: ResourceSlice) -> list[str]:
    return [document["spec"].get("nodeName") or ""]


def _version(document: ResourceSlice) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)
