"""Endpoints: the addresses of the pods behind a Service, in the older API, which knows one address family only."""

from __future__ import annotations

import contextlib
from collections.abc import Collection
from typing import TYPE_CHECKING

from dray.api.errors import AlreadyExists, Forbidden, NotFound
from dray.client.resources import ENDPOINTS, ObjectKey
from dray.controllers.controller import ControllerContext, is_namespace_terminating
from dray.controllers.endpointslice import (
    ServiceController,
    hostname_of,
    is_ready,
    labels_of,
    ports_of,
    service_pods,
    target_of,
)

if TYPE_CHECKING:
    from dray.api.types.core import (
        EndpointAddress,
        EndpointPort,
        Endpoints,
        EndpointSubset,
        Pod,
        Service,
    )


def subsets_for(service: Service, pods: Collection[Pod]) -> list[EndpointSubset]:
    """The same as Endpoints, which know one family only."""
    groups: dict[str, tuple[list[EndpointPort], list[EndpointAddress], list[EndpointAddress]]] = {}
    for pod in pods:
        if "deletionTimestamp" in pod["metadata"] and not is_ready(service, pod):
            continue
        ports = ports_of(service, pod)
        _, ready, not_ready = groups.setdefault(repr(ports), (ports, [], []))
        address: EndpointAddress = {"ip": pod["status"]["podIP"], "targetRef": target_of(pod)}
        if pod["spec"].get("nodeName"):
            address["nodeName"] = pod["spec"]["nodeName"]
        if hostname := hostname_of(service, pod):
            address["hostname"] = hostname
        (ready if is_ready(service, pod) else not_ready).append(address)
    return [_subset(*group) for group in groups.values()]


def _subset(
    ports: list[EndpointPort], ready: list[EndpointAddress], not_ready: list[EndpointAddress]
) -> EndpointSubset:
    subset: EndpointSubset = {}
    if ports:
        subset["ports"] = ports
    if ready:
        subset["addresses"] = ready
    if not_ready:
        subset["notReadyAddresses"] = not_ready
    return subset


class EndpointsController(ServiceController):
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
        labels = {**labels_of(service), "endpoints.kubernetes.io/managed-by": "endpoint-controller"}
        made: Endpoints = {"metadata": {"name": key.name, "labels": labels}, "subsets": subsets}
        try:
            await self.context.client.create(ENDPOINTS, key.namespace, made)
        except AlreadyExists:
            return 0.1
        except Forbidden as problem:
            if not is_namespace_terminating(problem):
                raise
        return None
