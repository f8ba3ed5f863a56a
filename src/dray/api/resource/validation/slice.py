"""ResourceSlices: pools, devices with attributes and capacities, counters, node selection."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from dray.api import field
from dray.api.field import Path
from dray.api.kinds import Object
from dray.api.names import size
from dray.api.quantity import Quantity
from dray.api.resource import limits
from dray.api.resource.validation import checks
from dray.api.resource.validation.capacity import request_policy
from dray.api.resource.validation.checks import Errors
from dray.api.resource.validation.node_selector import node_selector
from dray.api.resource.validation.taints import taint

_EMPTY: Final[Mapping[str, Any]] = {}
_LISTS: Final = ("bools", "ints", "strings", "versions")
_ONE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
)
_ONE_DEVICE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)


def slice_spec(spec: Object, old: Object | None, path: Path, errs: Errors) -> None:
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
        _devices(devices, spec, old, path, errs)
    if counters and checks.within(counters, limits.COUNTER_SETS, path, "sharedCounters", errs):
        for i, counter_set in enumerate(counters):
            _counter_set(counter_set, path.child("sharedCounters").index(i), errs)
        checks.unique((c.get("name", "") for c in counters), path, "sharedCounters", errs)
    skip_node_operations(spec.get("skipNodeOperations"), path, errs)


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


def binding_conditions(parent: Mapping[str, Any], path: Path, errs: Errors) -> None:
    """What a device waits for before its pod is bound, and what makes that fail: both or none."""
    wanted, failures = parent.get("bindingConditions"), parent.get("bindingFailureConditions")
    if not wanted and not failures:
        return
    for child, listed in (("bindingConditions", wanted or ()), ("bindingFailureConditions", failures or ())):
        if checks.within(listed, limits.BINDING_CONDITIONS, path, child, errs):
            for i, condition in enumerate(listed):
                checks.label_key(condition, path.child(child).index(i), errs)
    checks.unique(wanted or (), path, "bindingConditions", errs)
    seen = set()
    here = path.child("bindingFailureConditions")
    for i, condition in enumerate(failures or ()):
        if condition in seen:
            errs.append(field.duplicate(here.index(i), condition))
        seen.add(condition)
        if condition in (wanted or ()):
            problem = "bindingFailureConditions must not overlap with bindingConditions"
            errs.append(field.invalid(here.index(i), condition, problem))
    if not wanted:
        problem = "bindingConditions are required to use bindingFailureConditions"
        errs.append(field.invalid(path.child("bindingConditions"), wanted, problem))
    if not failures:
        problem = "bindingFailureConditions are required to use bindingConditions"
        errs.append(field.invalid(here, failures, problem))


def _pool(pool: Mapping[str, Any], path: Path, errs: Errors) -> None:
    checks.pool_name(pool.get("name", ""), path.child("name"), errs)
    count, generation = pool.get("resourceSliceCount", 0), pool.get("generation", 0)
    if count <= 0:
        errs.append(field.invalid(path.child("resourceSliceCount"), count, "must be greater than zero"))
    if generation < 0:
        problem = "must be greater than or equal to zero"
        errs.append(field.invalid(path.child("generation"), generation, problem))


def _nodes(spec: Mapping[str, Any], path: Path, errs: Errors) -> None:
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
        node_selector(selector, path.child("nodeSelector"), errs)
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
    devices: Sequence[Any], spec: Mapping[str, Any], old: Object | None, path: Path, errs: Errors
) -> None:
    advanced = any(_is_advanced(device) for device in devices)
    limit = limits.DEVICES_WITH_ADVANCED_FEATURES if advanced else limits.DEVICES
    if not checks.within(devices, limit, path, "devices", errs):
        return
    before = {d.get("name", ""): d for d in reversed((old or {}).get("devices") or ())}
    per_device = bool(spec.get("perDeviceNodeSelection"))
    here = path.child("devices")
    for i, device in enumerate(devices):
        _device(device, before.get(device.get("name", "")), here.index(i), errs, per_device=per_device)
    checks.unique((d.get("name", "") for d in devices), path, "devices", errs)


def _is_advanced(device: Mapping[str, Any]) -> bool:
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(
        attribute.get(name) is not None
        for attribute in (device.get("attributes") or _EMPTY).values()
        for name in _LISTS
    )


def _device(
    device: Mapping[str, Any], old: Mapping[str, Any] | None, path: Path, errs: Errors, *, per_device: bool
) -> None:
    checks.label(device.get("name", ""), path, "name", errs)
    attributes, capacity = device.get("attributes") or _EMPTY, device.get("capacity") or _EMPTY
    total = len(attributes) + len(capacity)
    if total > limits.ATTRIBUTES_AND_CAPACITIES:
        problem = f"the total number of attributes and capacities must not exceed {limits.ATTRIBUTES_AND_CAPACITIES}"
        errs.append(field.invalid(path, total, problem))
    values = sum(_value_count(attribute) for attribute in attributes.values())
    if values > limits.ATTRIBUTE_VALUES:
        problem = f"the total number of attribute values must not exceed {limits.ATTRIBUTE_VALUES}"
        errs.append(field.invalid(path, values, problem))
    for name, attribute in attributes.items():
        if not checks.is_plain_name(name):
            checks.qualified_name(name, path.child("attributes"), errs)
        _attribute(attribute, name, path, errs)
    _capacities(capacity, path, errs, shared=bool(device.get("allowMultipleAllocations")))
    taints = device.get("taints")
    if taints and (
        (old is None or not checks.equal(old.get("taints"), taints))
        and checks.within(taints, limits.TAINTS, path, "taints", errs)
    ):
        for i, item in enumerate(taints):
            taint(item, None, path.child("taints").index(i), errs)
    if consumptions := device.get("consumesCounters"):
        _consumptions(consumptions, path, errs)
    _device_nodes(device, path, errs, per_device=per_device)
    binding_conditions(device, path, errs)
    if mappings := device.get("nodeAllocatableResourceMappings"):
        _resource_mappings(mappings, capacity, path.child("nodeAllocatableResourceMappings"), errs)
    if mappings := device.get("nodeAllocatableResources"):
        _node_resources(mappings, capacity, path.child("nodeAllocatableResources"), errs)


def _value_count(attribute: Mapping[str, Any]) -> int:
    if len(attribute) == 1:
        ((_, value),) = attribute.items()
        return len(value) or 1 if isinstance(value, list) else 1
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


_IDENTIFIER = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
is_version = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch


def _attribute(attribute: Mapping[str, Any], name: str, device: Path, errs: Errors) -> None:
    """Exactly one value. ``device`` is where the device is: the attribute's own path is seldom needed."""
    if len(attribute) == 1:
        if attribute.get("int") is not None or attribute.get("bool") is not None:
            return
        text = attribute.get("string")
        if text is not None and len(text) <= limits.ATTRIBUTE_VALUE and text.isascii():
            return
    path = device.child("attributes").key(checks.short_key(name, checks.QUALIFIED_KEY))
    given = sum(attribute.get(kind) is not None for kind in ("int", "bool"))
    for kind, check in (("string", _string), ("version", _version)):
        if (value := attribute.get(kind)) is not None:
            given += 1
            check(value, path.child(kind), errs)
    for kind in _LISTS:
        if (listed := attribute.get(kind)) is None:
            continue
        given += 1
        if not listed:
            errs.append(field.invalid(path.child(kind), listed, "must not be empty if specified"))
        check = {"strings": _string, "versions": _version}.get(kind, _anything)
        for i, item in enumerate(listed):
            check(item, path.child(kind).index(i), errs)
    if given != 1:
        errs.append(field.invalid(path, attribute if given else "", "exactly one value must be specified"))


