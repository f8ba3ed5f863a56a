"""EndpointSlices: the addresses of the pods that each Service selects."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Final, cast

from dray.api.errors import Forbidden, NotFound
from dray.api.pods import is_ready as is_pod_ready
from dray.api.selectors import from_labels
from dray.client.resources import NODES, PODS, SERVICES, ObjectKey, Resource, key_of
from dray.controllers.controller import Controller, ControllerContext, is_namespace_terminating

if TYPE_CHECKING:
    from dray.api.types.core import (
        EndpointPort,
        ObjectReference,
        Pod,
        Service,
        ServicePort,
    )
    from dray.api.types.discovery import Endpoint, EndpointSlice
    from dray.api.types.discovery import EndpointPort as SlicePort
    from dray.api.types.meta import ObjectMeta, OwnerReference


ENDPOINT_SLICES: Final[Resource[EndpointSlice]] = Resource(
    "discovery.k8s.io", "v1", "endpointslices", "EndpointSlice"
)
SERVICE_LABEL: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
MANAGER: Final = "endpointslice-controller.k8s.io"
HEADLESS: Final = "service.kubernetes.io/headless"
_ZONE: Final = "topology.kubernetes.io/zone"
_RESERVED: Final = frozenset({SERVICE_LABEL, MANAGED_BY, HEADLESS})
_PER_SLICE: Final = 100
_FAMILIES: Final = {"IPv4": ".", "IPv6": ":"}


# -- decisions ------------------------------------------------------------------------------------------------------


def service_pods(service: Service, pods: Iterable[Pod]) -> list[Pod]:
    """The pods behind a service, by name: those that have an address and have not ended."""
    selector = (service.get("spec") or {}).get("selector")
    if not selector:
        return []
    test = from_labels(selector)
    namespace = service["metadata"]["namespace"]
    found = [
        pod
        for pod in pods
        if pod["metadata"]["namespace"] == namespace
        and (pod.get("status") or {}).get("podIP")
        and pod["status"].get("phase") not in ("Succeeded", "Failed")
        and test.matches(pod["metadata"].get("labels") or {})
    ]
    return sorted(found, key=lambda pod: pod["metadata"]["name"])


def port_of(pod: Pod, port: ServicePort) -> int | None:
    """The port of a pod that a service's port leads to."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        for named in container.get("ports") or ():
            if named.get("name") == target and named.get("protocol", "TCP") == port.get("protocol", "TCP"):
                return named["containerPort"]
    return None


def ports_of(service: Service, pod: Pod) -> list[EndpointPort]:
    found: list[EndpointPort] = []
    for port in (service.get("spec") or {}).get("ports") or ():
        number = port_of(pod, port)
        if number is not None:
            named: EndpointPort = {
                "name": port.get("name", ""),
                "port": number,
                "protocol": port.get("protocol", "TCP"),
            }
            if port.get("appProtocol"):
                named["appProtocol"] = port["appProtocol"]
            found.append(named)
    return found


def is_ready(service: Service, pod: Pod) -> bool:
    if (service.get("spec") or {}).get("publishNotReadyAddresses"):
        return True
    return is_pod_ready(pod) and "deletionTimestamp" not in pod["metadata"]


def target_of(pod: Pod) -> ObjectReference:
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _addresses(pod: Pod, family: str) -> list[str]:
    status = pod["status"]
    listed = [entry["ip"] for entry in status.get("podIPs") or ()] or [status["podIP"]]
    return [address for address in listed if _FAMILIES[family] in address]


def hostname_of(service: Service, pod: Pod) -> str:
    """The name by which one pod of a service is found, if it has one."""
    spec = pod["spec"]
    return spec.get("hostname") or "" if spec.get("subdomain") == service["metadata"]["name"] else ""


def labels_of(service: Service) -> dict[str, str]:
    """A service's own labels, and whether it has an address."""
    found = {k: v for k, v in (service["metadata"].get("labels") or {}).items() if k not in _RESERVED}
    if (service.get("spec") or {}).get("clusterIP") in (None, "", "None"):
        found[HEADLESS] = ""
    return found


def endpoint(service: Service, pod: Pod, addresses: list[str], *, zone: str = "") -> Endpoint:
    leaving = "deletionTimestamp" in pod["metadata"]
    found: Endpoint = {
        "addresses": addresses,
        "conditions": {
            "ready": is_ready(service, pod),
            "serving": is_pod_ready(pod),
            "terminating": leaving,
        },
        "targetRef": target_of(pod),
    }
    if pod["spec"].get("nodeName"):
        found["nodeName"] = pod["spec"]["nodeName"]
    if zone:
        found["zone"] = zone
    if hostname := hostname_of(service, pod):
        found["hostname"] = hostname
    return found


