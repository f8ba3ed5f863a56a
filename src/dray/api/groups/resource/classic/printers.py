"""Columns of the classic kinds. Their descriptions go over the wire and are upstream's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dray.api.groups.resource import printers as modern
from dray.api.scheme.kinds import Column
from dray.api.scheme.printers import AGE, NAME, age, name, printer

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        ResourceClaim,
        ResourceClaimParameters,
        ResourceClaimTemplate,
        ResourceClassParameters,
        ResourceSlice,
    )

_CLASS_NAME = Column(
    "ResourceClassName",
    description=(
        "ResourceClassName references the driver and additional parameters via the name of a ResourceClass that was "
        "created as part of the driver deployment."
    ),
)
_MODE = Column(
    "AllocationMode",
    description=(
        "Allocation can start immediately or when a Pod wants to use the resource. "
        '"WaitForFirstConsumer" is the default.'
    ),
)
_DRIVER_NAME = Column(
    "DriverName",
    description=(
        "DriverName defines the name of the dynamic resource driver that is used for allocation of a ResourceClaim "
        "that uses this class.\n\nResource drivers have a unique name in forward domain order (acme.example.com)."
    ),
)
_SELECTED_NODE = Column(
    "SelectedNode",
    description=(
        "SelectedNode is the node for which allocation of ResourceClaims that are referenced by the Pod and that use "
        '"WaitForFirstConsumer" allocation is to be attempted.'
    ),
)
_NODE = Column(
    "Node",
    description=(
        "NodeName identifies the node which provides the resources if they are local to a node.\n\nA field selector "
        "can be used to list only ResourceSlice objects with a certain node name."
    ),
)
_DRIVER = Column(
    "Driver",
    description=(
        "DriverName identifies the DRA driver providing the capacity information. A field selector can be used to "
        "list only ResourceSlice objects with a certain driver name."
    ),
)


def _generated_from(what: str) -> Column:
    return Column(
        "GeneratedFrom",
        description=(
            "If this object was created from some other resource, then this links back to that resource. This field is "
            f"used to find the in-tree representation of the {what} parameters when the parameter reference of the "
            f"{what} refers to some unknown type."
        ),
    )


def claim_state(claim: ResourceClaim) -> str:
    """As for modern claims, and ``deallocating`` while the driver is asked to give the resource back."""
    state, status = modern.claim_state(claim), claim.get("status") or {}
    deleting = claim["metadata"].get("deletionTimestamp") is not None
    unused = status.get("allocation") is not None and not status.get("reservedFor")
    if unused and (deleting or status.get("deallocationRequested")):
        return f"{state},deallocating"
    return state


def _claim(obj: ResourceClaim, now: float) -> Sequence[Any]:
    spec = obj.get("spec") or {}
    wanted = spec.get("resourceClassName", ""), spec.get("allocationMode", "")
    return name(obj), *wanted, claim_state(obj), age(obj, now)


def _template(obj: ResourceClaimTemplate, now: float) -> Sequence[Any]:
    spec = (obj.get("spec") or {}).get("spec") or {}
    return name(obj), spec.get("resourceClassName", ""), spec.get("allocationMode", ""), age(obj, now)


def _pod_scheduling(obj: PodSchedulingContext, now: float) -> Sequence[Any]:
    return name(obj), (obj.get("spec") or {}).get("selectedNode", ""), age(obj, now)


def _slice(obj: ResourceSlice, now: float) -> Sequence[Any]:
    return name(obj), obj.get("nodeName", ""), obj.get("driverName", ""), age(obj, now)


def _parameters(obj: ResourceClaimParameters | ResourceClassParameters, now: float) -> Sequence[Any]:
    source = obj.get("generatedFrom")
    text = ""
    if source is not None:
        text = f"{source.get('kind', '')}.{source.get('apiGroup', '')} {source.get('name', '')}"
    return name(obj), text, age(obj, now)


CLASS = printer(
    (NAME, _DRIVER_NAME, AGE), lambda obj, now: (name(obj), obj.get("driverName", ""), age(obj, now))
)
CLAIM = printer((NAME, _CLASS_NAME, _MODE, modern.STATE, AGE), _claim)
TEMPLATE = printer((NAME, _CLASS_NAME, _MODE, AGE), _template)
POD_SCHEDULING = printer((NAME, _SELECTED_NODE, AGE), _pod_scheduling)
SLICE = printer((NAME, _NODE, _DRIVER, AGE), _slice)
CLAIM_PARAMETERS = printer((NAME, _generated_from("claim"), AGE), _parameters)
CLASS_PARAMETERS = printer((NAME, _generated_from("class"), AGE), _parameters)
