"""Pods of one shape, with the claims that they use: what a line of a trace or a mix of a generator stands for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from dray.api.claims import POD_CLAIM_ANNOTATION
from dray.api.pods import controller_reference

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodSpec
    from dray.api.types.resource import ExactDeviceRequest, ResourceClaim, ResourceClaimSpec

_ENTRY = "devices"


@dataclass(frozen=True)
class PodShape:
    """What a pod asks for. ``capacity``: what it takes of each device, by the name of the capacity."""

    cpu: str = ""
    memory: str = ""
    count: int = 0
    device_class: str = ""
    capacity: Mapping[str, str] = field(default_factory=dict)
    selector: str = ""
    priority: int = 0

    def make(self, name: str, namespace: str = "default") -> tuple[Pod, tuple[ResourceClaim, ...]]:
        uid = f"{namespace}/{name}"
        pod: Pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": name, "namespace": namespace, "uid": uid},
            "spec": self._pod_spec,
        }
        if not self.count:
            return pod, ()
        pod["status"] = {"resourceClaimStatuses": [{"name": _ENTRY, "resourceClaimName": f"{name}-{_ENTRY}"}]}
        return pod, (claim_for(pod, _ENTRY, self._claim_spec),)

    @cached_property
    def _pod_spec(self) -> PodSpec:
        requests = {key: value for key, value in (("cpu", self.cpu), ("memory", self.memory)) if value}
        spec: PodSpec = {
            "containers": [{"name": "main", "image": "simulated", "resources": {"requests": requests}}],
            "priority": self.priority,
        }
        if self.count:
            spec["containers"][0]["resources"]["claims"] = [{"name": _ENTRY}]
            spec["resourceClaims"] = [{"name": _ENTRY, "resourceClaimTemplateName": _ENTRY}]
        return spec

    @cached_property
    def _claim_spec(self) -> ResourceClaimSpec:
        exactly: ExactDeviceRequest = {
            "deviceClassName": self.device_class,
            "allocationMode": "ExactCount",
            "count": self.count,
        }
        if self.capacity:
            exactly["capacity"] = {"requests": dict(self.capacity)}
        if self.selector:
            exactly["selectors"] = [{"cel": {"expression": self.selector}}]
        return {"devices": {"requests": [{"name": _ENTRY, "exactly": exactly}]}}


def claim_for(pod: Pod, entry: str, spec: ResourceClaimSpec) -> ResourceClaim:
    """The claim that the claim controller would make for an entry of a pod, from a template with this spec."""
    metadata = pod["metadata"]
    name = f"{metadata['name']}-{entry}"
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "namespace": metadata["namespace"],
            "uid": f"{metadata['namespace']}/{name}",
            "annotations": {POD_CLAIM_ANNOTATION: entry},
            "ownerReferences": [
                controller_reference(metadata["name"], metadata["uid"], block_owner_deletion=True)
            ],
        },
        "spec": spec,
    }
