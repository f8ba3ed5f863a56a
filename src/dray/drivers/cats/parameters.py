"""``ClaimParameters`` of ``cats.resource.example.com``: the driver's own kind, and what 1.30's scheduler makes of it.

With structured parameters the scheduler reads ResourceClaimParameters. Users need not write them: for every ClaimParameters
the driver keeps one that was generated from it, unless somebody else has written one already.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from dray.api.errors import AlreadyExists, NotFound
from dray.api.kinds import Object
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.queues import WorkQueue
from dray.client.resources import RESOURCE_CLAIM_PARAMETERS, Resource
from dray.drivers.cats.animals import DRIVER, Wish

GROUP: Final = "cats.resource.example.com"
KIND: Final = "ClaimParameters"
CLAIM_PARAMETERS: Final = Resource(GROUP, "v1", "claimparameters", KIND)

_SPEC: Final = {"color": {"type": "string"}, "size": {"type": "string", "enum": ["small", "large"]}}
DEFINITION: Final[Object] = {
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
                    {"name": name.capitalize(), "type": "string", "jsonPath": f".spec.{name}"}
                    for name in _SPEC
                ],
            }
        ],
    },
}


class Key(NamedTuple):
    namespace: str
    name: str


def parameters_for(claim_parameters: Mapping[str, Any]) -> Object:
    """The ResourceClaimParameters that the scheduler finds through ``generatedFrom``."""
    metadata, wish = claim_parameters["metadata"], Wish.of(claim_parameters)
    asked = {"color": wish.color, "size": wish.size}
    terms = [f'attributes.string["{name}"] == "{value}"' for name, value in asked.items() if value]
    request = {"namedResources": {"selector": " && ".join(terms) or "true"}}
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [
                {
                    "apiVersion": CLAIM_PARAMETERS.api_version,
                    "kind": KIND,
                    "name": metadata["name"],
                    "uid": metadata["uid"],
                }
            ],
        },
        "generatedFrom": {"apiGroup": GROUP, "kind": KIND, "name": metadata["name"]},
        "driverRequests": [{"driverName": DRIVER, "requests": [request]}],
    }


async def generate(client: Client) -> None:
    """Keep generated parameters in step with their origins until cancelled. They go with them by their owner."""
    informers = Informers(client)
    queue: WorkQueue[Key] = WorkQueue()
    origins, generated = informers.get(CLAIM_PARAMETERS), informers.get(RESOURCE_CLAIM_PARAMETERS)
    origins.add_handler(
        on_add=lambda new: queue.add(_key(new)), on_update=lambda old, new: queue.add(_key(new))
    )
    generated.add_handler(on_delete=lambda old: queue.add(_origin(old)))

    async def sync(key: Key) -> None:
        origin = origins.get(key.namespace, key.name)
        if origin is None or "deletionTimestamp" in origin["metadata"]:
            return
        wanted = parameters_for(origin)
        there = [p for p in generated.items() if _origin(p) == key and _is_generated(p)]
        if not there:
            await _create(client, key.namespace, wanted)
        for found in there:
            mine = found["metadata"].get("ownerReferences") == wanted["metadata"]["ownerReferences"]
            if mine and found["driverRequests"] != wanted["driverRequests"]:
                changed = {**found, "driverRequests": wanted["driverRequests"]}
                await client.update(RESOURCE_CLAIM_PARAMETERS, key.namespace, changed)

    async with informers, asyncio.TaskGroup() as tasks:
        await informers.synced()
        tasks.create_task(queue.run(sync))


async def _create(client: Client, namespace: str, wanted: Object) -> None:
    try:
        await client.create(RESOURCE_CLAIM_PARAMETERS, namespace, wanted)
    except AlreadyExists:
        name = wanted["metadata"]["name"]
        found = await client.get(RESOURCE_CLAIM_PARAMETERS, namespace, name)
        if (
            found.get("generatedFrom") != wanted["generatedFrom"]
        ):  # a namesake: what is found by origin needs no name
            metadata = {**wanted["metadata"], "generateName": f"{name}-"}
            del metadata["name"]
            await client.create(RESOURCE_CLAIM_PARAMETERS, namespace, {**wanted, "metadata": metadata})
    except NotFound:
        return  # the namespace is gone


def _is_generated(parameters: Object) -> bool:
    origin = parameters.get("generatedFrom") or {}
    return origin.get("apiGroup") == GROUP and origin.get("kind") == KIND


def _key(document: Object) -> Key:
    return Key(document["metadata"]["namespace"], document["metadata"]["name"])


def _origin(parameters: Object) -> Key:
    return Key(parameters["metadata"]["namespace"], (parameters.get("generatedFrom") or {}).get("name") or "")
