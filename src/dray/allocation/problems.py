"""Allocation problems as single documents, for conformance runs and for asking "what if" from a file."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from dray.allocation.allocator import CANNOT_ALLOCATE, Plan, Unallocatable, allocate
from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.inventory import Inventory
from dray.allocation.usage import Usage
from dray.api.identity import DeviceID, Document


def solve(
    problem: Document, *, release: int = 36, clock: Callable[[], float] = time.perf_counter
) -> dict[str, Any]:
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


def _allocate(problem: Document, release: int) -> Plan | Unallocatable:
    inventory = Inventory(classes=problem.get("deviceClasses") or ())
    for position, document in enumerate(problem.get("resourceSlices") or ()):
        inventory.add_slice(document, key=str(position))  # names need not be unique here
    usage = Usage()
    for device in problem.get("allocatedDevices") or ():
        usage.take(DeviceID(device["driver"], device["pool"], device["device"]))
    for share in problem.get("allocatedShares") or ():
        *device, share_id = share.split("/")
        usage.share(DeviceID(*device), share_id)
    for entry in problem.get("consumedCapacity") or ():
        usage.consume(DeviceID(entry["driver"], entry["pool"], entry["device"]), entry.get("capacity") or {})
    shares = iter(range(1 << 30))
    return allocate(
        inventory,
        usage,
        problem["node"],
        problem.get("claims") or (),
        features=Features.named(problem.get("features") or (), release=release),
        new_share_id=lambda: f"share-{next(shares)}",
    )
