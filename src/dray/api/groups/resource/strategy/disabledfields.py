"""Fields behind feature gates: cleared on write while the gate is off, unless the old object already used them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource.validation.claimstatus import allocation_results
from dray.api.release import Gates

if TYPE_CHECKING:
    from dray.api.types.resource import (
        Device,
        DeviceAttribute,
        DeviceCapacity,
        DeviceClass,
        DeviceConstraint,
        DeviceCounterConsumption,
        DeviceRequest,
        DeviceSubRequest,
        ExactDeviceRequest,
        ResourceClaim,
        ResourceClaimSpec,
        ResourceSlice,
        ResourceSliceSpec,
    )

_LISTS: Final = ("bools", "ints", "strings", "versions")


def drop_spec_fields(new: ResourceClaimSpec, old: ResourceClaimSpec | None, gates: Gates) -> None:
    """Of a claim's spec, whether it stands in a claim or in a template."""
    for gate, used, drop in _CLAIM_SPEC:
        if gate not in gates and not (old is not None and used(old)):
            drop(new)


def drop_status_fields(new: ResourceClaim, old: ResourceClaim, gates: Gates) -> None:
    """Of a claim's status. ``new`` and ``old`` are whole claims."""
    status = new.get("status") or {}
    before, spec = old.get("status") or {}, old.get("spec") or {}
    results, results_before = allocation_results(status), allocation_results(before)
    if "DRAResourceClaimDeviceStatus" not in gates and not before.get("devices"):
        status.pop("devices", None)
    if "DRAAdminAccess" not in gates and not (
        _admin_access_used(spec) or _any(results_before, "adminAccess")
    ):
        _drop(results, "adminAccess")
    if "DRAConsumableCapacity" not in gates and not (
        _capacity_used(spec)
        or _any(results_before, "shareID", "consumedCapacity")
        or _any(before.get("devices"), "shareID")
    ):
        _drop(results, "shareID", "consumedCapacity")
        _drop(status.get("devices"), "shareID")
    if "DRADeviceBindingConditions" not in gates and not _any(
        results_before, "bindingConditions", "bindingFailureConditions"
    ):
        _drop(results, "bindingConditions", "bindingFailureConditions")
    if "DRAOptionalNodeOperations" not in gates and not _any(results_before, "skipNodeOperations"):
        _drop(results, "skipNodeOperations")


def drop_class_fields(new: DeviceClass, old: DeviceClass | None, gates: Gates) -> None:
    if "DRAExtendedResource" in gates:
        return
    if old is None or (old.get("spec") or {}).get("extendedResourceName") is None:
        (new.get("spec") or {}).pop("extendedResourceName", None)


def drop_slice_fields(new: ResourceSlice, old: ResourceSlice | None, gates: Gates) -> None:
    spec, before = new.get("spec") or {}, (old or {}).get("spec") or {}
    for needed, used, drop in _SLICE:
        if not all(gate in gates for gate in needed) and not (before and used(before)):
            drop(spec)


def _any(items: Iterable[Any] | None, *names: str) -> bool:
    return any(item.get(name) is not None for item in items or () for name in names)


def _any_set(items: Sequence[Device], *names: str) -> bool:
    """Whether a field has another value than its zero value."""
    return any(item.get(name) for item in items for name in names)


def _drop(items: Iterable[Any] | None, *names: str) -> None:
    for item in items or ():
        for name in names:
            item.pop(name, None)


# Claims.


def _requests(spec: ResourceClaimSpec) -> Sequence[DeviceRequest]:
    return (spec.get("devices") or {}).get("requests") or ()


def _exact(spec: ResourceClaimSpec) -> Iterator[ExactDeviceRequest]:
    return (request["exactly"] for request in _requests(spec) if request.get("exactly") is not None)


def _alternatives(spec: ResourceClaimSpec) -> Iterator[DeviceSubRequest]:
    return (sub for request in _requests(spec) for sub in request.get("firstAvailable") or ())


def _each(spec: ResourceClaimSpec) -> list[ExactDeviceRequest | DeviceSubRequest]:
    return [*_exact(spec), *_alternatives(spec)]


def _constraints(spec: ResourceClaimSpec) -> Sequence[DeviceConstraint]:
    return (spec.get("devices") or {}).get("constraints") or ()


def _admin_access_used(spec: ResourceClaimSpec) -> bool:
    return _any(list(_exact(spec)), "adminAccess")


def _capacity_used(spec: ResourceClaimSpec) -> bool:
    return _any(_constraints(spec), "distinctAttribute") or _any(_each(spec), "capacity")


def _drop_capacity(spec: ResourceClaimSpec) -> None:
    _drop(_constraints(spec), "distinctAttribute")
    _drop(_each(spec), "capacity")


