"""What devices mean for cpu, memory and the like of their node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.groups.resource.validation.checks import Errors
from dray.api.quantity import Quantity
from dray.api.validation import field
from dray.api.validation.field import Path


def _is_native_resource(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def resource_mappings(
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


def node_resources(
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
