"""One device of a slice: attributes, capacities, taints, counters, nodes, binding conditions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.capacity import request_policy
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.counters import consumptions
from dray.api.groups.resource.validation.nodeallocatable import node_resources, resource_mappings
from dray.api.groups.resource.validation.taints import taint
from dray.api.release import Gates
from dray.api.textcache import cache_texts
from dray.api.validation import field
from dray.api.validation.declarative import one_of
from dray.api.validation.field import Path
from dray.api.validation.names import size
from dray.api.validation.nodeselectors import check_node_selector

if TYPE_CHECKING:
    from dray.api.types.resource import Device

_EMPTY: Final[Mapping[str, Any]] = {}
_SCALARS: Final = frozenset({"int", "bool", "string", "version"})
_LISTS: Final = ("bools", "ints", "strings", "versions")
_KINDS: Final = ("int", "bool", "string", "version", "ints", "bools", "strings", "versions")
_ONE_NODE_FIELD: Final = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to "
    "true in the ResourceSlice spec"
)


def is_advanced(device: Mapping[str, Any]) -> bool:
    """Whether the device uses something that halves the number of devices a slice can hold."""
    if device.get("taints") or device.get("consumesCounters"):
        return True
    return any(
        not _SCALARS.issuperset(attribute) for attribute in (device.get("attributes") or _EMPTY).values()
    )


def device(
    value: Mapping[str, Any], old: Device | None, path: Path, gates: Gates, errs: Errors, *, per_device: bool
) -> None:
    checks.label(value.get("name", ""), path, "name", errs)
    attributes, capacity = value.get("attributes") or _EMPTY, value.get("capacity") or _EMPTY
    total = len(attributes) + len(capacity)
    if total > limits.ATTRIBUTES_AND_CAPACITIES:
        problem = f"the total number of attributes and capacities must not exceed {limits.ATTRIBUTES_AND_CAPACITIES}"
        errs.append(field.invalid(path, total, problem))
    values = sum(map(_value_count, attributes.values()))
    if values > limits.ATTRIBUTE_VALUES:
        problem = f"the total number of attribute values must not exceed {limits.ATTRIBUTE_VALUES}"
        errs.append(field.invalid(path, values, problem))
    for name, attribute in attributes.items():
        if not checks.is_qualified_name(name):
            checks.qualified_name(name, path.child("attributes"), errs)
        if not _is_plain(attribute):
            _attribute(attribute, name, path, errs)
    if any("requestPolicy" in amount for amount in capacity.values()):
        _policies(capacity, path, gates, errs, shared=bool(value.get("allowMultipleAllocations")))
    for name in capacity:
        if not checks.is_qualified_name(name):
            checks.qualified_name(name, path.child("capacity"), errs)
    taints = value.get("taints")
    if taints and (
        (old is None or not checks.equal(old.get("taints"), taints))
        and checks.within(taints, limits.TAINTS, path, "taints", errs)
    ):
        for i, item in enumerate(taints):
            taint(item, None, path.child("taints").index(i), errs)
    if consumed := value.get("consumesCounters"):
        consumptions(consumed, path, errs)
    _device_nodes(value, path, errs, per_device=per_device)
    binding_conditions(value, path, errs)
    if mappings := value.get("nodeAllocatableResourceMappings"):
        resource_mappings(mappings, capacity, path.child("nodeAllocatableResourceMappings"), errs)
    if mappings := value.get("nodeAllocatableResources"):
        node_resources(mappings, capacity, path.child("nodeAllocatableResources"), errs)


def _value_count(attribute: Mapping[str, Any]) -> int:
    if _SCALARS.issuperset(attribute):
        return 1
    return sum(len(attribute.get(name) or ()) for name in _LISTS) or 1


def _is_plain(attribute: Mapping[str, Any]) -> bool:
    """Whether an attribute is certainly fine; the common cases, kept cheap."""
    if len(attribute) != 1:
        return False
    ((kind, value),) = attribute.items()
    if kind == "string":
        return value is not None and len(value) <= limits.ATTRIBUTE_VALUE and value.isascii()
    if kind == "version":
        return value is not None and len(value) <= limits.ATTRIBUTE_VALUE and is_version(value)
    return kind in ("int", "bool") and value is not None


_IDENTIFIER = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
_match_version = re.compile(
    r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)"
    rf"(-{_IDENTIFIER}(\.{_IDENTIFIER})*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?",
    re.ASCII,
).fullmatch


@cache_texts(1024)
def is_version(text: str) -> bool:
    """Whether a text is a semantic version. Devices of a driver share theirs, hence the cache."""
    return _match_version(text) is not None


def _attribute(attribute: Mapping[str, Any], name: str, device: Path, errs: Errors) -> None:
    """Exactly one value. ``device`` is where the device is."""
    path = device.child("attributes").key(checks.short_key(name, checks.QUALIFIED_KEY))
    given = sum(attribute.get(kind) is not None for kind in ("int", "bool"))
    for kind, check in (("string", _string), ("version", _version)):
        if (value := attribute.get(kind)) is not None:
            given += 1
            check(value, path.child(kind), errs)
    for kind in _LISTS:
        if (listed := attribute.get(kind)) is None:
            continue
        given += 1 if listed or not errs.declared else 0
        if not listed:
            errs.append(field.invalid(path.child(kind), listed, "must not be empty if specified"))
        if (check_item := _ITEMS.get(kind)) is not None:
            for i, item in enumerate(listed):
                check_item(item, path.child(kind).index(i), errs)
    if given != 1:
        if errs.declared:
            errs.declare(one_of({k: v for k, v in attribute.items() if v != []}, _KINDS, path))
        else:
            errs.append(
                field.invalid(path, attribute if given else "", "exactly one value must be specified")
            )


def _string(value: str, path: Path, errs: Errors) -> None:
    if size(value) > limits.ATTRIBUTE_VALUE:
        errs.append(field.too_long(path, limits.ATTRIBUTE_VALUE))


def _version(value: str, path: Path, errs: Errors) -> None:
    if not is_version(value):
        errs.append(field.invalid(path, value, "must be a string compatible with semver.org spec 2.0.0"))
    _string(value, path, errs)


_ITEMS: Final = {"strings": _string, "versions": _version}


def _policies(
    capacities: Mapping[str, Any], device: Path, gates: Gates, errs: Errors, *, shared: bool
) -> None:
    for name, capacity in capacities.items():
        policy = capacity.get("requestPolicy")
        if policy is None:
            continue
        path = (
            device.child("capacity").key(checks.short_key(name, checks.QUALIFIED_KEY)).child("requestPolicy")
        )
        if shared:
            request_policy(capacity.get("value", "0"), policy, path, gates, errs)
        else:
            errs.append(field.forbidden(path, "allowMultipleAllocations must be true"))


def _device_nodes(value: Mapping[str, Any], path: Path, errs: Errors, *, per_device: bool) -> None:
    node, selector, everywhere = value.get("nodeName"), value.get("nodeSelector"), value.get("allNodes")
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
        errs += check_node_selector(selector, path.child("nodeSelector"))
    if everywhere:
        given.append("`allNodes`")
    elif everywhere is not None:
        errs.append(field.invalid(path.child("allNodes"), everywhere, "must be either unset or set to true"))
    if not given:
        errs.append(field.required(path, _ONE_NODE_FIELD))
    elif len(given) > 1:
        errs.append(field.invalid(path, f"{{{', '.join(given)}}}", _ONE_NODE_FIELD))


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
