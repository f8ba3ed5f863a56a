"""Unhealthy devices: those that the kubelet reports in the status of pods, and drivers in the status of claims."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dray.allocation import DeviceID
from dray.api import claims
from dray.api.identity import ObjectKey, device_id
from dray.explain.model.cluster import Cluster

if TYPE_CHECKING:
    from dray.api.types.core import Pod, ResourceHealth
    from dray.api.types.resource import ResourceClaim


def unhealthy(cluster: Cluster) -> dict[DeviceID, str]:
    """The unhealthy devices, each with the message of the kubelet or the driver."""
    found: dict[DeviceID, str] = {}
    for key, pod in cluster.pods.items():
        found.update(reported_by_pod(cluster, key, pod))
    for key, claim in cluster.claims.items():
        for device, words in reported_by_claim(key, claim):
            found.setdefault(device, words)
    return found


def reported_by_pod(cluster: Cluster, key: ObjectKey, pod: Pod) -> Iterator[tuple[DeviceID, str]]:
    """The unhealthy devices of a pod, as the kubelet reports them."""
    for name, resource in _reports(pod):
        if resource.get("health") == "Unhealthy":
            words = resource.get("message") or f"reported unhealthy in pod {key}"
            for device in _devices(cluster, key, pod, name, resource.get("resourceID", "")):
                yield device, words


def reported_by_claim(key: ObjectKey, claim: ResourceClaim) -> Iterator[tuple[DeviceID, str]]:
    """The devices of a claim that are not ready, as their drivers report them."""
    for entry in (claim.get("status") or {}).get("devices") or ():
        for condition in entry.get("conditions") or ():
            if condition.get("type") == "Ready" and condition.get("status") == "False":
                words = condition.get("message") or condition.get("reason") or "not ready"
                yield DeviceID(entry["driver"], entry["pool"], entry["device"]), f"{words} (claim {key})"


def _reports(pod: Pod) -> Iterator[tuple[str, ResourceHealth]]:
    status = pod.get("status") or {}
    for group in ("containerStatuses", "initContainerStatuses"):
        for container in status.get(group) or ():
            for entry in container.get("allocatedResourcesStatus") or ():
                for resource in entry.get("resources") or ():
                    yield entry.get("name", ""), resource


def _devices(cluster: Cluster, key: ObjectKey, pod: Pod, name: str, resource_id: str) -> Iterator[DeviceID]:
    """The devices behind ``claim:NAME`` or ``claim:NAME/REQUEST``; the id tells several of them apart."""
    if not name.startswith("claim:"):
        return
    entry, _, request = name.removeprefix("claim:").partition("/")
    for reference in claims.references(pod):
        claim = cluster.claims.get(ObjectKey(key.namespace, reference.claim or ""))
        if reference.entry != entry or claim is None:
            continue
        results = ((claims.allocation(claim) or {}).get("devices") or {}).get("results") or ()
        wanted = [r for r in results if not request or r["request"].partition("/")[0] == request]
        for result in wanted:
            if len(wanted) == 1 or resource_id.endswith(result["device"]):
                yield device_id(result)
