"""Allocation problems as single documents, for conformance runs and for asking "what if" from a file."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypedDict

from dray.allocation.allocator import CANNOT_ALLOCATE, Plan, Unallocatable, allocate
from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.inventory import Inventory
from dray.allocation.usage import Usage
from dray.api.identity import DeviceID
from dray.api.release import V1_36, Release

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import AllocationResult, DeviceClass, ResourceClaim, ResourceSlice


#: The release whose answers the recorded problems have.
RECORDED_RELEASE = V1_36


class AllocatedDevice(TypedDict):
    driver: str
    pool: str
    device: str


class DeviceConsumption(AllocatedDevice, total=False):
    capacity: Mapping[str, str]


class Problem(TypedDict, total=False):
    """One problem: the cluster, what is allocated in it, and the claims to allocate."""

    name: str
    features: Sequence[str]
    node: Node
    deviceClasses: Sequence[DeviceClass]
    resourceSlices: Sequence[ResourceSlice]
    claims: Sequence[ResourceClaim]
    allocatedDevices: Sequence[AllocatedDevice]
    allocatedShares: Sequence[str]  # driver/pool/device/share
    consumedCapacity: Sequence[DeviceConsumption]


class Answer(TypedDict):
    name: str
    results: list[AllocationResult] | None  # one for each claim; None: there is no allocation
    error: str
    microseconds: int


def solve(
    problem: Problem,
    *,
    release: Release = RECORDED_RELEASE,
    clock: Callable[[], float] = time.perf_counter,
) -> Answer:
    """Answer one problem: its name, one result a claim or null, the error text, and how long it took."""
    started = clock()
    results, error = None, ""
    try:
        outcome = _allocate(problem, release)
    except AllocationError as failure:
        error = failure.message
    else:
        if isinstance(outcome, Plan):
            results = outcome.results
        elif outcome.message != CANNOT_ALLOCATE:
            error = outcome.message
    return {
        "name": problem.get("name", ""),
        "results": results,
        "error": error,
        "microseconds": round((clock() - started) * 1e6),
    }


def _allocate(problem: Problem, release: Release) -> Plan | Unallocatable:
    inventory = Inventory(classes=problem.get("deviceClasses") or ())
    for position, document in enumerate(problem.get("resourceSlices") or ()):
        inventory.add_slice(document, key=str(position))  # names need not be unique here
    usage = Usage()
    for device in problem.get("allocatedDevices") or ():
        usage.take(DeviceID(device["driver"], device["pool"], device["device"]))
    for share in problem.get("allocatedShares") or ():
        driver, pool, name, share_id = share.split("/")
        usage.share(DeviceID(driver, pool, name), share_id)
    for entry in problem.get("consumedCapacity") or ():
        usage.consume(DeviceID(entry["driver"], entry["pool"], entry["device"]), entry.get("capacity") or {})
    shares = iter(range(1 << 30))
    return allocate(
        inventory,
        usage,
        problem["node"],
        problem.get("claims") or (),
        features=Features.named(release, problem.get("features") or ()),
        new_share_id=lambda: f"share-{next(shares)}",
    )
