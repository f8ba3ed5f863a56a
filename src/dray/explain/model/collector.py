"""A snapshot from an API server, whichever versions of the resource API it serves."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from dray.api import on_demand
from dray.api.errors import StatusError
from dray.client.client import Client
from dray.client.discovery import Discovery, server_gates
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
    POD_GROUPS,
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
from dray.explain.model.snapshot import Snapshot, SnapshotField

if TYPE_CHECKING:
    from typing import TypedDict

    from dray.api.types import Object
    from dray.api.types.meta import APIGroup

    class VersionInfo(TypedDict, total=False):
        """The part of ``/version`` that counts."""

        major: str
        minor: str
        compiler: str


_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
_RULE_VERSIONS: Final = ("v1beta2", "v1alpha3")
_CLASSIC_VERSIONS: Final = ("v1alpha2", "v1alpha1")
_HUBS: Final = ("v1", "v1alpha2")  # of each generation
#: Field of a snapshot → the resource whose objects it holds.
RESOURCES: Final[Mapping[SnapshotField, Resource[Any]]] = {
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
    "groups": POD_GROUPS,
    "classic_claims": CLASSIC_RESOURCE_CLAIMS,
    "classic_templates": CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    "classic_slices": CLASSIC_RESOURCE_SLICES,
    "resource_classes": CLASSIC_RESOURCE_CLASSES,
    "claim_parameters": RESOURCE_CLAIM_PARAMETERS,
    "class_parameters": RESOURCE_CLASS_PARAMETERS,
    "scheduling_contexts": POD_SCHEDULING_CONTEXTS,
}


async def collect_snapshot(client: Client, *, namespace: str = "") -> Snapshot:
    """All objects that decide who gets which device. Kinds that the user may not read are left out and noted.

    Of kinds that the user may not read in all namespaces, the objects of ``namespace`` are taken.
    """
    discovery = Discovery(client)
    async with asyncio.TaskGroup() as group:
        lists = {
            name: group.create_task(_collected(client, discovery, resource, namespace))
            for name, resource in RESOURCES.items()
        }
        version = group.create_task(release(client))
        gates = group.create_task(feature_gates(client))
    found = {name: task.result() for name, task in lists.items()}
    return Snapshot(
        release=version.result(),
        gates=gates.result(),
        unread=tuple(dict.fromkeys(RESOURCES[name].kind for name, one in found.items() if not one.whole)),
        **{name: one.objects for name, one in found.items()},
    )


class _Found(NamedTuple):
    objects: tuple[Any, ...]
    whole: bool = True  # the user may read all there are


async def _collected(client: Client, discovery: Discovery, resource: Resource[Any], namespace: str) -> _Found:
    """All objects of a resource in the newest shape, as far as the user may read them."""
    served = await served_resource(discovery, resource)
    if served is None:
        return _Found(())
    found = await _list(client, served)
    whole = found is not None
    if found is None and namespace and served.namespaced:
        found = await _list(client, served, namespace)
    return _Found(tuple(map(hub_shape(served), found or ())), whole)


def hub_shape(served: Resource[Any]) -> Callable[[Any], Any]:
    """From an object of a list to the same in the newest shape, with its type and without managedFields."""
    typed: Object = {"apiVersion": served.api_version, "kind": served.kind}

    def shaped(item: Object) -> Object:
        return cast("Object", {**typed, **_without_managed_fields(item)})

    old = served.version not in _HUBS and served.plural != DEVICE_TAINT_RULES.plural
    if served.group != RESOURCE_SLICES.group or not old:
        return shaped
    from dray.explain.model.manifests import newest

    return lambda item: newest(shaped(item))


async def served_resource(discovery: Discovery, resource: Resource[Any]) -> Resource[Any] | None:
    """A resource in the newest version that the server has; None if it has none."""
    if resource is POD_GROUPS:
        return resource if await discovery.serves(resource) else None
    if resource.group != RESOURCE_SLICES.group:
        return resource
    if resource is DEVICE_TAINT_RULES:
        return await discovery.first_served(resource, _RULE_VERSIONS)
    if resource.version not in _CLASSIC_VERSIONS:
        return await discovery.first_served(resource, _VERSIONS)
    if resource is POD_SCHEDULING_CONTEXTS and not await discovery.serves(resource):
        return POD_SCHEDULINGS if await discovery.serves(POD_SCHEDULINGS) else None
    return await discovery.first_served(resource, _CLASSIC_VERSIONS)


async def serves_claims(client: Client) -> bool:
    """Whether the server has claims of any generation: none where DRA is switched off."""
    discovery = Discovery(client)
    every_version = (*_VERSIONS, *_CLASSIC_VERSIONS)
    return await discovery.first_served(RESOURCE_CLAIMS, every_version) is not None


async def device_state_resources(client: Client) -> list[Resource[Any]]:
    """The resources that change when devices change their state, in the versions that the server has."""
    discovery = Discovery(client)
    resources = (RESOURCE_CLAIMS, RESOURCE_SLICES, DEVICE_TAINT_RULES)
    return [served for one in resources if (served := await served_resource(discovery, one)) is not None]


async def _list(client: Client, resource: Resource[Any], namespace: str = "") -> tuple[Any, ...] | None:
    """None: the user may not read them."""
    labels, fields = selectors(resource)
    try:
        return tuple(
            (await client.list(resource, namespace, field_selector=fields, label_selector=labels)).items
        )
    except StatusError as error:
        if error.code == 404:
            return ()
        if error.code == 403:
            return None
        raise


def selectors(resource: Resource[Any]) -> tuple[str, str]:
    """The label selector and the field selector of the objects that a snapshot holds."""
    if resource is EVENTS:
        return "", "type=Warning"
    return (on_demand.LABEL if resource is CONFIGMAPS else ""), ""


def _without_managed_fields(item: Object) -> Object:
    """The object without managedFields, which is half of it."""
    metadata = item["metadata"].copy()
    metadata.pop("managedFields", None)
    return {**item, "metadata": metadata}


async def release(client: Client) -> str:
    """The release of the server, such as 1.36; empty if it does not say, or is a dray that emulates none."""
    try:
        version: VersionInfo = (await client.request("GET", "/version")).object
        if version.get("compiler", "gc") != "gc" and await _serves_every_generation(client):
            return ""
    except StatusError:
        return ""
    return f"{version.get('major', '1')}.{re.sub(r'[^0-9]', '', version.get('minor', ''))}"


async def _serves_every_generation(client: Client) -> bool:
    """Whether today's claims and classic ones are served at once, as no release does."""
    group: APIGroup = (await client.request("GET", f"/apis/{RESOURCE_CLAIMS.group}")).object
    served = {version["version"] for version in group.get("versions") or ()}
    return served >= {RESOURCE_CLAIMS.version, CLASSIC_RESOURCE_CLAIMS.version}


async def feature_gates(client: Client) -> frozenset[str] | None:
    """The feature gates that are on according to the server's metrics, which only administrators may read."""
    return frozenset(name for name, on in (await server_gates(client)).items() if on) or None
