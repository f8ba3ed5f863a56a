"""Fields behind feature gates: dropped while the gate is off, unless the old object already used them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from dray.api.groups.core.pod.options import Part
from dray.api.release import Gates

if TYPE_CHECKING:
    from dray.api.types.core import PodSpec, PodStatus

_CONTAINERS: Final = ("containers", "initContainers", "ephemeralContainers")
_STATUSES: Final = ("containerStatuses", "initContainerStatuses", "ephemeralContainerStatuses")

Holders = Callable[[Part], Iterator[Any]]
#: A gate, where its fields stand, and what they are called.
Gated = tuple[str, Holders, tuple[str, ...]]


def _the_spec(spec: Part) -> Iterator[Any]:
    yield spec


def _security_context(spec: Part) -> Iterator[Any]:
    if spec.get("securityContext") is not None:
        yield spec["securityContext"]


def _containers(spec: Part) -> Iterator[Any]:
    for part in _CONTAINERS:
        yield from spec.get(part) or ()


def _container_contexts(spec: Part) -> Iterator[Any]:
    for container in _containers(spec):
        if container.get("securityContext") is not None:
            yield container["securityContext"]


def _container_resources(spec: Part) -> Iterator[Any]:
    for container in _containers(spec):
        if container.get("resources") is not None:
            yield container["resources"]


def _mounts(spec: Part) -> Iterator[Any]:
    for container in _containers(spec):
        yield from container.get("volumeMounts") or ()


def _env_sources(spec: Part) -> Iterator[Any]:
    for container in _containers(spec):
        for variable in container.get("env") or ():
            if variable.get("valueFrom") is not None:
                yield variable["valueFrom"]


def _lifecycles(spec: Part) -> Iterator[Any]:
    for container in _containers(spec):
        if container.get("lifecycle") is not None:
            yield container["lifecycle"]


def _spread(spec: Part) -> Iterator[Any]:
    yield from spec.get("topologySpreadConstraints") or ()


def _pod_terms(spec: Part) -> Iterator[Any]:
    for part in ("podAffinity", "podAntiAffinity"):
        affinity = (spec.get("affinity") or {}).get(part) or {}
        yield from affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
        for weighted in affinity.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            yield weighted.get("podAffinityTerm") or {}


def _volumes(spec: Part) -> Iterator[Any]:
    yield from spec.get("volumes") or ()


def _projections(spec: Part) -> Iterator[Any]:
    for volume in spec.get("volumes") or ():
        yield from (volume.get("projected") or {}).get("sources") or ()


_SPEC_FIELDS: Final[tuple[Gated, ...]] = (
    ("UserNamespacesSupport", _the_spec, ("hostUsers",)),
    ("SupplementalGroupsPolicy", _security_context, ("supplementalGroupsPolicy",)),
    ("PodLevelResources", _the_spec, ("resources",)),
    ("ProcMountType", _container_contexts, ("procMount",)),
    ("NodeInclusionPolicyInPodTopologySpread", _spread, ("nodeAffinityPolicy", "nodeTaintsPolicy")),
    ("MatchLabelKeysInPodTopologySpread", _spread, ("matchLabelKeys",)),
    ("MatchLabelKeysInPodAffinity", _pod_terms, ("matchLabelKeys", "mismatchLabelKeys")),
    ("DynamicResourceAllocation", _container_resources, ("claims",)),
    ("DynamicResourceAllocation", _the_spec, ("resourceClaims",)),
    ("ClusterTrustBundleProjection", _projections, ("clusterTrustBundle",)),
    ("PodCertificateRequest", _projections, ("podCertificate",)),
    ("GenericWorkload", _the_spec, ("schedulingGroup",)),
    ("InPlacePodVerticalScaling", _containers, ("resizePolicy",)),
    ("ContainerRestartRules", _containers, ("restartPolicyRules",)),
    ("RecursiveReadOnlyMounts", _mounts, ("recursiveReadOnly",)),
    ("HostnameOverride", _the_spec, ("hostnameOverride",)),
    ("EnvFiles", _env_sources, ("fileKeyRef",)),
    ("ImageVolume", _volumes, ("image",)),
    ("SELinuxChangePolicy", _security_context, ("seLinuxChangePolicy",)),
    ("ContainerStopSignals", _lifecycles, ("stopSignal",)),
)


def _used(spec: PodSpec | PodStatus, holders: Holders, parts: tuple[str, ...]) -> bool:
    return any(holder.get(part) is not None for holder in holders(spec) for part in parts)


def _drop(value: PodSpec | PodStatus, old: PodSpec | PodStatus | None, closed: tuple[Gated, ...]) -> None:
    for _, holders, parts in closed:
        if old is not None and _used(old, holders, parts):
            continue
        for holder in holders(value):
            for part in parts:
                holder.pop(part, None)


@lru_cache(maxsize=16)
def _closed_in_spec(on: frozenset[str]) -> tuple[Gated, ...]:
    """The fields that no open gate lets through; which gates are open does not change while a server runs."""
    return tuple(gated for gated in _SPEC_FIELDS if gated[0] not in on)


def drop_spec_fields(spec: PodSpec, old: PodSpec | None, gates: Gates) -> None:
    _drop(spec, old, _closed_in_spec(gates.on))


def _the_status(status: Part) -> Iterator[Any]:
    yield status


def _status_containers(status: Part) -> Iterator[Any]:
    for part in _STATUSES:
        yield from status.get(part) or ()


def _devices(status: Part) -> Iterator[Any]:
    for container in _status_containers(status):
        for entry in container.get("allocatedResourcesStatus") or ():
            yield from entry.get("resources") or ()


def _conditions(status: Part) -> Iterator[Any]:
    yield status
    yield from status.get("conditions") or ()


_STATUS_FIELDS: Final[tuple[Gated, ...]] = (
    ("InPlacePodLevelResourcesVerticalScaling", _the_status, ("resources", "allocatedResources")),
    ("InPlacePodVerticalScaling", _status_containers, ("resources", "allocatedResources")),
    ("DynamicResourceAllocation", _the_status, ("resourceClaimStatuses",)),
    ("DRAExtendedResource", _the_status, ("extendedResourceClaimStatus",)),
    ("DRANodeAllocatableResources", _the_status, ("nodeAllocatableResourceClaimStatuses",)),
    ("RecursiveReadOnlyMounts", _status_containers, ("volumeMounts",)),
    ("ResourceHealthStatus", _status_containers, ("allocatedResourcesStatus",)),
    ("ResourceHealthStatusMessage", _devices, ("message",)),
    ("SupplementalGroupsPolicy", _status_containers, ("user",)),
    ("PodObservedGenerationTracking", _conditions, ("observedGeneration",)),
)


@lru_cache(maxsize=16)
def _closed_in_status(on: frozenset[str]) -> tuple[Gated, ...]:
    return tuple(gated for gated in _STATUS_FIELDS if gated[0] not in on)


def drop_status_fields(status: PodStatus, old: PodStatus | None, gates: Gates) -> None:
    _drop(status, old, _closed_in_status(gates.on))
