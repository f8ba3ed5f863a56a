"""Validation of the classic kinds, in 1.30's order and words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, cast

from dray.api.groups.resource.validation import checks
from dray.api.groups.resource.validation.checks import Errors
from dray.api.groups.resource.validation.device import is_version
from dray.api.scheme.strategy import Context
from dray.api.validation import field, names
from dray.api.validation.expressions import Environment
from dray.api.validation.field import ErrorType, FieldError, Path
from dray.api.validation.names import size
from dray.api.validation.nodeselectors import check_node_selector

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        NamedResourcesAttribute,
        PodSchedulingContextSpec,
        PodSchedulingContextStatus,
        ResourceClaim,
        ResourceClaimConsumerReference,
        ResourceClaimParameters,
        ResourceClaimParametersReference,
        ResourceClaimSpec,
        ResourceClaimStatus,
        ResourceClass,
        ResourceClassParameters,
        ResourceClassParametersReference,
        ResourceFilter,
        ResourceHandle,
        ResourceRequest,
        ResourceSlice,
    )

HANDLES: Final = 32
HANDLE_DATA: Final = 16 * 1024
RESERVED_FOR: Final = 32
NODES: Final = 128

_ONE_MODEL: Final = "exactly one structured model field must be set"
_MODES: Final = ("Immediate", "WaitForFirstConsumer")
_VALUES: Final = ("bool", "int", "intSlice", "quantity", "string", "stringSlice", "version")


def too_long(path: Path, limit: int) -> FieldError:
    """A list or a string beyond its limit, as releases of this age put it."""
    return FieldError(ErrorType.TOO_LONG, str(path), "", f"may not be longer than {limit}")


def driver_name(value: str, path: Path, errs: Errors) -> None:
    if not value:
        errs.append(field.required(path))
    if size(value) > 63:
        errs.append(FieldError(ErrorType.TOO_LONG, str(path), "", "must have at most 63 bytes"))
    checks.refuse(errs, path, value, names.dns1123_subdomain(value.lower()))


def unique_driver(value: str, seen: set[str], path: Path, errs: Errors) -> None:
    driver_name(value, path, errs)
    if value in seen:
        errs.append(field.duplicate(path, value))
    seen.add(value)


def node_names(listed: Sequence[str], path: Path, errs: Errors) -> None:
    """A set of nodes."""
    seen: set[str] = set()
    for i, name in enumerate(listed):
        if name in seen:
            errs.append(field.duplicate(path.index(i), name))
        else:
            checks.node_name(name, path.index(i), errs)
        seen.add(name)
    if len(listed) > NODES:
        errs.append(too_long(path, NODES))


def parameters_reference(
    ref: ResourceClaimParametersReference | ResourceClassParametersReference | None, path: Path, errs: Errors
) -> None:
    """The namespace is one of a class's reference alone."""
    if ref is None:
        return
    for name in ("kind", "name"):
        if not ref.get(name):
            errs.append(field.required(path.child(name)))
    if namespace := cast("ResourceClassParametersReference", ref).get("namespace"):
        checks.refuse(errs, path.child("namespace"), namespace, names.dns1123_label(namespace))


def resource_class(obj: ResourceClass, errs: Errors) -> None:
    driver_name(obj.get("driverName", ""), Path("driverName"), errs)
    parameters_reference(obj.get("parametersRef"), Path("parametersRef"), errs)
    if (selector := obj.get("suitableNodes")) is not None:
        errs += check_node_selector(selector, Path("suitableNodes"), values=False)


def claim_spec(spec: ResourceClaimSpec, path: Path, errs: Errors) -> None:
    class_name = spec.get("resourceClassName", "")
    checks.refuse(errs, path.child("resourceClassName"), class_name, names.dns1123_subdomain(class_name))
    parameters_reference(spec.get("parametersRef"), path.child("parametersRef"), errs)
    mode = spec.get("allocationMode", "")
    if mode not in _MODES:
        errs.append(field.not_supported(path.child("allocationMode"), mode, _MODES))


