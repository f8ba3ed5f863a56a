"""v1beta1: requests are flat, and what a device is stands below ``basic``.

The same shapes served as v1alpha3 before; ``v1alpha3`` builds on the functions here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from dray.api.scheme.kinds import Object

#: What stands beside a flat request's name and belongs below ``exactly``.
_EXACT: Final = (
    "deviceClassName", "selectors", "allocationMode", "count", "adminAccess", "tolerations", "capacity",
    "derivedAttributes",
)  # fmt: skip


def claim_to_hub(obj: Object) -> Object:
    return _with_requests(obj, ("spec",), structured)


def claim_from_hub(obj: Object) -> Object:
    return _with_requests(obj, ("spec",), flat)


def template_to_hub(obj: Object) -> Object:
    return _with_requests(obj, ("spec", "spec"), structured)


def template_from_hub(obj: Object) -> Object:
    return _with_requests(obj, ("spec", "spec"), flat)


def slice_to_hub(obj: Object) -> Object:
    return with_devices(obj, _unwrapped, _without_zeros)


def slice_from_hub(obj: Object) -> Object:
    return with_devices(obj, _wrapped, _without_zeros)


def structured(request: Object) -> Object:
    """A flat request as the hub has it: any field beside the alternatives makes it an exact one."""
    exactly = {
        name: request[name]
        for name in _EXACT
        if request.get(name) is not None and (request[name] is False or request[name] not in ("", 0))
    }
    found: Object = {"name": request.get("name", "")}
    if exactly:
        # Written even when empty: validation must see that there is no class.
        found["exactly"] = {"deviceClassName": "", **exactly}
    if request.get("firstAvailable"):
        found["firstAvailable"] = request["firstAvailable"]
    return found


def flat(request: Object) -> Object:
    exactly = request.get("exactly") or {}
    found: Object = {"name": request.get("name", ""), "deviceClassName": exactly.get("deviceClassName", "")}
    found.update((name, exactly[name]) for name in _EXACT[1:] if name in exactly)
    if request.get("firstAvailable"):
        found["firstAvailable"] = request["firstAvailable"]
    return found


def _with_requests(obj: Object, where: tuple[str, ...], convert: Callable[[Object], Object]) -> Object:
    """A copy of the object with each request converted; ``where`` leads to the claim's spec."""
    spec: Any = obj
    for name in where:
        spec = spec.get(name) or {}
    devices = spec.get("devices") or {}
    requests = devices.get("requests")
    if not requests:
        return obj
    spec = {**spec, "devices": {**devices, "requests": [convert(request) for request in requests]}}
    if len(where) == 2:
        spec = {**obj["spec"], "spec": spec}
    return {**obj, "spec": spec}


def with_devices(
    obj: Object, convert: Callable[[Object], Object], shape: Callable[[Object], Object]
) -> Object:
    """A copy of the slice with each device converted and its spec in shape."""
    spec = obj.get("spec")
    if spec is None:
        return obj
    spec = shape(spec)
    if devices := spec.get("devices"):
        spec["devices"] = [convert(device) for device in devices]
    return {**obj, "spec": spec}


def _without_zeros(spec: Object) -> Object:
    """Here an empty node name and ``allNodes: false`` say nothing; in the hub they would be mistakes."""
    return {
        name: value for name, value in spec.items() if not (name in ("nodeName", "allNodes") and not value)
    }


def _unwrapped(device: Object) -> Object:
    return {"name": device.get("name", ""), **(device.get("basic") or {})}


def _wrapped(device: Object) -> Object:
    basic = {name: value for name, value in device.items() if name != "name"}
    return {"name": device.get("name", ""), "basic": basic}
