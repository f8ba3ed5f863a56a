"""Extended resources that device classes serve: ``limits: vendor.com/gpu: 1`` becomes requests of a claim.

Containers that run together need devices of their own; an init container that ends before the others start may use
their devices. The names of the requests and the mapping from container to request are those that upstream writes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dray.api.claims import EXTENDED_RESOURCE_ANNOTATION
from dray.api.compute import whole
from dray.api.pods import controller_reference
from dray.placement.cache.pods import PodInfo

if TYPE_CHECKING:
    from dray.api.types.core import Container, ContainerExtendedResourceRequest
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource import DeviceClass, DeviceRequest, ResourceClaim

#: any class can be asked for by this prefix and its name, without an extendedResourceName of its own
IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"

ClassOf = Callable[[str], str | None]


class ClaimRequests(NamedTuple):
    """The requests of the claim for extended resources, and which of them serves which container's resource."""

    requests: list[DeviceRequest]
    mappings: list[ContainerExtendedResourceRequest]


def is_extended(name: str) -> bool:
    """Whether a resource name may be served by devices."""
    if name.startswith(IMPLICIT_PREFIX):
        return True
    return "/" in name and not name.startswith("requests.") and "kubernetes.io/" not in name


class DeviceClassResolver:
    """Which DeviceClass serves an extended resource: of several the newest, of equally old ones the first by name."""

    def __init__(self) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._by_resource: dict[str, list[str]] = {}

    def set(self, document: DeviceClass) -> None:
        name = document["metadata"]["name"]
        self.remove(name)
        self._classes[name] = document
        resource = (document.get("spec") or {}).get("extendedResourceName")
        if resource:
            names = self._by_resource.setdefault(resource, [])
            names.append(name)
            names.sort()
            names.sort(
                key=lambda n: self._classes[n]["metadata"].get("creationTimestamp") or "", reverse=True
            )

    def remove(self, name: str) -> None:
        document = self._classes.pop(name, None)
        if document is None:
            return
        for resource, names in list(self._by_resource.items()):
            if name in names:
                names.remove(name)
                if not names:
                    del self._by_resource[resource]

    def __contains__(self, resource: object) -> bool:
        return isinstance(resource, str) and self.device_class_of(resource) is not None

    def device_class_of(self, resource: str) -> str | None:
        names = self._by_resource.get(resource)
        if names:
            return names[0]
        name = resource.removeprefix(IMPLICIT_PREFIX)
        return name if name != resource and name in self._classes else None


def served_resources(pod: PodInfo, classes: DeviceClassResolver) -> dict[str, int]:
    """The extended resources of a pod that some class serves."""
    return {
        name: amount
        for name, amount in pod.requests.scalars.items()
        if amount and is_extended(name) and classes.device_class_of(name) is not None
    }


def new_claim(pod: PodInfo, requests: Sequence[DeviceRequest]) -> ResourceClaim:
    """The claim that will be created for the pod's extended resources."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "generateName": f"{pod.name}-extended-resources-",
            "namespace": pod.namespace,
            "annotations": {EXTENDED_RESOURCE_ANNOTATION: "true"},
            "ownerReferences": [controller_reference(pod.name, pod.uid)],
        },
        "spec": {"devices": {"requests": requests}},
    }


def request_summary(asked: Iterable[DeviceRequest]) -> list[tuple[str, str, int]]:
    """What requests ask for, with or without the defaults that the API server fills in."""
    return sorted(
        (r["name"], e["deviceClassName"], e.get("count") or 1) for r in asked for e in (r["exactly"],)
    )


def requests(pod: PodInfo, resources: Iterable[str], class_of: ClassOf) -> ClaimRequests:
    spec = pod.document["spec"]
    init = list(spec.get("initContainers") or ())
    containers = [*init, *(spec.get("containers") or ())]
    short = [i for i, c in enumerate(init) if c.get("restartPolicy") != "Always"]
    long = [i for i in range(len(containers)) if i not in short]
    result = ClaimRequests([], [])
    for resource in sorted(resources):
        served_by = class_of(resource)
        if served_by is None:
            continue
        lasting: list[DeviceRequest | None] = [None] * len(containers)
        lasting_mappings: list[ContainerExtendedResourceRequest] = []
        for i in long:
            lasting[i], mapped = _request(i, containers[i], resource, served_by, ())
            lasting_mappings += mapped
        largest: DeviceRequest | None = None
        names: set[str] = set()
        passing_mappings: list[ContainerExtendedResourceRequest] = []
        for i in short:
            request, mapped = _request(i, containers[i], resource, served_by, lasting[i:])
            if request is not None:
                names.add(request["name"])
                if largest is None or largest["exactly"]["count"] < request["exactly"]["count"]:
                    largest = request
            passing_mappings += mapped
        if largest is not None:
            # Init containers run one after the other: the largest request serves them all.
            for mapping in passing_mappings:
                if mapping["requestName"] in names:
                    mapping["requestName"] = largest["name"]
            result.requests.append(largest)
        result.requests.extend(r for r in lasting if r is not None)
        result.mappings.extend((*lasting_mappings, *passing_mappings))
    result.requests.sort(key=lambda r: r["name"])
    return result


def _request(
    index: int,
    container: Container,
    resource: str,
    device_class: str,
    reusable: Sequence[DeviceRequest | None],
) -> tuple[DeviceRequest | None, list[ContainerExtendedResourceRequest]]:
    asked = (container.get("resources") or {}).get("requests") or {}
    count = whole(str(asked[resource])) if resource in asked else 0
    if not count:
        return None, []
    mappings: list[ContainerExtendedResourceRequest] = []

    def map_to(request: str) -> None:
        mappings.append(
            {"containerName": container["name"], "resourceName": resource, "requestName": request}
        )

    available = 0
    for other in reusable:
        if other is not None:
            available += other["exactly"]["count"]
            map_to(other["name"])
            if available >= count:
                return None, mappings
    name = f"container-{index}-request-{sorted(asked).index(resource)}"
    map_to(name)
    request: DeviceRequest = {
        "name": name,
        "exactly": {
            "deviceClassName": device_class,
            "allocationMode": "ExactCount",
            "count": count - available,
        },
    }
    return request, mappings


def in_memory_uid(pod: PodInfo) -> str:
    """The uid under which the cache counts a claim that is still to be created."""
    return f"extended-resources-of-{pod.uid}"


def in_memory_claim(claim: ResourceClaim, pod: PodInfo) -> ResourceClaim:
    """A claim that is still to be created, under a name that no claim can have."""
    metadata: ObjectMeta = {
        "namespace": pod.namespace,
        "name": f"<extended resources of {pod.name}>",
        "uid": in_memory_uid(pod),
    }
    return {**claim, "metadata": metadata}
