"""v1alpha1 (1.26): one opaque resource handle instead of a list, and no structured parameters."""

from __future__ import annotations

from dray.api.groups.resource.versions import residue
from dray.api.scheme.kinds import Object


def claim_to_hub(obj: Object) -> Object:
    return residue.detach(obj, _claim_to_hub)


def claim_from_hub(obj: Object) -> Object:
    """Only a single handle of the claim's own driver has a place here."""
    status = obj.get("status") or {}
    allocation = status.get("allocation")
    if allocation is None:
        return obj
    shown = {name: value for name, value in allocation.items() if name != "resourceHandles"}
    match allocation.get("resourceHandles"):
        case [{"data": str(data), "driverName": driver}] if driver == status.get("driverName"):
            shown = {"resourceHandle": data, **shown}
    return residue.attach({**obj, "status": {**status, "allocation": shown}}, obj, _claim_to_hub)


def class_to_hub(obj: Object) -> Object:
    return residue.detach(obj, _same)


def class_from_hub(obj: Object) -> Object:
    """A class without ``structuredParameters``, which did not exist yet."""
    if obj.get("structuredParameters") is None:
        return obj
    shown = {name: value for name, value in obj.items() if name != "structuredParameters"}
    return residue.attach(shown, obj, _same)


def _same(obj: Object) -> Object:
    return obj


def _claim_to_hub(obj: Object) -> Object:
    """The single handle belongs to the driver that allocated the claim."""
    status = obj.get("status") or {}
    allocation = status.get("allocation")
    if allocation is None or not allocation.get("resourceHandle"):
        return obj
    kept = {name: value for name, value in allocation.items() if name != "resourceHandle"}
    handle = {"driverName": status.get("driverName", ""), "data": allocation["resourceHandle"]}
    return {**obj, "status": {**status, "allocation": {"resourceHandles": [handle], **kept}}}
