"""``ClaimParameters`` of ``cats.resource.example.com``: the driver's own kind, and the ResourceClaimParameters made from it.

With structured parameters the scheduler of 1.30 reads ResourceClaimParameters. Users need not write them: the driver
generates one for each ClaimParameters. If a user has written one for the same ClaimParameters, the driver deletes its own,
because the scheduler accepts only one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import RESOURCE_CLAIM_PARAMETERS, Resource
from dray.client.workqueue import WorkQueue
from dray.drivers.cats.inventory import DRIVER, CatSelector, ClaimParameters

if TYPE_CHECKING:
    from dray.api.types.apiextensions import CustomResourceDefinition, JSONSchemaProps
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource_v1alpha2 import ResourceClaimParameters, ResourceRequest

GROUP: Final = "cats.resource.example.com"
KIND: Final = "ClaimParameters"
CLAIM_PARAMETERS: Final[Resource[ClaimParameters]] = Resource(GROUP, "v1", "claimparameters", KIND)

_SPEC: Final[Mapping[str, JSONSchemaProps]] = {
    "color": {"type": "string"},
    "size": {"type": "string", "enum": ["small", "large"]},
    "shareable": {"type": "boolean"},
}
DEFINITION: Final[CustomResourceDefinition] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"{CLAIM_PARAMETERS.plural}.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {
            "kind": KIND,
            "listKind": f"{KIND}List",
            "plural": CLAIM_PARAMETERS.plural,
            "singular": CLAIM_PARAMETERS.plural,
        },
        "versions": [
            {
                "name": CLAIM_PARAMETERS.version,
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "properties": {"spec": {"type": "object", "properties": _SPEC}},
                    }
                },
                "additionalPrinterColumns": [
                    {"name": name.capitalize(), "type": schema["type"], "jsonPath": f".spec.{name}"}
                    for name, schema in _SPEC.items()
                ],
            }
        ],
    },
}


class Key(NamedTuple):
    namespace: str
    name: str


def selector_of(wish: CatSelector) -> str:
    """As an expression about the attributes of a named resource."""
    asked = {"color": wish.color, "size": wish.size}
    terms = [f'attributes.string["{name}"] == "{value}"' for name, value in asked.items() if value]
    return " && ".join(terms) or "true"


def owner_of(origin: ClaimParameters) -> OwnerReference:
    metadata = origin["metadata"]
    return {
        "apiVersion": CLAIM_PARAMETERS.api_version,
        "kind": KIND,
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def parameters_for(claim_parameters: ClaimParameters) -> ResourceClaimParameters:
    """The ResourceClaimParameters that the scheduler finds through ``generatedFrom``."""
    metadata, wish = claim_parameters["metadata"], CatSelector.of(claim_parameters)
    request: ResourceRequest = {"namedResources": {"selector": selector_of(wish)}}
    made: ResourceClaimParameters = {
        "metadata": {
            "generateName": f"{metadata['name']}-",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_of(claim_parameters)],
        },
        "generatedFrom": {"apiGroup": GROUP, "kind": KIND, "name": metadata["name"]},
        "driverRequests": [{"driverName": DRIVER, "requests": [request]}],
    }
    if wish.shareable:
        made["shareable"] = True
    return made


async def generate(client: Client) -> None:
    """Keep generated parameters in step with their origins until cancelled. They go with them by their owner."""
    informers = Informers(client)
    queue: WorkQueue[Key] = WorkQueue()
    origins, generated = informers.get(CLAIM_PARAMETERS), informers.get(RESOURCE_CLAIM_PARAMETERS)
    origins.add_handler(
        on_add=lambda new: queue.add(_key(new)), on_update=lambda old, new: queue.add(_key(new))
    )
    generated.add_handler(
        on_add=lambda new: queue.add(_origin(new)), on_delete=lambda old: queue.add(_origin(old))
    )
    written: dict[str, str] = {}  # what no informer has shown yet: its uid by that of its origin

    async def sync(key: Key) -> None:
        origin = origins.get(key.namespace, key.name)
        if origin is None or "deletionTimestamp" in origin["metadata"]:
            return
        wanted, uid = parameters_for(origin), origin["metadata"]["uid"]
        there = [p for p in generated.items() if _origin(p) == key]
        mine = [p for p in there if _owners(p) == _owners(wanted)]
        if any(p["metadata"]["uid"] == written.get(uid) for p in mine):
            del written[uid]
        if len(mine) < len(there):
            for found in mine:
                await client.delete(RESOURCE_CLAIM_PARAMETERS, key.namespace, found["metadata"]["name"])
        elif not mine and uid not in written:
            stored = await client.create(RESOURCE_CLAIM_PARAMETERS, key.namespace, wanted)
            written[uid] = stored["metadata"]["uid"]
        elif mine and _asked(mine[0]) != _asked(wanted):
            changed: ResourceClaimParameters = {
                **mine[0],
                "driverRequests": wanted["driverRequests"],
                "shareable": wanted.get("shareable", False),
            }
            await client.update(RESOURCE_CLAIM_PARAMETERS, key.namespace, changed)

    async with informers, asyncio.TaskGroup() as tasks:
        await informers.synced()
        tasks.create_task(queue.run(sync))


def _asked(parameters: ResourceClaimParameters) -> object:
    return parameters["driverRequests"], parameters.get("shareable", False)


def _owners(parameters: ResourceClaimParameters) -> Sequence[OwnerReference]:
    return parameters["metadata"].get("ownerReferences") or []


def _key(document: ClaimParameters) -> Key:
    return Key(document["metadata"]["namespace"], document["metadata"]["name"])


def _origin(parameters: ResourceClaimParameters) -> Key:
    """The ClaimParameters that it was generated from; an empty name if it was not."""
    origin = parameters.get("generatedFrom") or {}
    ours = origin.get("apiGroup") == GROUP and origin.get("kind") == KIND
    return Key(parameters["metadata"]["namespace"], origin["name"] if ours else "")
