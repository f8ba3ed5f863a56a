"""The status of a claim: allocation, reservations, and what drivers report about allocated devices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.resource import limits
from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.device import binding_conditions
from dray.api.groups.resource.validation.resourceclaim import (
    RequestNames,
    configuration,
    request_names,
    request_reference,
    request_references,
)
from dray.api.groups.resource.validation.resourceslice import skip_node_operations
from dray.api.groups.resource.validation.taints import toleration
from dray.api.identity import SharedDeviceID, shared_device_id
from dray.api.quirks import APIQuirks
from dray.api.validation import addresses, field, objectmeta
from dray.api.validation.field import Path
from dray.api.validation.names import size
from dray.api.validation.nodeselectors import check_node_selector

if TYPE_CHECKING:
    from dray.api.types.resource import (
        AllocatedDeviceStatus,
        AllocationResult,
        DeviceAllocationConfiguration,
        DeviceRequestAllocationResult,
        NetworkDeviceData,
        ResourceClaim,
        ResourceClaimConsumerReference,
        ResourceClaimStatus,
    )

_EMPTY: Final[Sequence[Any]] = ()


def _shown(device: SharedDeviceID) -> dict[str, str]:
    """As upstream prints it inside an error."""
    return {"Driver": device.driver, "Pool": device.pool, "Device": device.device, "ShareID": device.share_id}


def allocated_devices(status: ResourceClaimStatus) -> frozenset[SharedDeviceID]:
    return frozenset(map(shared_device_id, allocation_results(status)))


def allocation_results(status: ResourceClaimStatus) -> Sequence[DeviceRequestAllocationResult]:
    allocation = status.get("allocation") or {}
    return (allocation.get("devices") or {}).get("results") or _EMPTY


def claim_status(new: ResourceClaim, old: ResourceClaim, path: Path, errs: Errors, quirks: APIQuirks) -> None:
    """What may become of a claim's status. ``new`` and ``old`` are whole claims."""
    status, before = new.get("status") or {}, old.get("status") or {}
    reserved: Sequence[ResourceClaimConsumerReference] = status.get("reservedFor") or _EMPTY
    if reserved:
        _consumers(reserved, path, errs)

    devices: Sequence[AllocatedDeviceStatus] = status.get("devices") or _EMPTY
    if devices:
        allocated = allocated_devices(status)
        for i, device in enumerate(devices):
            _device_status(device, path.child("devices").index(i), allocated, errs)
        if errs.declared:
            shown = [{**device, "conditions": device.get("conditions")} for device in devices]
            checks.unique_items(shown, shared_device_id, path, "devices", errs)
        else:
            checks.unique(map(shared_device_id, devices), path, "devices", errs, _shown)

    allocation, allocated_before = status.get("allocation"), before.get("allocation")
    if reserved:
        deleting = new["metadata"].get("deletionTimestamp") is not None
        _reservation(reserved, before, path, errs, allocated=allocation is not None, deleting=deleting)
    if allocation is not None:
        here = path.child("allocation")
        if allocated_before is not None:
            type_ = "resource/v1.AllocationResult"
            checks.immutable(allocation, allocated_before, here, errs, type_=type_, release=quirks.release)
        else:
            known = request_names((new.get("spec") or {}).get("devices") or {})
            _allocation(allocation, here, known, errs, quirks)


def _consumers(reserved: Sequence[ResourceClaimConsumerReference], path: Path, errs: Errors) -> None:
    if not checks.within(reserved, limits.RESERVED_FOR, path, "reservedFor", errs):
        return
    for i, consumer in enumerate(reserved):
        if not (consumer.get("resource") and consumer.get("name") and consumer.get("uid")):
            here = path.child("reservedFor").index(i)
            missing = [name for name in ("resource", "name", "uid") if not consumer.get(name)]
            errs += [field.required(here.child(name)) for name in missing]
    if len(reserved) > 1:
        checks.unique_items(reserved, lambda c: c.get("uid", ""), path, "reservedFor", errs)


def _reservation(
    reserved: Sequence[ResourceClaimConsumerReference],
    before: ResourceClaimStatus,
    path: Path,
    errs: Errors,
    *,
    allocated: bool,
    deleting: bool,
) -> None:
    here = path.child("reservedFor")
    if not allocated:
        errs.append(field.forbidden(here, "may not be specified when `allocated` is not set"))
    elif deleting:
        old = [dict(consumer) for consumer in before.get("reservedFor") or ()]
        if any(dict(consumer) not in old for consumer in reserved):
            words = "while `deallocationRequested` or `deletionTimestamp` are set"
            errs.append(field.forbidden(here, f"new entries may not be added {words}"))


