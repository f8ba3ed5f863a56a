"""Watches every kind that can be deleted, and keeps the owner graph up to date. It keeps no objects.

Where another controller has an informer of a kind, the monitor uses that informer. The graph knows which objects exist,
so a watch that starts anew only has to find out which of them are gone.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import Expired, Gone, StatusError
from dray.backoff import Backoff
from dray.client.client import Client
from dray.client.informers import Handler, Informer
from dray.client.resources import Resource
from dray.controllers import metadata
from dray.controllers.controller import SharedInformers
from dray.controllers.discovery import GroupResource, ServerResources
from dray.controllers.garbagecollector.graph import Effect, Graph

if TYPE_CHECKING:
    from dray.api.types import Object


_log = logging.getLogger(__name__)

#: Never owned and never owners, and there are many.
IGNORED_RESOURCES: Final = frozenset({GroupResource("", "events"), GroupResource("events.k8s.io", "events")})
_CRDS: Final = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
_BACKOFF: Final = Backoff(initial=0.8, factor=2.0, maximum=30.0, jitter=1.0)
_WATCH_SECONDS: Final = (300, 600)

Report = Callable[[Sequence[Effect]], None]


def monitored_resources(discovered: ServerResources) -> dict[GroupResource, Resource[Any]]:
    """The kinds to watch, by group and plural name."""
    return {
        key: served.resource
        for served in discovered.resources
        if served.allows("delete", "list", "watch")
        and (key := GroupResource(served.resource.group, served.resource.plural)) not in IGNORED_RESOURCES
    }


class Monitors:
    """The watches of the garbage collector; ``run`` them in a task group of the caller."""

    def __init__(self, client: Client, informers: SharedInformers, graph: Graph, report: Report) -> None:
        self._client = client
        self._informers = informers
        self._graph = graph
        self._report = report
        self.resources: dict[GroupResource, Resource[Any]] = {}
        self._borrowed: dict[GroupResource, tuple[Informer[Any], Handler[Any]]] = {}
        self._watches: dict[GroupResource, asyncio.Task[None]] = {}
        self.crds_changed = asyncio.Event()

    def sync(self, wanted: Mapping[GroupResource, Resource[Any]], tasks: asyncio.TaskGroup) -> None:
        """Watch these kinds and no others."""
        gone = [key for key, resource in self.resources.items() if wanted.get(key) != resource]
        new = [key for key, resource in wanted.items() if self.resources.get(key) != resource]
        for key in gone:
            self._stop(key)
        for key in new:
            self._start(key, wanted[key], tasks)
        self.resources = dict(wanted)

    def stop(self) -> None:
        for key in self.resources:
            self._stop(key)
        self.resources = {}

    def _start(self, key: GroupResource, resource: Resource[Any], tasks: asyncio.TaskGroup) -> None:
        informer = self._informers.existing(resource)
        if informer is None:
            self._watches[key] = tasks.create_task(self._watch(resource), name=f"garbage-{resource}")
            return
        handler = informer.add_handler(
            on_add=partial(self._observed, resource),
            on_update=partial(self._changed, resource),
            on_set=self._crd_observed if _is_crd(resource) else None,
            on_delete=self._deleted,
        )
        self._borrowed[key] = (informer, handler)

    def _stop(self, key: GroupResource) -> None:
        if (watch := self._watches.pop(key, None)) is not None:
            watch.cancel()
        if (borrowed := self._borrowed.pop(key, None)) is not None:
            informer, handler = borrowed
            informer.remove_handler(handler)

    # -- events

    def _observed(self, resource: Resource[Any], obj: Object) -> None:
        if effects := self._graph.observed(resource.kind, resource.api_version, obj["metadata"]):
            self._report(effects)

    def _crd_observed(self, obj: Object) -> None:
        self.crds_changed.set()

    def _changed(self, resource: Resource[Any], old: Object, new: Object) -> None:
        before, after = old["metadata"], new["metadata"]
        if before["uid"] != after["uid"]:
            self._deleted(old)  # deleted and created anew between two events
        elif "deletionTimestamp" not in after and before.get("ownerReferences") == after.get(
            "ownerReferences"
        ):
            return  # it belongs to whom it belonged to and stays: nothing else of it is in the graph
        self._observed(resource, new)

    def _deleted(self, obj: Object) -> None:
        if effects := self._graph.deleted(obj["metadata"]["uid"]):
            self._report(effects)

    # -- a watch of our own

    async def _watch(self, resource: Resource[Any]) -> None:
        pauses = _BACKOFF.pauses()
        version = ""
        while True:
            try:
                if not version:
                    version = await self._fill(resource)
                async with self._client.watch(
                    resource, resource_version=version, timeout_seconds=random.randint(*_WATCH_SECONDS)
                ) as stream:
                    async for batch in stream:
                        for event in batch:
                            obj: Object = event.object
                            version = obj["metadata"]["resourceVersion"]
                            if event.type == "DELETED":
                                self._deleted(obj)
                            elif event.type != "BOOKMARK":
                                self._observed(resource, obj)
                                if _is_crd(resource):
                                    self._crd_observed(obj)
                        pauses = _BACKOFF.pauses()
            except (Expired, Gone):
                version = ""
            except StatusError as problem:
                # A kind may be on its way out; the next discovery ends this watch then.
                _log.debug("%s cannot be watched, trying again: %s", resource, problem)
            await asyncio.sleep(next(pauses))

    async def _fill(self, resource: Resource[Any]) -> str:
        found = await metadata.listed(self._client, resource)
        there = set()
        for item in found.items:
            there.add(item["metadata"]["uid"])
            self._observed(resource, item)
        if found.items and _is_crd(resource):
            self.crds_changed.set()
        kind = (resource.kind, resource.api_version)
        vanished = [
            node.identity.uid
            for node in self._graph.nodes()
            if not node.virtual
            and (node.identity.kind, node.identity.api_version) == kind
            and node.identity.uid not in there
        ]
        for uid in vanished:
            if effects := self._graph.deleted(uid):
                self._report(effects)
        return found.resource_version


def _is_crd(resource: Resource[Any]) -> bool:
    return resource.plural == _CRDS.plural and resource.group == _CRDS.group
