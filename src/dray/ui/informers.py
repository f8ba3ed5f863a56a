"""Informers that keep a live cluster up to date, as far as the identity of the client may read.

A kind that may be read in one namespace only is read there; one that may not be read at all is left out. Both are noted,
so that the page can say so.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, Final

from dray.api.errors import StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.informers import Informer
from dray.client.resources import Resource
from dray.explain.model import collector
from dray.explain.model.snapshot import SnapshotField
from dray.ui.cluster import LiveCluster

#: What the page shows and explanations need. What drivers would publish once a class names them is not there yet.
SHOWN: Final = tuple(name for name in collector.RESOURCES if name != "on_demand")
#: What metrics are made of: what is counted, and what a pending pod may lack.
COUNTED: Final[tuple[SnapshotField, ...]] = (
    "slices",
    "classes",
    "claims",
    "taint_rules",
    "pods",
    "templates",
    "namespaces",
    "classic_claims",
    "classic_templates",
    "classic_slices",
    "resource_classes",
)


@dataclass(frozen=True, slots=True)
class Rights:
    """Where a kind is read; None: it may not be read, or is not served."""

    name: str  # field of the snapshot
    resource: Resource[Any]
    namespace: str = ""  # empty: everywhere


@dataclass(frozen=True, kw_only=True, slots=True)
class Readable:
    """What can be read with the rights there are."""

    rights: tuple[Rights, ...]
    unread: tuple[str, ...]  # kinds that cannot be read, or in one namespace only
    limited: tuple[str, ...]  # those of them that are read in one namespace
    release: str
    gates: frozenset[str] | None


async def readable(client: Client, *, namespace: str, fields: Collection[SnapshotField] = SHOWN) -> Readable:
    """Ask for one object of each kind, and so learn which may be read, and where."""
    discovery = Discovery(client)

    async def rights(name: SnapshotField) -> tuple[Rights | None, str]:
        """Where to read, and the kind if that is not everywhere."""
        served = await collector.served_resource(discovery, collector.RESOURCES[name])
        if served is None:
            return None, ""
        for where in ("", namespace) if served.namespaced else ("",):
            match await _allows(client, served, where):
                case True:
                    return Rights(name, served, where), served.kind if where else ""
                case None:
                    return None, ""
        return None, served.kind

    found = await asyncio.gather(*(rights(name) for name in fields))
    known = tuple(one for one, _ in found if one is not None)
    return Readable(
        rights=known,
        unread=tuple(dict.fromkeys(kind for _, kind in found if kind)),
        limited=tuple(dict.fromkeys(kind for one, kind in found if one is not None and kind)),
        release=await collector.release(client),
        gates=await collector.feature_gates(client),
    )


async def _allows(client: Client, resource: Resource[Any], namespace: str) -> bool | None:
    """Whether the kind may be listed there; None: the server does not have it."""
    try:
        await client.request("GET", resource.path(namespace), query={"limit": "1"})
    except StatusError as error:
        if error.code == 404:
            return None
        if error.code in (401, 403):
            return False
        raise
    return True


@asynccontextmanager
async def informed(client: Client, cluster: LiveCluster, found: Readable) -> AsyncIterator[None]:
    """Keep the cluster up to date inside the block, which begins when all of it is there."""
    informers = []
    for one in found.rights:
        labels, fields = collector.selectors(one.resource)
        informer: Informer[Any] = Informer(
            client,
            one.resource,
            namespace=one.namespace,
            label_selector=labels,
            field_selector=fields,
            transform=collector.hub_shape(one.resource),
        )
        informer.add_handler(
            on_set=lambda obj, name=one.name: cluster.put(name, obj),  # type: ignore[misc]
            on_delete=lambda obj, name=one.name: cluster.remove(name, obj),  # type: ignore[misc]
        )
        informers.append(informer)
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one.run(), name=f"informer-{one.resource}") for one in informers]
        try:
            for informer in informers:
                await informer.synced()
            yield
        finally:
            for task in tasks:
                task.cancel()
