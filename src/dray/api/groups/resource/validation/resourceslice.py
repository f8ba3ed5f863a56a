"""ResourceSlices: the pool, the nodes, shared counters, and all devices together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api.golang import structs
from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.counters import counter_set
from dray.api.groups.resource.validation.device import device, is_advanced
from dray.api.release import Gates
from dray.api.validation import field
from dray.api.validation.field import Path
from dray.api.validation.nodeselectors import check_node_selector

if TYPE_CHECKING:
    from dray.api.types.resource import Device, ResourcePool, ResourceSliceSpec

_ONE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)


def slice_spec(
    spec: ResourceSliceSpec, old: ResourceSliceSpec | None, path: Path, gates: Gates, errs: Errors
) -> None:
    driver, pool = spec.get("driver", ""), spec.get("pool") or {}
    checks.driver_name(driver, path.child("driver"), errs)
    _pool(pool, path.child("pool"), errs)
    if old is not None:
        was = (old.get("pool") or {}).get("name", "")
        checks.immutable(pool.get("name", ""), was, path.child("pool", "name"), errs)
        checks.immutable(driver, old.get("driver", ""), path.child("driver"), errs)
        checks.immutable(spec.get("nodeName"), old.get("nodeName"), path.child("nodeName"), errs)
    _nodes(spec, path, errs)
    devices, counters = spec.get("devices"), spec.get("sharedCounters")
    if devices is not None and counters is not None:
        errs.append(field.invalid(path, "", "only one of `sharedCounters` or `devices` is allowed"))
    if devices:
        _devices(devices, spec, old, path, gates, errs)
    if counters and checks.within(counters, limits.COUNTER_SETS, path, "sharedCounters", errs):
        for i, value in enumerate(counters):
            counter_set(value, path.child("sharedCounters").index(i), errs)
        checks.unique((c.get("name", "") for c in counters), path, "sharedCounters", errs)
    skip_node_operations(spec.get("skipNodeOperations"), path, errs)
    if (attribute := spec.get("partitionTypeAttribute")) is not None:
        _partition_type(attribute, devices or (), driver, path, errs)


def _partition_type(attribute: str, devices: Sequence[Device], driver: str, path: Path, errs: Errors) -> None:
    """Every device that consumes counters says of which type of partition it is; the name may be without the driver."""
    at = path.child("partitionTypeAttribute")
    checks.fully_qualified_name(attribute, at, errs)
    domain, slash, name = attribute.partition("/")
    if not slash:
        return
    consumers = [(i, one) for i, one in enumerate(devices) if one.get("consumesCounters")]
    if not consumers:
        problem = "may only be set on a slice which declares devices that consume counters"
        errs.append(field.invalid(at, attribute, problem))
    for i, one in consumers:
        attributes = one.get("attributes") or {}
        here = path.child("devices").index(i).child("attributes").key(attribute)
        value = attributes.get(attribute) or (attributes.get(name) if domain == driver else None)
        if value is None:
            problem = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            errs.append(field.required(here, problem))
        elif value.get("string") is None:
            problem = "must be a string value because `partitionTypeAttribute` names this attribute"
            errs.append(field.invalid(here, structs.render("resource/v1.DeviceAttribute", value), problem))


def skip_node_operations(listed: Sequence[str] | None, path: Path, errs: Errors) -> None:
    """Which calls to the driver on the node may be left out."""
    if not listed:
        return
    here = path.child("skipNodeOperations")
    if "NodePrepareResources" in listed and not {"NodeUnprepareResources", "*"} & set(listed):
        problem = "NodePrepareResources cannot be skipped unless NodeUnprepareResources is also skipped"
        errs.append(field.invalid(here, list(listed), problem))
    known = ("*", "NodePrepareResources", "NodeUnprepareResources")
    for i, operation in enumerate(listed):
        if operation not in known:
            errs.append(field.not_supported(here.index(i), operation, known))
    checks.unique(listed, path, "skipNodeOperations", errs)


def _pool(pool: ResourcePool, path: Path, errs: Errors) -> None:
    checks.pool_name(pool.get("name", ""), path.child("name"), errs)
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errs.append(field.invalid(path.child("resourceSliceCount"), count, "must be greater than zero"))
    if generation < 0:
        problem = "must be greater than or equal to zero"
        errs.append(field.invalid(path.child("generation"), generation, problem))


def _nodes(spec: ResourceSliceSpec, path: Path, errs: Errors) -> None:
    given = []
    node = spec.get("nodeName")
    if node:
        given.append("`nodeName`")
        checks.node_name(node, path.child("nodeName"), errs)
    elif node is not None:
        problem = "must be either unset or set to a non-empty string"
        errs.append(field.invalid(path.child("nodeName"), node, problem))
    selector = spec.get("nodeSelector")
    if selector is not None:
        given.append("`nodeSelector`")
        errs += check_node_selector(selector, path.child("nodeSelector"))
        terms = selector.get("nodeSelectorTerms")
        if len(terms or ()) != 1:
            # One term only: selectors of several slices must be easy to merge.
            here = path.child("nodeSelector", "nodeSelectorTerms")
            errs.append(field.invalid(here, terms, "must have exactly one node selector term"))
    for name in ("allNodes", "perDeviceNodeSelection"):
        flag = spec.get(name)
        if flag:
            given.append(f"`{name}`")
        elif flag is not None:
            errs.append(field.invalid(path.child(name), flag, "must be either unset or set to true"))
    if not given:
        errs.append(field.required(path, _ONE_NODE_FIELD))
    elif len(given) > 1:
        problem = f"{_ONE_NODE_FIELD}, but multiple fields are set"
        errs.append(field.invalid(path, f"{{{', '.join(given)}}}", problem))


def _devices(
    devices: Sequence[Device],
    spec: ResourceSliceSpec,
    old: ResourceSliceSpec | None,
    path: Path,
    gates: Gates,
    errs: Errors,
) -> None:
    limit = limits.DEVICES
    if len(devices) > limits.DEVICES_WITH_ADVANCED_FEATURES and any(map(is_advanced, devices)):
        limit = limits.DEVICES_WITH_ADVANCED_FEATURES
    if not checks.within(devices, limit, path, "devices", errs):
        return
    before = {d.get("name", ""): d for d in reversed((old or {}).get("devices") or ())}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    here = path.child("devices")
    for i, value in enumerate(devices):
        device(value, before.get(value.get("name", "")), here.index(i), gates, errs, per_device=per_device)
    checks.unique((d.get("name", "") for d in devices), path, "devices", errs)
