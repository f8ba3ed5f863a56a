"""Columns of the resource.k8s.io kinds. Their descriptions go over the wire and are upstream's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dray.api.scheme.kinds import Column
from dray.api.scheme.printers import AGE, NAME, age, name, printer, since

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceTaintRule, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicResourceClaim
    from dray.api.types.resource_v1alpha3 import ResourcePoolStatusRequest

STATE = Column("State", description="A summary of the current state (allocated, pending, reserved, etc.).")

_NODE = Column(
    "Node",
    description=(
        "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list "
        "only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to limit access from nodes "
        "to ResourceSlices with the same node name. It also indicates to autoscalers that adding new nodes of the same "
        "type as some old node might also make new resources available.\n\nExactly one of NodeName, NodeSelector, "
        "AllNodes, and PerDeviceNodeSelection must be set. This field is immutable."
    ),
)
_DRIVER = Column(
    "Driver",
    description=(
        "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list "
        "only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and should end with a DNS "
        "domain owned by the vendor of the driver. It should use only lower case characters. This field is immutable."
    ),
)
_POOL = Column(
    "Pool",
    description=(
        "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not "
        "required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS sub-domains "
        "separated by slashes. This field is immutable."
    ),
)
_KEY = Column("Key", description="The taint key to be applied to a device. Must be a label name.")
_VALUE = Column("Value", description="The taint value corresponding to the taint key. Must be a label value.")
_EFFECT = Column(
    "Effect",
    description=(
        "The effect of the taint on claims that do not tolerate the taint and through such claims on the pods using "
        "them.\n\nValid effects are None, NoSchedule and NoExecute. PreferNoSchedule as used for nodes is not valid "
        "here. More effects may get added in the future. Consumers must treat unknown effects like None."
    ),
)
_TIME_ADDED = Column(
    "TimeAdded",
    description=(
        "TimeAdded represents the time at which the taint was added or (only in a DeviceTaintRule) the effect was "
        "modified. Added automatically during create or update if not set.\n\nIn addition, in a DeviceTaintRule a "
        "value provided during an update gets replaced with the current time if the provided value is the same as the "
        "old one and the new effect is different. Changing the key and/or value while keeping the effect unchanged is "
        "possible and does not update the time stamp because the eviction which uses it is either already started "
        "(NoExecute) or not started yet (NoEffect, NoSchedule)."
    ),
)
_COUNTS = tuple(
    Column(title, description=f"Number of {title.lower()} devices across all pools.")
    for title in ("Available", "Allocated", "Unavailable")
)


def claim_state(claim: ResourceClaim | ClassicResourceClaim) -> str:
    """``pending``, ``allocated``, ``allocated,reserved``, with ``deleted`` in front while a claim goes away."""
    states = []
    deleting = claim["metadata"].get("deletionTimestamp") is not None
    status = claim.get("status") or {}
    if deleting:
        states.append("deleted")
    if status.get("allocation") is None:
        if not deleting:
            states.append("pending")
    else:
        states.append("allocated")
        if status.get("reservedFor"):
            states.append("reserved")
    return ",".join(states)


def _slice(obj: ResourceSlice, now: float) -> Sequence[Any]:
    spec = obj.get("spec") or {}
    pool = (spec.get("pool") or {}).get("name", "")
    return name(obj), spec.get("nodeName") or "", spec.get("driver", ""), pool, age(obj, now)


def _taint_rule(obj: DeviceTaintRule, now: float) -> Sequence[Any]:
    taint = (obj.get("spec") or {}).get("taint") or {}
    added = since(taint.get("timeAdded"), now)
    return (
        name(obj),
        taint.get("key", ""),
        taint.get("value", ""),
        taint.get("effect", ""),
        added,
        age(obj, now),
    )


def _pool_status(obj: ResourcePoolStatusRequest, now: float) -> Sequence[Any]:
    status = obj.get("status")
    cells = [name(obj), (obj.get("spec") or {}).get("driver", "")]
    if status is None:
        return [*cells, "-", "-", "-", "-", "-", 0, "Pending", "<none>"]
    pools, count = status.get("pools") or (), status.get("poolCount") or 0
    outcome, completed = "Pending", "<none>"
    for condition in status.get("conditions") or ():
        if condition.get("status") == "True" and condition.get("type") in ("Complete", "Failed"):
            outcome = condition["type"]
            break
    if outcome == "Failed":
        return [*cells, "-", "-", "-", "-", "-", count, outcome, completed]
    if outcome == "Complete":
        completed = since(condition.get("lastTransitionTime"), now)
        if count > len(pools):
            outcome = f"Complete ({len(pools)}/{count} pools)"
    sums = (
        str(sum(pool.get(part) or 0 for pool in pools))
        for part in ("totalDevices", "availableDevices", "allocatedDevices", "unavailableDevices")
    )
    errors = str(sum(pool.get("validationError") is not None for pool in pools))
    return [*cells, *sums, errors, count, outcome, completed]


CLAIM = printer((NAME, STATE, AGE), lambda obj, now: (name(obj), claim_state(obj), age(obj, now)))
SLICE = printer((NAME, _NODE, _DRIVER, _POOL, AGE), _slice)
TAINT_RULE = printer((NAME, _KEY, _VALUE, _EFFECT, _TIME_ADDED, AGE), _taint_rule)
POOL_STATUS = printer(
    (
        NAME,
        Column("Driver", description="The driver to query pools for."),
        Column("Total", description="Total number of devices across all pools."),
        *_COUNTS,
        Column("Errors", description="Number of pools with validation errors."),
        Column("Pools", "integer", description="Total number of matching pools."),
        Column("Status", description="Processing status."),
        Column("Completed", description="Time since the observation completed."),
    ),
    _pool_status,
)
