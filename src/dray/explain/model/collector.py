"""A snapshot from an API server, whichever versions of the resource API it serves."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dray.api import on_demand
from dray.api.errors import StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    CLASSIC_RESOURCE_SLICES,
    CONFIGMAPS,
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    EVENTS,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_SCHEDULING_CONTEXTS,
    POD_SCHEDULINGS,
    PODS,
    RESOURCE_CLAIM_PARAMETERS,
    RESOURCE_CLAIM_TEMPLATES,
    RESOURCE_CLAIMS,
    RESOURCE_CLASS_PARAMETERS,
    RESOURCE_SLICES,
    STORAGE_CLASSES,
    Resource,
)
from dray.explain.model.snapshot import Snapshot

if TYPE_CHECKING:
    from typing import TypedDict

    from dray.api.types import Object

    class VersionInfo(TypedDict, total=False):
        """The part of ``/version`` that counts."""

        major: str
        minor: str


_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_RULE_VERSIONS: Final = ("v1beta2", "v1alpha3")
_CLASSIC_VERSIONS: Final = ("v1alpha2", "v1alpha1")
_HUBS: Final = ("v1", "v1alpha2")  # of each generation
_GATE = re.compile(r'^kubernetes_feature_enabled\{name="(\w+)"[^}]*\} 1$', re.MULTILINE)


async def collect_snapshot(client: Client, *, namespace: str = "") -> Snapshot:
    """All objects that decide who gets which device. Kinds that the user may not read are left out and noted.

    Of kinds that the user may not read in all namespaces, the objects of ``namespace`` are taken.
    """
    discovery = Discovery(client)
    resources: dict[str, Resource[Any]] = {
        "slices": RESOURCE_SLICES,
        "classes": DEVICE_CLASSES,
        "claims": RESOURCE_CLAIMS,
        "templates": RESOURCE_CLAIM_TEMPLATES,
        "taint_rules": DEVICE_TAINT_RULES,
        "nodes": NODES,
        "pods": PODS,
        "namespaces": NAMESPACES,
        "volume_claims": PERSISTENT_VOLUME_CLAIMS,
        "volumes": PERSISTENT_VOLUMES,
        "storage_classes": STORAGE_CLASSES,
        "events": EVENTS,
        "on_demand": CONFIGMAPS,
        "classic_claims": CLASSIC_RESOURCE_CLAIMS,
        "classic_templates": CLASSIC_RESOURCE_CLAIM_TEMPLATES,
        "classic_slices": CLASSIC_RESOURCE_SLICES,
        "resource_classes": CLASSIC_RESOURCE_CLASSES,
        "claim_parameters": RESOURCE_CLAIM_PARAMETERS,
        "class_parameters": RESOURCE_CLASS_PARAMETERS,
        "scheduling_contexts": POD_SCHEDULING_CONTEXTS,
    }
    async with asyncio.TaskGroup() as group:
        lists = {
            name: group.create_task(_collected(client, discovery, resource, namespace))
            for name, resource in resources.items()
        }
        version = group.create_task(_version(client))
        gates = group.create_task(_gates(client))
    found = {name: task.result() for name, task in lists.items()}
    return Snapshot(
        release=version.result(),
        gates=gates.result(),
        unread=tuple(dict.fromkeys(resources[name].kind for name, one in found.items() if not one.whole)),
        **{name: one.objects for name, one in found.items()},
    )


class _Found(NamedTuple):
    objects: tuple[Any, ...]
    whole: bool = True  # the user may read all there are


async def _collected(client: Client, discovery: Discovery, resource: Resource[Any], namespace: str) -> _Found:
    """All objects of a resource in the newest shape, as far as the user may read them."""
    ours = resource.group == RESOURCE_SLICES.group
    served = await _served(discovery, resource) if ours else resource
    if served is None:
        return _Found(())
    found = await _list(client, served)
    whole = found is not None
    if found is None and namespace and served.namespaced:
        found = await _list(client, served, namespace)
    if found and ours and served.version not in _HUBS and resource is not DEVICE_TAINT_RULES:
        from dray.explain.model.manifests import newest

        found = tuple(map(newest, found))
    return _Found(found or (), whole)


async def _served(discovery: Discovery, resource: Resource[Any]) -> Resource[Any] | None:
    if resource is DEVICE_TAINT_RULES:
        return await discovery.first_served(resource, _RULE_VERSIONS)
    if resource.version not in _CLASSIC_VERSIONS:
        return await discovery.first_served(resource, _VERSIONS)
    if resource is POD_SCHEDULING_CONTEXTS and not await discovery.serves(resource):
        return POD_SCHEDULINGS if await discovery.serves(POD_SCHEDULINGS) else None
    return await discovery.first_served(resource, _CLASSIC_VERSIONS)


async def device_state_resources(client: Client) -> list[Resource[Any]]:
    """The resources that change when devices change their state, in the versions that the server has."""
    discovery = Discovery(client)
    resources = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_TAINT_RULES)
    return [served for one in resources if (served := await _served(discovery, one)) is not None]


async def _list(client: Client, resource: Resource[Any], namespace: str = "") -> tuple[Any, ...] | None:
    """None: the user may not read them."""
    fields = "type=Warning" if resource is EVENTS else ""
    labels = on_demand.LABEL if resource is CONFIGMAPS else ""
    try:
        items = (await client.list(resource, namespace, field_selector=fields, label_selector=labels)).items
    except StatusError as error:
        if error.code == 404:
            return ()
        if error.code == 403:
            return None
        raise
    typed = {"apiVersion": resource.api_version, "kind": resource.kind}
    return tuple({**typed, **_without_managed_fields(item)} for item in items)


def _without_managed_fields(item: Object) -> Object:
    """The object without managedFields, which is half of it."""
    metadata = item["metadata"].copy()
    metadata.pop("managedFields", None)
    return {**item, "metadata": metadata}


async def _version(client: Client) -> str:
    try:
        version: VersionInfo = (await client.request("GET", "/version")).object
    except StatusError:
        return ""
    return f"{version.get('major', '1')}.{re.sub(r'[^0-9]', '', version.get('minor', ''))}"


async def _gates(client: Client) -> frozenset[str] | None:
    """The feature gates that are on according to the server's metrics, which only administrators may read."""
    try:
        async with client.transport.stream("/metrics", query={}) as pieces:
            text = b"".join([piece async for piece in pieces]).decode("utf-8", "replace")
    except (StatusError, OSError):
        return None
    return frozenset(_GATE.findall(text)) or None
