"""The objects that tests need most, each from the few things that matter to a test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, PodResourceClaim
    from dray.api.types.resource import (
        Device,
        DeviceAttribute,
        DeviceClass,
        DeviceRequest,
        ResourceClaim,
        ResourceClaimSpec,
        ResourceClaimTemplate,
        ResourceSlice,
    )

DRIVER = "gpu.example.com"


def node(
    name: str, *, labels: Mapping[str, str] | None = None, cpu: str = "16", memory: str = "64Gi"
) -> Node:
    """A node that is ready and that nobody runs: pods are bound to it and stay there."""
    capacity = {"cpu": cpu, "memory": memory, "pods": "110"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name, **(labels or {})}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test", "message": ""}],
        },
    }


def device(
    name: str,
    *,
    attributes: Mapping[str, str | int | bool] | None = None,
    capacity: Mapping[str, str] | None = None,
) -> Device:
    """A device; attributes are strings, whole numbers or booleans, capacities are quantities."""
    made: Device = {"name": name}
    if attributes:
        made["attributes"] = {key: _attribute(value) for key, value in attributes.items()}
    if capacity:
        made["capacity"] = {key: {"value": value} for key, value in capacity.items()}
    return made


def _attribute(value: str | int | bool) -> DeviceAttribute:
    if isinstance(value, bool):
        return {"bool": value}
    return {"int": value} if isinstance(value, int) else {"string": value}


def resource_slice(
    node_name: str, devices: Sequence[Device] | int = 8, *, driver: str = DRIVER, generation: int = 1
) -> ResourceSlice:
    """All devices of a driver on a node, as one slice; a number stands for so many plain devices."""
    if isinstance(devices, int):
        devices = [device(f"device-{i}") for i in range(devices)]
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"{node_name}-{driver}"},
        "spec": {
            "driver": driver,
            "nodeName": node_name,
            "pool": {"name": node_name, "generation": generation, "resourceSliceCount": 1},
            "devices": list(devices),
        },
    }


def device_class(name: str, *, driver: str = "", expression: str = "") -> DeviceClass:
    """A class of a driver's devices, or of those that a CEL expression is true of."""
    chosen = expression or f'device.driver == "{driver or name}"'
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "DeviceClass",
        "metadata": {"name": name},
        "spec": {"selectors": [{"cel": {"expression": chosen}}]},
    }


def claim(
    name: str, *, device_class: str = DRIVER, count: int = 1, expression: str = "", namespace: str = ""
) -> ResourceClaim:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "spec": _claim_spec(device_class, count, expression),
    }


def claim_template(
    name: str, *, device_class: str = DRIVER, count: int = 1, expression: str = "", namespace: str = ""
) -> ResourceClaimTemplate:
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaimTemplate",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "spec": {"spec": _claim_spec(device_class, count, expression)},
    }


def _claim_spec(device_class: str, count: int, expression: str) -> ResourceClaimSpec:
    request: DeviceRequest = {"name": "device", "exactly": {"deviceClassName": device_class, "count": count}}
    if expression:
        request["exactly"]["selectors"] = [{"cel": {"expression": expression}}]
    return {"devices": {"requests": [request]}}


def pod(
    name: str,
    *,
    claims: Mapping[str, str] | None = None,
    templates: Mapping[str, str] | None = None,
    command: Sequence[str] = ("sleep", "infinity"),
    node_name: str = "",
    namespace: str = "",
) -> Pod:
    """A pod with one container. ``claims`` and ``templates``: the name inside the pod → the claim, or its template."""
    entries: list[PodResourceClaim] = []
    for inside, outside in (claims or {}).items():
        entries.append({"name": inside, "resourceClaimName": outside})
    for inside, outside in (templates or {}).items():
        entries.append({"name": inside, "resourceClaimTemplateName": outside})
    made: Pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace} if namespace else {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": "busybox",
                    "command": list(command),
                    "resources": {"claims": [{"name": entry["name"]} for entry in entries]},
                }
            ],
            "resourceClaims": entries,
        },
    }
    if node_name:
        made["spec"]["nodeName"] = node_name
    return made
