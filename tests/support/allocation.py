"""Slices, classes, claims and nodes for the tests, no longer than they need to be."""

from __future__ import annotations

import itertools
from typing import Any

from dray.allocation import Features, Inventory, Plan, Policy, Unallocatable, Usage, allocate
from dray.allocation.policies import DEFAULT
from dray.api.release import V1_36

DRIVER = "gpu.example.com"
EVERYTHING = Features.for_release(
    V1_36,
    admin_access=True,
    binding_conditions=True,
    consumable_capacity=True,
    device_taints=True,
    list_attributes=True,
    partitionable_devices=True,
    prioritized_list=True,
)

Document = dict[str, Any]


def device(name: str, **fields: Any) -> Document:
    """A device; plain values of ``attributes`` get their type."""
    attributes = {key: _typed(value) for key, value in fields.pop("attributes", {}).items()}
    capacity = {
        key: value if isinstance(value, dict) else {"value": value}
        for key, value in fields.pop("capacity", {}).items()
    }
    document: Document = {"name": name, **fields}
    if attributes:
        document["attributes"] = attributes
    if capacity:
        document["capacity"] = capacity
    return document


def _typed(value: Any) -> Document:
    match value:
        case dict():
            return value
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
        case [bool(), *_]:
            return {"bools": value}
        case [int(), *_]:
            return {"ints": value}
        case list():
            return {"strings": value}
        case _:
            return {"string": value}


def draws(counter_set: str, **amounts: int) -> list[Document]:
    return [{"counterSet": counter_set, "counters": {name: {"value": str(n)} for name, n in amounts.items()}}]


def counter_set(name: str, **amounts: int) -> Document:
    return {"name": name, "counters": {counter: {"value": str(n)} for counter, n in amounts.items()}}


def resource_slice(
    *devices: Document,
    name: str = "slice",
    node: str | None = "node",
    pool: str = "pool",
    driver: str = DRIVER,
    generation: int = 1,
    of: int = 1,
    counters: list[Document] | None = None,
    **fields: Any,
) -> Document:
    spec: Document = {
        "driver": driver,
        "pool": {"name": pool, "generation": generation, "resourceSliceCount": of},
        **fields,
    }
    if node is not None:
        spec["nodeName"] = node
    if devices:
        spec["devices"] = list(devices)
    if counters:
        spec["sharedCounters"] = counters
    return {"metadata": {"name": name}, "spec": spec}


def device_class(*selectors: str, name: str = "class", config: list[Document] | None = None) -> Document:
    spec: Document = {"selectors": [{"cel": {"expression": text}} for text in selectors]}
    if config:
        spec["config"] = config
    return {"metadata": {"name": name}, "spec": spec}


def wants(count: int | str = 1, *selectors: str, **fields: Any) -> Document:
    """What an exact request or an alternative asks for."""
    document: Document = {"deviceClassName": fields.pop("cls", "class")}
    if count == "All":
        document["allocationMode"] = "All"
    else:
        document.update(allocationMode="ExactCount", count=count)
    if selectors:
        document["selectors"] = [{"cel": {"expression": text}} for text in selectors]
    return {**document, **fields}


def request(name: str, count: int | str = 1, *selectors: str, **fields: Any) -> Document:
    return {"name": name, "exactly": wants(count, *selectors, **fields)}


def first_available(name: str, **alternatives: Document) -> Document:
    return {
        "name": name,
        "firstAvailable": [{"name": sub, **document} for sub, document in alternatives.items()],
    }


def claim(
    *requests: Document, name: str = "claim", constraints: list[Document] | None = None, **fields: Any
) -> Document:
    devices: Document = {"requests": list(requests), **fields}
    if constraints:
        devices["constraints"] = constraints
    return {"metadata": {"name": name, "namespace": "default"}, "spec": {"devices": devices}}


def node(name: str = "node", **labels: str) -> Document:
    return {"metadata": {"name": name, "labels": labels}}


def inventory(*slices: Document, classes: list[Document] | None = None) -> Inventory:
    return Inventory(slices=slices, classes=classes if classes is not None else [device_class()])


def run(
    stock: Inventory,
    *claims: Document,
    usage: Usage | None = None,
    on: Document | None = None,
    features: Features = EVERYTHING,
    policy: Policy = DEFAULT,
) -> Plan | Unallocatable:
    numbers = itertools.count()
    return allocate(
        stock,
        usage if usage is not None else Usage(),
        on if on is not None else node(),
        claims,
        features=features,
        policy=policy,
        new_share_id=lambda: f"share-{next(numbers)}",
    )


def devices_of(outcome: Plan | Unallocatable) -> list[list[str]]:
    """The names of the devices, claim by claim."""
    assert isinstance(outcome, Plan), outcome
    return [[result["device"] for result in one["devices"].get("results", ())] for one in outcome.results]
