"""Taints keep devices from being allocated unless the request tolerates them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dray.allocation.devices import Device

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceTaint, DeviceTaintRule, DeviceToleration, ResourceSlice


def untolerated_taint(device: Device, tolerations: Sequence[DeviceToleration]) -> DeviceTaint | None:
    """The first taint of a device that is not tolerated."""
    for taint in device.taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def tolerates(toleration: DeviceToleration, taint: DeviceTaint) -> bool:
    """Whether a toleration covers a taint. Which effects matter at all is the caller's business."""
    effect, key = toleration.get("effect"), toleration.get("key")
    if effect and effect != taint.get("effect"):
        return False
    if key and key != taint.get("key"):
        return False
    match toleration.get("operator") or "Equal":
        case "Exists":
            return True
        case "Equal":
            return (toleration.get("value") or "") == (taint.get("value") or "")
        case _:
            return False


def with_taint_rules(document: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """A ResourceSlice with the taints that DeviceTaintRules add to its devices; the slice itself if none does."""
    spec = document["spec"]
    driver, pool = spec["driver"], spec["pool"]["name"]
    relevant = []
    for rule in rules:
        selector = rule["spec"].get("deviceSelector")
        # A rule without a selector concerns no device.
        if (
            selector is None
            or selector.get("driver") not in (None, driver)
            or selector.get("pool") not in (None, pool)
        ):
            continue
        relevant.append((selector.get("device"), rule["spec"]["taint"]))
    if not relevant:
        return document
    changed = False
    devices = []
    for device in spec.get("devices") or ():
        added = [taint for name, taint in relevant if name in (None, device["name"])]
        changed = changed or bool(added)
        devices.append({**device, "taints": [*(device.get("taints") or ()), *added]} if added else device)
    return {**document, "spec": {**spec, "devices": devices}} if changed else document
