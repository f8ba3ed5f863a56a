"""Devices that a driver publishes only once a DeviceClass names it.

Until then the driver announces them in a ConfigMap with the label ``LABEL``: ``driver`` is its name, ``devices`` are the
devices of every node, as a slice has them. Tools can thus say what would happen to manifests that bring the class along.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from dray.api.types.core import ConfigMap
    from dray.api.types.resource import Device, DeviceClass, ResourceSlice

LABEL: Final = "resource.dray.dev/on-demand"
NAMESPACE: Final = "kube-system"


def names_driver(device_class: DeviceClass, driver: str) -> bool:
    """Whether a selector of the class names the driver."""
    selectors = (device_class.get("spec") or {}).get("selectors") or ()
    return any(driver in (selector.get("cel") or {}).get("expression", "") for selector in selectors)


def announcement(driver: str, devices: Iterable[Device]) -> ConfigMap:
    return {
        "metadata": {"name": f"{driver}-on-demand", "namespace": NAMESPACE, "labels": {LABEL: "true"}},
        "data": {"driver": driver, "devices": msgspec.json.encode(list(devices)).decode()},
    }


def announced_driver(config: ConfigMap) -> str:
    """The driver that announces devices; empty if the ConfigMap is for something else."""
    if LABEL not in ((config.get("metadata") or {}).get("labels") or {}):
        return ""
    return (config.get("data") or {}).get("driver") or ""


def announced_slices(config: ConfigMap, nodes: Iterable[str]) -> Iterator[ResourceSlice]:
    """The slices that the driver would publish for these nodes."""
    driver = announced_driver(config)
    devices = msgspec.json.decode((config.get("data") or {}).get("devices") or "[]")
    for node in nodes:
        yield {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "ResourceSlice",
            "metadata": {"name": f"{node}-{driver}"},
            "spec": {
                "driver": driver,
                "nodeName": node,
                "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
                "devices": devices,
            },
        }
