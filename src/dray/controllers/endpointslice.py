"""Where services lead: the addresses of the pods they select, as EndpointSlices and as Endpoints."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Any, Final

from dray.api.errors import AlreadyExists, Forbidden, NotFound
from dray.api.selectors import from_labels
from dray.client.resources import ENDPOINTS, NODES, PODS, SERVICES, ObjectKey, Resource, key_of
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.pod_status import pod_condition
from dray.controllers.serviceaccount import is_namespace_terminating

if TYPE_CHECKING:
    from dray.api.types.discovery import EndpointSlice

Object = Any  # documents have no types here yet

Document = Any  # documents have no types here yet

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


def service_pods(service: Document, pods: Iterable[Document]) -> list[Document]:
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


def port_of(pod: Document, port: Document) -> int | None:
    """The port of a pod that a service's port leads to."""
    target = port.get("targetPort") or port["port"]
    if isinstance(target, int):
        return target
    for container in (*pod["spec"]["containers"], *(pod["spec"].get("initContainers") or ())):
        for named in container.get("ports") or ():
            if named.get("name") == target and named.get("protocol", "TCP") == port.get("protocol", "TCP"):
                number: int = named["containerPort"]
                return number
    return None


def ports_of(service: Document, pod: Document) -> list[Object]:
    found = []
    for port in (service.get("spec") or {}).get("ports") or ():
        number = port_of(pod, port)
        if number is not None:
            named: Object = {
                "name": port.get("name", ""),
                "port": number,
                "protocol": port.get("protocol", "TCP"),
            }
            if port.get("appProtocol"):
                named["appProtocol"] = port["appProtocol"]
            found.append(named)
    return found


def is_ready(service: Document, pod: Document) -> bool:
    if (service.get("spec") or {}).get("publishNotReadyAddresses"):
        return True
    return _is_serving(pod) and "deletionTimestamp" not in pod["metadata"]


def _is_serving(pod: Document) -> bool:
    return (pod_condition(pod, "Ready") or {}).get("status") == "True"


def _target(pod: Document) -> Object:
    metadata = pod["metadata"]
    return {
        "kind": "Pod",
        "namespace": metadata["namespace"],
        "name": metadata["name"],
        "uid": metadata["uid"],
    }


def _addresses(pod: Document, family: str) -> list[str]:
    status = pod["status"]
    listed = [entry["ip"] for entry in status.get("podIPs") or ()] or [status["podIP"]]
    return [address for address in listed if _FAMILIES[family] in address]


def _hostname(service: Document, pod: Document) -> str:
    """The name by which one pod of a service is found, if it has one."""
    spec = pod["spec"]
    named: str = spec.get("hostname") or ""
    return named if spec.get("subdomain") == service["metadata"]["name"] else ""


def _labels(service: Document) -> dict[str, str]:
    """A service's own labels, and whether it has an address."""
    found = {k: v for k, v in (service["metadata"].get("labels") or {}).items() if k not in _RESERVED}
    if (service.get("spec") or {}).get("clusterIP") in (None, "", "None"):
        found[HEADLESS] = ""
    return found


def endpoint(service: Document, pod: Document, addresses: list[str], *, zone: str = "") -> Object:
    leaving = "deletionTimestamp" in pod["metadata"]
    found: Object = {
        "addresses": addresses,
        "conditions": {
            "ready": is_ready(service, pod),
            "serving": _is_serving(pod),
            "terminating": leaving,
        },
        "targetRef": _target(pod),
    }
    if pod["spec"].get("nodeName"):
        found["nodeName"] = pod["spec"]["nodeName"]
    if zone:
        found["zone"] = zone
    if hostname := _hostname(service, pod):
        found["hostname"] = hostname
    return found


def slices_for(
    service: Document, pods: Collection[Document], zone_of: Callable[[str], str] = lambda node: ""
) -> list[Object]:
    """The slices a service should have, without names: for each address family and set of ports."""
    groups: dict[str, tuple[Object, list[Object]]] = {}
    for family in (service.get("spec") or {}).get("ipFamilies") or ("IPv4",):
        for pod in pods:
            addresses = _addresses(pod, family)
            if addresses:
                ports = ports_of(service, pod)
                head = {"addressType": family, "ports": ports}
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