def _allocation(
    allocation: AllocationResult, path: Path, known: RequestNames, errs: Errors, quirks: APIQuirks
) -> None:
    devices = allocation.get("devices") or {}
    here = path.child("devices")
    results = devices.get("results") or _EMPTY
    if checks.within(results, limits.RESULTS, here, "results", errs):
        for i, result in enumerate(results):
            _result(result, here.child("results").index(i), known, errs, quirks)
    if configs := devices.get("config"):
        _configs(configs, here, known, errs)
    if (selector := allocation.get("nodeSelector")) is not None:
        errs += check_node_selector(selector, path.child("nodeSelector"))


def _configs(
    configs: Sequence[DeviceAllocationConfiguration], path: Path, known: RequestNames, errs: Errors
) -> None:
    if not checks.within(configs, 2 * limits.CONFIGS, path, "config", errs):
        return
    for i, config in enumerate(configs):
        here = path.child("config").index(i)
        source = config.get("source", "")
        if not source:
            errs.append(field.required(here.child("source")))
        elif source not in ("FromClaim", "FromClass"):
            errs.append(field.not_supported(here.child("source"), source, ("FromClaim", "FromClass")))
        request_references(config.get("requests") or _EMPTY, here, known, errs)
        configuration(config, here, errs)


def _result(
    result: Mapping[str, Any], path: Path, known: RequestNames, errs: Errors, quirks: APIQuirks
) -> None:
    request_reference(result.get("request", ""), path.child("request"), known, errs)
    checks.driver_name(result.get("driver", ""), path.child("driver"), errs)
    checks.pool_name(result.get("pool", ""), path.child("pool"), errs)
    checks.label(result.get("device", ""), path, "device", errs)
    binding_conditions(result, path, errs)
    if (share := result.get("shareID")) is not None:
        checks.uid(share, path.child("shareID"), errs)
    tolerations = result.get("tolerations")
    if tolerations and quirks.checks_tolerations_of_results:
        for i, tolerated in enumerate(tolerations):
            toleration(tolerated, path.child("tolerations").index(i), errs)
    skip_node_operations(result.get("skipNodeOperations"), path, errs)


def _device_status(
    device: AllocatedDeviceStatus, path: Path, allocated: frozenset[SharedDeviceID], errs: Errors
) -> None:
    checks.driver_name(device.get("driver", ""), path.child("driver"), errs)
    checks.pool_name(device.get("pool", ""), path.child("pool"), errs)
    checks.label(device.get("device", ""), path, "device", errs)
    if (share := device.get("shareID")) is not None:
        checks.uid(share, path.child("shareID"), errs)
    if (own := shared_device_id(device)) not in allocated:
        errs.append(field.invalid(path, _shown(own), "must be an allocated device in the claim"))
    conditions = device.get("conditions") or _EMPTY
    if len(conditions) > limits.CONDITIONS:
        errs.append(field.too_many(path.child("conditions"), len(conditions), limits.CONDITIONS))
    errs += objectmeta.validate_conditions(conditions, path.child("conditions"), declared=errs.declared)
    if (data := device.get("data")) is not None:
        checks.raw_object(data, path.child("data"), limits.DEVICE_STATUS_DATA, errs)
    if (network := device.get("networkData")) is not None:
        _network_data(network, path.child("networkData"), errs)


def _network_data(network: NetworkDeviceData, path: Path, errs: Errors) -> None:
    if size(network.get("interfaceName", "")) > limits.INTERFACE_NAME:
        errs.append(field.too_long(path.child("interfaceName"), limits.INTERFACE_NAME))
    if size(network.get("hardwareAddress", "")) > limits.HARDWARE_ADDRESS:
        errs.append(field.too_long(path.child("hardwareAddress"), limits.HARDWARE_ADDRESS))
    ips = network.get("ips") or _EMPTY
    if checks.within(ips, limits.NETWORK_IPS, path, "ips", errs):
        for i, ip in enumerate(ips):
            _interface_address(ip, path.child("ips").index(i), errs)
        checks.unique(ips, path, "ips", errs)


def _interface_address(value: str, path: Path, errs: Errors) -> None:
    """An address with the length of its network's prefix, written canonically."""
    text = value.partition("/")[0]
    address, network = addresses.parse(text), addresses.parse_network(value)
    if address is None or network is None:
        problem = "must be a valid address in CIDR form, (e.g. 10.9.8.7/24 or 2001:db8::1/64)"
        errs.append(field.invalid(path, value, problem))
        return
    prefix = network.prefixlen
    mapped = getattr(address, "ipv4_mapped", None)
    if mapped is not None:
        address, prefix = mapped, prefix - 96 if prefix > 32 else prefix
    canonical = f"{address}/{prefix}"
    if value != canonical:
        errs.append(field.invalid(path, value, f"must be in canonical form ({field.quote(canonical)})"))
