"""Binding conditions of devices: whether the devices of an allocated claim have been made ready for their node.

A driver reports the conditions in ``status.devices`` of the claim (KEP-5007).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.api import claims, times
from dray.api.validation.field import quote

if TYPE_CHECKING:
    from dray.api.types.resource import AllocationResult, ResourceClaim


@dataclass(frozen=True, slots=True)
class Failed:
    message: str


@dataclass(frozen=True, slots=True)
class Waiting:
    pass


@dataclass(frozen=True, slots=True)
class Ready:
    pass


def wants_binding_conditions(claim: ResourceClaim) -> bool:
    allocation = claims.allocation(claim)
    return allocation is not None and has_binding_conditions(allocation)


def has_binding_conditions(allocation: AllocationResult) -> bool:
    """Whether a device of an allocation must be made ready for its node."""
    for result in (allocation.get("devices") or {}).get("results") or ():
        if result.get("bindingConditions"):
            return True
    return False


def binding_state(claim: ResourceClaim) -> Ready | Waiting | Failed:
    """Whether every allocated device that must be made ready for its node has been."""
    allocation = claims.allocation(claim)
    if allocation is None:
        return Waiting()
    reported = {
        (d.get("driver"), d.get("pool"), d.get("device")): d
        for d in (claim.get("status") or {}).get("devices") or ()
    }
    for result in (allocation.get("devices") or {}).get("results") or ():
        wanted = result.get("bindingConditions")
        if not wanted:
            continue
        device = reported.get((result["driver"], result["pool"], result["device"]))
        if device is None:
            return Waiting()
        conditions = {c["type"]: c for c in device.get("conditions") or ()}
        for name in result.get("bindingFailureConditions") or ():
            condition = conditions.get(name)
            if condition is not None and condition.get("status") == "True":
                return Failed(
                    f"device binding failed: claim={claim['metadata']['name']}, reason={condition.get('reason', '')}, "
                    f"message={quote(condition.get('message', ''))}"
                )
        for name in wanted:
            condition = conditions.get(name)
            if condition is None or condition.get("status") != "True":
                return Waiting()
    return Ready()


def timed_out(claim: ResourceClaim, limit: float, now: float) -> bool:
    """Whether the devices of a claim have been waited for longer than ``limit`` seconds."""
    allocation = claims.allocation(claim)
    allocated = allocation.get("allocationTimestamp") if allocation is not None else None
    if not allocated or not wants_binding_conditions(claim):
        return False
    return times.to_epoch(allocated) + limit < now