def _anything(value: Any, path: Path, errs: Errors) -> None:
    pass


def _string(value: str, path: Path, errs: Errors) -> None:
    if size(value) > limits.ATTRIBUTE_VALUE:
        errs.append(field.too_long(path, limits.ATTRIBUTE_VALUE))


def _version(value: str, path: Path, errs: Errors) -> None:
    if not is_version(value):
        errs.append(field.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    _string(value, path, errs)


def _capacities(capacities: Mapping[str, Any], device: Path, errs: Errors, *, shared: bool) -> None:
    for name, capacity in capacities.items():
        if not checks.is_plain_name(name):
            checks.qualified_name(name, device.child("capacity"), errs)
        policy = capacity.get("requestPolicy")
        if policy is None:
            continue
        path = (
            device.child("capacity").key(checks.short_key(name, checks.QUALIFIED_KEY)).child("requestPolicy")
        )
        if shared:
            request_policy(capacity.get("value", "0"), policy, path, errs)
        else:
            errs.append(field.forbidden(path, "allowMultipleAllocations must be true"))


def _counter_set(counter_set: Mapping[str, Any], path: Path, errs: Errors) -> None:
    _counter_set_name(counter_set.get("name", ""), path, "name", errs)
    _counters(counter_set.get("counters"), path, errs)


def _consumptions(consumptions: Sequence[Any], path: Path, errs: Errors) -> None:
    if not checks.within(consumptions, limits.COUNTER_CONSUMPTIONS, path, "consumesCounters", errs):
        return
    for i, consumption in enumerate(consumptions):
        here = path.child("consumesCounters").index(i)
        _counter_set_name(consumption.get("counterSet", ""), here, "counterSet", errs)
        _counters(consumption.get("counters"), here, errs)
        groups = consumption.get("compatibilityGroups")
        if groups and checks.within(groups, limits.COMPATIBILITY_GROUPS, here, "compatibilityGroups", errs):
            for j, group in enumerate(groups):
                checks.label(group, here.child("compatibilityGroups").index(j), "", errs)
            checks.unique(groups, here, "compatibilityGroups", errs)
    checks.unique((c.get("counterSet", "") for c in consumptions), path, "consumesCounters", errs)


def _counter_set_name(name: str, path: Path, child: str, errs: Errors) -> None:
    if name:
        checks.label(name, path, child, errs)
    else:
        errs.append(field.required(path.child(child)))


def _counters(counters: Mapping[str, Any] | None, path: Path, errs: Errors) -> None:
    here = path.child("counters")
    if not counters:
        errs.append(field.required(here))
    elif len(counters) > limits.COUNTERS_PER_SET:
        errs.append(field.too_many(here, len(counters), limits.COUNTERS_PER_SET))
    else:
        for name in counters:
            checks.label(name, here, "", errs)


def _device_nodes(device: Mapping[str, Any], path: Path, errs: Errors, *, per_device: bool) -> None:
    node, selector, everywhere = device.get("nodeName"), device.get("nodeSelector"), device.get("allNodes")
    if not per_device:
        if node is not None or selector is not None or everywhere is not None:
            problem = (
                "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to "
                "true in the ResourceSlice spec"
            )
            errs.append(field.invalid(path, None, problem))
        return
    given = []
    if node:
        given.append("`nodeName`")
        checks.node_name(node, path.child("nodeName"), errs)
    elif node is not None:
        errs.append(field.invalid(path.child("nodeName"), node, "must not be empty"))
    if selector is not None:
        given.append("`nodeSelector`")
        node_selector(selector, path.child("nodeSelector"), errs)
    if everywhere:
        given.append("`allNodes`")
    elif everywhere is not None:
        errs.append(field.invalid(path.child("allNodes"), everywhere, "must be either unset or set to true"))
    if not given:
        errs.append(field.required(path, _ONE_DEVICE_NODE_FIELD))
    elif len(given) > 1:
        errs.append(field.invalid(path, f"{{{', '.join(given)}}}", _ONE_DEVICE_NODE_FIELD))


def _is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def _resource_mappings(
    mappings: Mapping[str, Any], capacity: Mapping[str, Any], path: Path, errs: Errors
) -> None:
    """1.36's way of saying that a device consumes cpu or memory of its node."""
    for name, mapping in mappings.items():
        here = path.key(name)
        if not _is_native_resource(name):
            errs.append(field.invalid(here, name, "must be a node allocatable resource name"))
        factor, key = mapping.get("allocationMultiplier"), mapping.get("capacityKey")
        if factor is None and key is None:
            problem = "at least one of allocationMultiplier or capacityKey must be set"
            errs.append(field.invalid(here, "", problem))
            continue
        _positive(factor, here.child("allocationMultiplier"), errs)
        _capacity_key(key, capacity, here.child("capacityKey"), errs)


def _node_resources(
    resources: Mapping[str, Any], capacity: Mapping[str, Any], path: Path, errs: Errors
) -> None:
    """1.37's way: a mapping of devices or capacity, an overhead, or both."""
    for name, resource in resources.items():
        here = path.key(name)
        if not _is_node_allocatable(name):
            errs.append(field.invalid(here, name, "must be a node allocatable resource name"))
        mapping, overhead = resource.get("mapping"), resource.get("overhead")
        if mapping is None and overhead is None:
            errs.append(field.required(here, "at least one of mapping or overhead must be set"))
        if mapping is not None:
            _node_mapping(mapping, capacity, here.child("mapping"), errs)
        if overhead is not None:
            _overhead(overhead, here.child("overhead"), errs)


def _is_node_allocatable(name: str) -> bool:
    return name in ("cpu", "memory") or name.startswith("hugepages-")


def _node_mapping(mapping: Mapping[str, Any], capacity: Mapping[str, Any], path: Path, errs: Errors) -> None:
    key, factor, per_device = (
        mapping.get(name) for name in ("capacityKey", "capacityMultiplier", "deviceMultiplier")
    )
    _capacity_key(key, capacity, path.child("capacityKey"), errs)
    if key is not None:
        if factor is None:
            problem = "capacityMultiplier is required when capacityKey is set"
            errs.append(field.required(path.child("capacityMultiplier"), problem))
        _positive(factor, path.child("capacityMultiplier"), errs)
    _positive(per_device, path.child("deviceMultiplier"), errs)
    if factor is not None and key is None:
        problem = "capacityKey is required when capacityMultiplier is set"
        errs.append(field.required(path.child("capacityKey"), problem))
    if key is not None and per_device is not None:
        problem = "must specify exactly one of: `capacityKey`, `deviceMultiplier`"
        errs.append(field.invalid(path, "{`capacityKey`, `deviceMultiplier`}", problem))
    if key is None and per_device is None and factor is None:
        problem = "must specify one of: `capacityKey`, `deviceMultiplier`"
        errs.append(field.invalid(path, "", problem))


def _overhead(overhead: Mapping[str, Any], path: Path, errs: Errors) -> None:
    given = {name: overhead.get(name) for name in ("perPod", "perContainer")}
    if not any(value is not None for value in given.values()):
        errs.append(field.invalid(path, "", "at least one of perPod or perContainer must be set"))
    for name, value in given.items():
        if value is not None and Quantity.parse(value).sign < 0:
            errs.append(field.invalid(path.child(name), value, "must be non-negative"))


def _positive(factor: str | None, path: Path, errs: Errors) -> None:
    if factor is not None and Quantity.parse(factor).sign <= 0:
        errs.append(field.invalid(path, str(Quantity.parse(factor)), "must be positive"))


def _capacity_key(key: str | None, capacity: Mapping[str, Any], path: Path, errs: Errors) -> None:
    if key == "":
        errs.append(field.invalid(path, "", "capacityKey must not be an empty string"))
    elif key is not None and key not in capacity:
        errs.append(field.not_found(path, key))