def claim_status(new: ResourceClaim, old: ResourceClaim, path: Path, errs: Errors) -> None:
    """``new`` and ``old`` are whole claims."""
    status, before = new.get("status") or {}, old.get("status") or {}
    allocation, reserved = status.get("allocation"), status.get("reservedFor") or ()
    if driver := status.get("driverName"):
        driver_name(driver, path.child("driverName"), errs)
    elif allocation is not None:
        errs.append(field.required(path.child("driverName"), "must be specified when `allocation` is set"))
    if allocation is not None:
        _allocation(allocation, path.child("allocation"), errs)
    _consumers(reserved, path.child("reservedFor"), errs)
    leaving = new["metadata"].get("deletionTimestamp") is not None or status.get("deallocationRequested")
    if reserved:
        _reservation(reserved, before, allocation, path.child("reservedFor"), errs, leaving=bool(leaving))
    if allocation is not None and before.get("allocation") is not None:
        type_ = "resource/v1alpha2.AllocationResult"
        checks.immutable(allocation, before["allocation"], path.child("allocation"), errs, type_=type_)
    _deallocation(status, before, path, errs)


def _allocation(allocation: AllocationResult, path: Path, errs: Errors) -> None:
    handles = allocation.get("resourceHandles") or ()
    here = path.child("resourceHandles")
    for i, handle in enumerate(handles):
        _handle(handle, here.index(i), errs)
    if len(handles) > HANDLES:
        errs.append(too_long(here, HANDLES))
    if (selector := allocation.get("availableOnNodes")) is not None:
        errs += check_node_selector(selector, path.child("availableOnNodes"), values=False)


def _handle(handle: ResourceHandle, path: Path, errs: Errors) -> None:
    driver_name(handle.get("driverName", ""), path.child("driverName"), errs)
    data, structured = handle.get("data", ""), handle.get("structuredData")
    if size(data) > HANDLE_DATA:
        errs.append(too_long(path.child("data"), HANDLE_DATA))
    if structured is None:
        return
    here = path.child("structuredData")
    if node := structured.get("nodeName"):
        checks.node_name(node, here.child("nodeName"), errs)
    for i, result in enumerate(structured.get("results") or ()):
        where = here.child("results").index(i)
        named = result.get("namedResources")
        if named is not None:
            checks.subdomain(named.get("name", ""), where.child("namedResources", "name"), errs)
        else:
            errs.append(field.required(where, _ONE_MODEL))
    if data:
        # Of this age, a missing value is shown as if it were the text.
        errs.append(field.invalid(path, "null", "data and structuredData are mutually exclusive"))


def _consumers(reserved: Sequence[ResourceClaimConsumerReference], path: Path, errs: Errors) -> None:
    seen: set[str] = set()
    for i, consumer in enumerate(reserved):
        uid = consumer.get("uid", "")
        if uid in seen:
            errs.append(field.duplicate(path.index(i).child("uid"), uid))
            continue
        seen.add(uid)
        for name in ("resource", "name", "uid"):
            if not consumer.get(name):
                errs.append(field.required(path.index(i).child(name)))
    if len(reserved) > RESERVED_FOR:
        errs.append(too_long(path, RESERVED_FOR))


def _reservation(
    reserved: Sequence[ResourceClaimConsumerReference],
    before: ResourceClaimStatus,
    allocation: AllocationResult | None,
    path: Path,
    errs: Errors,
    *,
    leaving: bool,
) -> None:
    if allocation is None:
        errs.append(field.forbidden(path, "may not be specified when `allocated` is not set"))
        return
    if not allocation.get("shareable") and len(reserved) > 1:
        errs.append(field.forbidden(path, "may not be reserved more than once"))
    old = [dict(consumer) for consumer in before.get("reservedFor") or ()]
    if leaving and any(dict(consumer) not in old for consumer in reserved):
        words = "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"
        errs.append(field.forbidden(path, words))


def _deallocation(status: ResourceClaimStatus, before: ResourceClaimStatus, path: Path, errs: Errors) -> None:
    """Deallocation is asked for once nobody uses the claim, and ends only with the allocation itself."""
    requested, was_requested = status.get("deallocationRequested"), before.get("deallocationRequested")
    allocated = status.get("allocation") is not None
    here = path.child("deallocationRequested")
    if requested and not was_requested and status.get("reservedFor"):
        errs.append(field.forbidden(here, "deallocation cannot be requested while `reservedFor` is set"))
    if requested and not allocated:
        errs.append(field.forbidden(path, "`allocation` must be set when `deallocationRequested` is set"))
    if was_requested and not requested and allocated:
        errs.append(field.forbidden(here, "may not be cleared when `allocation` is set"))


def pod_scheduling_spec(spec: PodSchedulingContextSpec, path: Path, errs: Errors) -> None:
    node_names(spec.get("potentialNodes") or (), path.child("potentialNodes"), errs)


