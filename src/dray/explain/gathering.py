"""A snapshot from an API server, whichever versions of the resource API it serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from typing import Any, Final

from dray.api.errors import StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PODS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    Resource,
)
from dray.explain.snapshot import Document, Documents, Snapshot

_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_RULE_VERSIONS: Final = ("v1beta2", "v1alpha3")
_HUB: Final = "v1"
_GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} 1$', re.MULTILINE)


async def gather(client: Client) -> Snapshot:
    """Everything that has a say in who gets which device. What one may not read is left out."""
    discovery = Discovery(client)
    dra = (RESOURCE_SLICES, DEVICE_CLASSES, RESOURCE_CLAIMS, RESOURCE_CLAIM_TEMPLATES)
    async with asyncio.TaskGroup() as group:
        slices, classes, claims, templates = (
            group.create_task(_dra(client, discovery, resource, _VERSIONS)) for resource in dra
        )
        rules = group.create_task(_dra(client, discovery, DEVICE_TAINT_RULES, _RULE_VERSIONS))
        nodes, pods, namespaces = (
            group.create_task(_list(client, resource)) for resource in (NODES, PODS, NAMESPACES)
        )
        version = group.create_task(_version(client))
        gates = group.create_task(_gates(client))
    return Snapshot(
        slices=slices.result(),
        classes=classes.result(),
        claims=claims.result(),
        templates=templates.result(),
        taint_rules=rules.result(),
        nodes=nodes.result(),
        pods=pods.result(),
        namespaces=namespaces.result(),
        release=version.result(),
        gates=gates.result(),
    )


async def _dra(
    client: Client, discovery: Discovery, resource: Resource, versions: Sequence[str]
) -> Documents:
    served = await discovery.newest(resource, versions)
    if served is None:
        return ()
    found = await _list(client, served)
    if served.version == _HUB or resource is DEVICE_TAINT_RULES:
        return found
    from dray.explain.manifests import newest

    return tuple(map(newest, found))


async def _list(client: Client, resource: Resource) -> Documents:
    try:
        items = (await client.list(resource)).items
    except StatusError as error:
        if error.code in (403, 404):
            return ()
        raise
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return tuple({**typed, **_slim(item)} for item in items)


def _slim(item: Document) -> dict[str, Any]:
    """The object without the record of who owns which field, which is half of it."""
    metadata = {k: v for k, v in item["metadata"].items() if k != "managedFields"}
    return {**item, "metadata": metadata}


async def _version(client: Client) -> str:
    try:
        version = (await client.request("GET", "/version")).object
    except StatusError:
        return ""
    return f"{version.get('major', '1')}.{re.sub(r'[^0-9]', '', version.get('minor', ''))}"


async def _gates(client: Client) -> frozenset[str] | None:
    """The feature gates that the server's metrics tell of, which only administrators may read."""
    try:
        async with client.transport.stream("/metrics", query={}) as pieces:
            text = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
    except (StatusError, OSError):
        return None
    return frozenset(_GATE.findall(text)) or None
