"""ResourceClassParameters for the classes of 1.30 that refer to ClaimParameters: the scheduler reads nothing else.

They restrict what claims of the class get, whatever the parameters of the claim say.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import CLASSIC_RESOURCE_CLASSES, RESOURCE_CLASS_PARAMETERS
from dray.client.workqueue import WorkQueue
from dray.drivers.cats.inventory import DRIVER, CatSelector, ClaimParameters
from dray.drivers.cats.parameters import CLAIM_PARAMETERS, GROUP, KIND, Key, owner_of, selector_of

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceClass, ResourceClassParameters


def class_parameters_for(origin: ClaimParameters) -> ResourceClassParameters:
    metadata = origin["metadata"]
    reference = {
        "apiGroup": GROUP,
        "kind": KIND,
        "name": metadata["name"],
        "namespace": metadata["namespace"],
    }
    return {
        "metadata": {
            "name": f"{metadata['name']}.class",
            "namespace": metadata["namespace"],
            "ownerReferences": [owner_of(origin)],
        },
        "generatedFrom": reference,  # type: ignore[typeddict-item]
        "filters": [
            {"driverName": DRIVER, "namedResources": {"selector": selector_of(CatSelector.of(origin))}}
        ],
    }


async def generate(client: Client) -> None:
    """Keep them in step with the ClaimParameters that classes refer to, until cancelled."""
    informers = Informers(client)
    queue: WorkQueue[Key] = WorkQueue()
    classes, origins = informers.get(CLASSIC_RESOURCE_CLASSES), informers.get(CLAIM_PARAMETERS)
    generated = informers.get(RESOURCE_CLASS_PARAMETERS)
    classes.add_handler(
        on_add=lambda new: queue.add(_referred(new)), on_update=lambda old, new: queue.add(_referred(new))
    )
    origins.add_handler(
        on_add=lambda new: queue.add(_key(new)), on_update=lambda old, new: queue.add(_key(new))
    )

    async def sync(key: Key) -> None:
        origin = origins.get(key.namespace, key.name)
        if origin is None or not any(_referred(one) == key for one in classes.items()):
            return
        wanted = class_parameters_for(origin)
        there = generated.get(key.namespace, wanted["metadata"]["name"])
        if there is None:
            await client.create_if_missing(RESOURCE_CLASS_PARAMETERS, key.namespace, wanted)
        elif there.get("filters") != wanted["filters"]:
            changed: ResourceClassParameters = {**there, "filters": wanted["filters"]}
            await client.update(RESOURCE_CLASS_PARAMETERS, key.namespace, changed)

    async with informers, asyncio.TaskGroup() as tasks:
        await informers.synced()
        tasks.create_task(queue.run(sync))


def _key(document: ClaimParameters) -> Key:
    return Key(document["metadata"]["namespace"], document["metadata"]["name"])


def _referred(resource_class: ResourceClass) -> Key:
    """The ClaimParameters that a structured class of this driver refers to; empty if there are none."""
    reference = resource_class.get("parametersRef") or {}
    ours = resource_class.get("driverName") == DRIVER and resource_class.get("structuredParameters")
    if not ours or reference.get("apiGroup") != GROUP or reference.get("kind") != KIND:
        return Key("", "")
    return Key(reference.get("namespace") or "", reference["name"])