def pod_scheduling_status(status: PodSchedulingContextStatus, path: Path, errs: Errors) -> None:
    # Upstream names this path after an older field.
    here = path.child("claims")
    seen: set[str] = set()
    for i, claim in enumerate(status.get("resourceClaims") or ()):
        node_names(claim.get("unsuitableNodes") or (), here.index(i).child("unsuitableNodes"), errs)
        name = claim.get("name", "")
        if name in seen:
            errs.append(field.duplicate(here.index(i), name))
        seen.add(name)


def resource_slice(obj: ResourceSlice, errs: Errors) -> None:
    if node := obj.get("nodeName"):
        checks.node_name(node, Path("nodeName"), errs)
    driver_name(obj.get("driverName", ""), Path("driverName"), errs)
    named = obj.get("namedResources")
    if named is None:
        errs.append(FieldError(ErrorType.REQUIRED, "<nil>", "", _ONE_MODEL))
        return
    seen: set[str] = set()
    for i, instance in enumerate(named.get("instances") or ()):
        here = Path("namedResources").child("instances").index(i)
        _named_once(instance.get("name", ""), seen, here, errs)
        _attributes(instance.get("attributes") or (), here.child("attributes"), errs)


def _named_once(name: str, seen: set[str], path: Path, errs: Errors) -> None:
    checks.subdomain(name, path.child("name"), errs)
    if name in seen:
        errs.append(field.duplicate(path.child("name"), name))
    seen.add(name)


def _attributes(listed: Sequence[NamedResourcesAttribute], path: Path, errs: Errors) -> None:
    seen: set[str] = set()
    for i, attribute in enumerate(listed):
        here = path.index(i)
        _named_once(attribute.get("name", ""), seen, here, errs)
        given = [name for name in _VALUES if attribute.get(name) is not None]
        version = attribute.get("version")
        if version is not None and not is_version(version):
            problem = "must be a string compatible with semver.org spec 2.0.0"
            errs.append(field.invalid(here.child("version"), version, problem))
        if not given:
            errs.append(field.required(here, "exactly one value must be set"))
        elif len(given) > 1:
            errs.append(
                field.invalid(here, field.go_strings(given), "exactly one field must be set, not several")
            )


def claim_parameters(obj: ResourceClaimParameters, ctx: Context, errs: Errors, *, stored: bool) -> None:
    parameters_reference(obj.get("generatedFrom"), Path("generatedFrom"), errs)
    seen: set[str] = set()
    for i, requests in enumerate(obj.get("driverRequests") or ()):
        here = Path("driverRequests").index(i)
        unique_driver(requests.get("driverName", ""), seen, here.child("driverName"), errs)
        listed = requests.get("requests") or ()
        for j, request in enumerate(listed):
            _selector(request, here.child("requests").index(j), ctx, errs, stored=stored)
        if not listed:
            errs.append(
                field.required(here.child("requests"), "empty entries with no requests are not allowed")
            )


def class_parameters(obj: ResourceClassParameters, ctx: Context, errs: Errors, *, stored: bool) -> None:
    parameters_reference(obj.get("generatedFrom"), Path("generatedFrom"), errs)
    seen: set[str] = set()
    for i, filtered in enumerate(obj.get("filters") or ()):
        here = Path("filters").index(i)
        unique_driver(filtered.get("driverName", ""), seen, here.child("driverName"), errs)
        _selector(filtered, here, ctx, errs, stored=stored)
    seen = set()
    for i, vendor in enumerate(obj.get("vendorParameters") or ()):
        here = Path("vendorParameters").index(i)
        unique_driver(vendor.get("driverName", ""), seen, here.child("driverName"), errs)


def _selector(
    parent: ResourceFilter | ResourceRequest, path: Path, ctx: Context, errs: Errors, *, stored: bool
) -> None:
    named = parent.get("namedResources")
    if named is None:
        errs.append(field.required(path, _ONE_MODEL))
        return
    here = path.child("namedResources", "selector")
    expression = named.get("selector", "")
    if not expression:
        errs.append(field.required(here))
    elif not stored:
        verdict = ctx.expressions(expression, environment=Environment.NAMED_RESOURCES)
        if verdict.error and verdict.internal:
            errs.append(field.internal(here, verdict.error))
        elif verdict.error:
            errs.append(field.invalid(here, expression, verdict.error))