def slices_for(
    service: Service, pods: Collection[Pod], zone_of: Callable[[str], str] = lambda node: ""
) -> list[EndpointSlice]:
    """The slices a service should have, without names: for each address family and set of ports."""
    groups: dict[str, tuple[EndpointSlice, list[Endpoint]]] = {}
    for family in (service.get("spec") or {}).get("ipFamilies") or ("IPv4",):
        for pod in pods:
            addresses = _addresses(pod, family)
            if addresses:
                ports = ports_of(service, pod)
                head: EndpointSlice = {"addressType": family, "ports": cast("Sequence[SlicePort]", ports)}
                zone = zone_of(pod["spec"].get("nodeName", ""))
                made = endpoint(service, pod, addresses, zone=zone)
                groups.setdefault(repr(head), (head, []))[1].append(made)
    if not groups:
        family = ((service.get("spec") or {}).get("ipFamilies") or ("IPv4",))[0]
        groups["empty"] = ({"addressType": family, "ports": []}, [])
    return [
        {**head, "endpoints": listed[at : at + _PER_SLICE]}
        for head, listed in groups.values()
        for at in range(0, max(len(listed), 1), _PER_SLICE)
    ]


# -- controllers ----------------------------------------------------------------------------------------------------


class ServiceController(Controller[ObjectKey]):
    """Keys are services."""

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._services = context.informers.get(SERVICES)
        self._pods = context.informers.get(PODS)
        self._services.add_handler(
            on_set=lambda n: self.enqueue(key_of(n)), on_delete=lambda o: self.enqueue(key_of(o))
        )
        self._pods.add_handler(
            on_add=self._pod_changed, on_update=self._pod_updated, on_delete=self._pod_changed
        )

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._pod_changed(old)

    def _pod_changed(self, pod: Pod) -> None:
        if "podIP" in (pod.get("status") or ()):
            labels = pod["metadata"].get("labels") or {}
            for service in self._services.items():
                selector = (service.get("spec") or {}).get("selector")
                if (
                    selector
                    and service["metadata"]["namespace"] == pod["metadata"]["namespace"]
                    and selector.items() <= labels.items()
                ):
                    self.enqueue(key_of(service))

    def _selecting(self, key: ObjectKey) -> Service | None:
        """The service, if it is there and says which pods it is about."""
        service = self._services.get(*key)
        if service is None or not (service.get("spec") or {}).get("selector"):
            return None
        return None if "deletionTimestamp" in service["metadata"] else service


class EndpointSliceController(ServiceController):
    name = "endpointslice-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.resource(ENDPOINT_SLICES)
        self._slices = context.informers.get(self._resource, indexers={"service": _service_of})
        self._slices.add_handler(on_delete=self._slice_deleted)
        self._nodes = context.informers.get(NODES)

    def _zone_of(self, name: str) -> str:
        node = self._nodes.get("", name) if name else None
        return (node["metadata"].get("labels") or {}).get(_ZONE, "") if node is not None else ""

    def _slice_deleted(self, document: EndpointSlice) -> None:
        for name in _service_of(document):
            namespace, _, service = name.partition("/")
            self.enqueue(ObjectKey(namespace, service))

    async def sync(self, key: ObjectKey) -> float | None:
        service = self._selecting(key)
        if service is None:
            return None  # its slices go with it, by their owner reference
        wanted = slices_for(service, service_pods(service, self._pods.items()), self._zone_of)
        present = self._slices.by_index("service", f"{key.namespace}/{key.name}")
        spare = sorted(present, key=lambda s: str(s["metadata"]["name"]))
        for made in wanted:
            same = next((s for s in spare if _is_same(s, made)), None)
            if same is not None:
                spare.remove(same)
                continue
            alike = next((s for s in spare if s["addressType"] == made["addressType"]), None)
            if alike is not None:
                spare.remove(alike)
                await self.context.client.update(self._resource, key.namespace, {**alike, **made})
            else:
                await self._create(key, service, made)
        for left in spare:
            metadata = left["metadata"]
            with contextlib.suppress(NotFound):
                await self.context.client.delete(
                    self._resource, key.namespace, metadata["name"], uid=metadata["uid"]
                )
        return None

    async def _create(self, key: ObjectKey, service: Service, made: EndpointSlice) -> None:
        owner: OwnerReference = {
            "apiVersion": "v1", "kind": "Service", "name": key.name, "uid": service["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        metadata: ObjectMeta = {
            "generateName": f"{key.name}-",
            "labels": {**labels_of(service), SERVICE_LABEL: key.name, MANAGED_BY: MANAGER},
            "ownerReferences": [owner],
        }
        try:
            await self.context.client.create(self._resource, key.namespace, {"metadata": metadata, **made})
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise


def _is_same(present: EndpointSlice, wanted: EndpointSlice) -> bool:
    return (
        present["addressType"] == wanted["addressType"]
        and (present.get("ports") or []) == wanted["ports"]
        and (present.get("endpoints") or []) == wanted["endpoints"]
    )


def _service_of(document: EndpointSlice) -> list[str]:
    """Index: the service whose slice it is, if the slice is ours."""
    labels = document["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_LABEL not in labels:
        return []
    return [f"{document['metadata']['namespace']}/{labels[SERVICE_LABEL]}"]