def subsets_for(service: Document, pods: Collection[Document]) -> list[Object]:
    """The same as Endpoints, which know one family only."""
    groups: dict[str, Object] = {}
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"] and not is_ready(service, pod):
            continue
        ports = ports_of(service, pod)
        subset = groups.setdefault(repr(ports), {"ports": ports} if ports else {})
        address: Object = {"ip": pod["status"]["podIP"], "targetRef": _target(pod)}
        if pod["spec"].get("nodeName"):
            address["nodeName"] = pod["spec"]["nodeName"]
        if hostname := _hostname(service, pod):
            address["hostname"] = hostname
        kind = "addresses" if is_ready(service, pod) else "notReadyAddresses"
        subset.setdefault(kind, []).append(address)
    return list(groups.values())


# -- controllers ----------------------------------------------------------------------------------------------------


class _ServiceController(Controller[ObjectKey]):
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

    def _pod_updated(self, old: Document, new: Document) -> None:
        self._pod_changed(new)
        if old["metadata"].get("labels") != new["metadata"].get("labels"):
            self._pod_changed(old)

    def _pod_changed(self, pod: Document) -> None:
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

    def _selecting(self, key: ObjectKey) -> Object | None:
        """The service, if it is there and says which pods it is about."""
        service = self._services.get(*key)
        if service is None or not (service.get("spec") or {}).get("selector"):
            return None
        return None if "deletionTimestamp" in service["metadata"] else service


class EndpointSliceController(_ServiceController):
    name = "endpointslice-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._resource = context.resource(ENDPOINT_SLICES)
        self._slices = context.informers.get(self._resource, indexers={"service": _service_of})
        self._slices.add_handler(on_delete=self._slice_deleted)
        self._nodes = context.informers.get(NODES)

    def _zone_of(self, name: str) -> str:
        node = self._nodes.get("", name) if name else None
        found: str = (node["metadata"].get("labels") or {}).get(_ZONE, "") if node is not None else ""
        return found

    def _slice_deleted(self, document: Document) -> None:
        for name in _service_of(dict(document)):
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
            same = next((s for s in spare if all(_slice_field(s, n) == made[n] for n in made)), None)
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

    async def _create(self, key: ObjectKey, service: Document, made: Object) -> None:
        owner = {
            "apiVersion": "v1", "kind": "Service", "name": key.name, "uid": service["metadata"]["uid"],
            "controller": True, "blockOwnerDeletion": True,
        }  # fmt: skip
        metadata = {
            "generateName": f"{key.name}-",
            "labels": {**_labels(service), SERVICE_LABEL: key.name, MANAGED_BY: MANAGER},
            "ownerReferences": [owner],
        }
        try:
            await self.context.client.create(self._resource, key.namespace, {"metadata": metadata, **made})  # type: ignore[typeddict-item]
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise


class EndpointsController(_ServiceController):
    name = "endpoints-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context)
        self._endpoints = context.informers.get(ENDPOINTS)

    async def sync(self, key: ObjectKey) -> float | None:
        present = self._endpoints.get(*key)
        service = self._selecting(key)
        if service is None:
            if self._services.get(*key) is None and present is not None:
                with contextlib.suppress(NotFound):
                    uid = present["metadata"]["uid"]
                    await self.context.client.delete(ENDPOINTS, key.namespace, key.name, uid=uid)
            return None
        subsets = subsets_for(service, service_pods(service, self._pods.items()))
        if present is not None:
            if (present.get("subsets") or []) != subsets:
                await self.context.client.update(ENDPOINTS, key.namespace, {**present, "subsets": subsets})
            return None
        labels = {**_labels(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        made: Object = {"metadata": {"name": key.name, "labels": labels}, "subsets": subsets}
        try:
            await self.context.client.create(ENDPOINTS, key.namespace, made)
        except AlreadyExists:
            return 0.1
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise
        return None


def _slice_field(document: Document, name: str) -> Any:
    return document.get(name) or ([] if name != "addressType" else "")


def _service_of(document: Object) -> list[str]:
    """Index: the service whose slice it is, if the slice is ours."""
    labels = document["metadata"].get("labels") or {}
    if labels.get(MANAGED_BY) != MANAGER or SERVICE_LABEL not in labels:
        return []
    return [f"{document['metadata']['namespace']}/{labels[SERVICE_LABEL]}"]