# Alternatives go first: what is inside them need not be looked at then.
_CLAIM_SPEC: Final[
    Sequence[tuple[str, Callable[[ResourceClaimSpec], bool], Callable[[ResourceClaimSpec], None]]]
] = (
    (
        "DRAPrioritizedList",
        lambda spec: any(request.get("firstAvailable") for request in _requests(spec)),
        lambda spec: _drop(_requests(spec), "firstAvailable"),
    ),
    (
        "DRADeviceTaints",
        lambda spec: any(request.get("tolerations") for request in _each(spec)),
        lambda spec: _drop(_each(spec), "tolerations"),
    ),
    ("DRAAdminAccess", _admin_access_used, lambda spec: _drop(list(_exact(spec)), "adminAccess")),
    ("DRAConsumableCapacity", _capacity_used, _drop_capacity),
    (
        "DRADerivedAttributes",
        lambda spec: any(request.get("derivedAttributes") for request in _each(spec)),
        lambda spec: _drop(_each(spec), "derivedAttributes"),
    ),
)


# Slices.

if TYPE_CHECKING:
    _Used = Callable[[ResourceSliceSpec], bool]
    _Drop = Callable[[ResourceSliceSpec], None]


def _devices(spec: ResourceSliceSpec) -> Sequence[Device]:
    return spec.get("devices") or ()


def _on_devices(*names: str) -> tuple[_Used, _Drop]:
    return (
        lambda spec: _any_set(_devices(spec), *names),
        lambda spec: _drop(_devices(spec), *names),
    )


_NODE_FIELDS: Final = ("nodeName", "nodeSelector", "allNodes")


def _partitions_used(spec: ResourceSliceSpec) -> bool:
    if spec.get("sharedCounters") or spec.get("perDeviceNodeSelection") is not None:
        return True
    devices = _devices(spec)
    return any(device.get("consumesCounters") for device in devices) or _any(devices, *_NODE_FIELDS)


def _drop_partitions(spec: ResourceSliceSpec) -> None:
    spec.pop("sharedCounters", None)
    spec.pop("perDeviceNodeSelection", None)
    _drop(_devices(spec), "consumesCounters", *_NODE_FIELDS)


def _binding_used(spec: ResourceSliceSpec) -> bool:
    return any(
        device.get("bindingConditions")
        or device.get("bindingFailureConditions")
        or device.get("bindsToNode") is not None
        for device in _devices(spec)
    )


def _capacities(spec: ResourceSliceSpec) -> list[DeviceCapacity]:
    return [capacity for device in _devices(spec) for capacity in (device.get("capacity") or {}).values()]


def _sharing_used(spec: ResourceSliceSpec) -> bool:
    return _any(_devices(spec), "allowMultipleAllocations") or _any(_capacities(spec), "requestPolicy")


def _drop_sharing(spec: ResourceSliceSpec) -> None:
    _drop(_devices(spec), "allowMultipleAllocations")
    _drop(_capacities(spec), "requestPolicy")


def _attributes(spec: ResourceSliceSpec) -> list[DeviceAttribute]:
    return [attribute for device in _devices(spec) for attribute in (device.get("attributes") or {}).values()]


def _consumptions(spec: ResourceSliceSpec) -> list[DeviceCounterConsumption]:
    return [consumption for device in _devices(spec) for consumption in device.get("consumesCounters") or ()]


_SLICE: Final[Sequence[tuple[tuple[str, ...], _Used, _Drop]]] = (
    (("DRADeviceTaints",), *_on_devices("taints")),
    (("DRAPartitionableDevices",), _partitions_used, _drop_partitions),
    (
        ("DRADeviceBindingConditions", "DRAResourceClaimDeviceStatus"),
        _binding_used,
        lambda spec: _drop(_devices(spec), "bindingConditions", "bindingFailureConditions", "bindsToNode"),
    ),
    (("DRAConsumableCapacity",), _sharing_used, _drop_sharing),
    (
        ("DRANodeAllocatableResources",),
        *_on_devices("nodeAllocatableResourceMappings", "nodeAllocatableResources"),
    ),
    (
        ("DRAListTypeAttributes",),
        lambda spec: _any(_attributes(spec), *_LISTS),
        lambda spec: _drop(_attributes(spec), *_LISTS),
    ),
    (
        ("DRADeviceCompatibilityGroups",),
        lambda spec: any(consumption.get("compatibilityGroups") for consumption in _consumptions(spec)),
        lambda spec: _drop(_consumptions(spec), "compatibilityGroups"),
    ),
    (
        ("DRAPartitionableDevicesType",),
        lambda spec: spec.get("partitionTypeAttribute") is not None,
        lambda spec: _drop([spec], "partitionTypeAttribute"),
    ),
    (
        ("DRAOptionalNodeOperations",),
        lambda spec: bool(spec.get("skipNodeOperations")),
        lambda spec: _drop([spec], "skipNodeOperations"),
    ),
)
