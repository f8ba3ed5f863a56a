"""v1alpha3 of 1.31 and 1.32: v1beta1's shapes with plain quantities as capacity, and fewer fields.

Later fields of claims, classes and slices have no place here; see ``residue``.
"""

from __future__ import annotations

from typing import Any, Final

from dray.api.groups.resource.versions import residue, v1beta1
from dray.api.scheme.kinds import Object

_REQUEST: Final = ("name", "deviceClassName", "selectors", "allocationMode", "count", "adminAccess")
_CONSTRAINT: Final = ("requests", "matchAttribute")
_ALLOCATION: Final = ("devices", "nodeSelector")
_RESULT: Final = ("request", "driver", "pool", "device", "adminAccess")
_DEVICE_STATUS: Final = ("driver", "pool", "device", "conditions", "data", "networkData")
_CLASS: Final = ("selectors", "config")
_SLICE: Final = ("driver", "pool", "nodeName", "nodeSelector", "allNodes", "devices")
_VALUES: Final = ("int", "bool", "string", "version")


def claim_to_hub(obj: Object) -> Object:
    return residue.detach(obj, v1beta1.claim_to_hub)


def claim_from_hub(obj: Object) -> Object:
    shown = v1beta1.claim_from_hub(obj)
    shown = {
        **shown,
        "spec": _claim_spec(shown.get("spec") or {}),
        "status": _claim_status(shown.get("status") or {}),
    }
    return residue.attach(shown, obj, v1beta1.claim_to_hub)


def template_to_hub(obj: Object) -> Object:
    return residue.detach(obj, v1beta1.template_to_hub)


def template_from_hub(obj: Object) -> Object:
    shown = v1beta1.template_from_hub(obj)
    spec = shown.get("spec") or {}
    shown = {**shown, "spec": {**spec, "spec": _claim_spec(spec.get("spec") or {})}}
    return residue.attach(shown, obj, v1beta1.template_to_hub)


def class_to_hub(obj: Object) -> Object:
    return residue.detach(obj, _same)


def class_from_hub(obj: Object) -> Object:
    return residue.attach({**obj, "spec": _only(obj.get("spec") or {}, _CLASS)}, obj, _same)


def slice_to_hub(obj: Object) -> Object:
    return residue.detach(obj, _slice_to_hub)


def slice_from_hub(obj: Object) -> Object:
    shown = v1beta1.with_devices(v1beta1.slice_from_hub(obj), _device, lambda spec: _only(spec, _SLICE))
    shown["spec"].setdefault("devices", None)
    return residue.attach(shown, obj, _slice_to_hub)


def _slice_to_hub(obj: Object) -> Object:
    return v1beta1.slice_to_hub(v1beta1.with_devices(obj, _rich_capacity, dict))


def _same(obj: Object) -> Object:
    return obj


def _only(value: Object, names: tuple[str, ...]) -> Object:
    return {name: value[name] for name in names if name in value}


def _claim_spec(spec: Object) -> Object:
    devices = spec.get("devices") or {}
    shown: dict[str, Any] = {**devices, "requests": None}
    if requests := devices.get("requests"):
        shown["requests"] = [_only(request, _REQUEST) for request in requests]
    if constraints := devices.get("constraints"):
        shown["constraints"] = [_only(constraint, _CONSTRAINT) for constraint in constraints]
    return {**spec, "devices": shown}


def _claim_status(status: Object) -> Object:
    shown = dict(status)
    if allocation := status.get("allocation"):
        shown["allocation"] = _only(allocation, _ALLOCATION)
        if results := (allocation.get("devices") or {}).get("results"):
            listed = [{"adminAccess": None, **_only(result, _RESULT)} for result in results]
            shown["allocation"]["devices"] = {**allocation["devices"], "results": listed}
    if devices := status.get("devices"):
        shown["devices"] = [_only(device, _DEVICE_STATUS) for device in devices]
    return shown


def _device(device: Object) -> Object:
    """What remains of a device in this version."""
    basic = device.get("basic") or {}
    shown = {}
    if attributes := basic.get("attributes"):
        shown["attributes"] = {name: _only(value, _VALUES) for name, value in attributes.items()}
    if capacity := basic.get("capacity"):
        shown["capacity"] = {name: value.get("value", "0") for name, value in capacity.items()}
    return {**device, "basic": shown}


def _rich_capacity(device: Object) -> Object:
    basic = device.get("basic")
    if not basic or not basic.get("capacity"):
        return device
    capacity = {name: {"value": value} for name, value in basic["capacity"].items()}
    return {**device, "basic": {**basic, "capacity": capacity}}
