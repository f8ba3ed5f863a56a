"""Where a webhook's service is: at one of its endpoints, for nothing here routes service addresses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dray.api.scheme.kinds import Object
from dray.api.validation.field import quote
from dray.server.admission.listers import Listers
from dray.server.admission.webhooks.client import Address, CallError

_SERVICE_LABEL = "kubernetes.io/service-name"


def resolve_endpoint(listers: Listers, namespace: str, name: str, port: int) -> Address:
    """The address behind a port of a service; CallError if there is none."""
    service = listers.get("", "services", f"{namespace}/{name}")
    if service is None:
        raise CallError(f'services "{name}" not found')
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return Address(spec.get("externalName", ""), port)
    entry = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
    if entry is None:
        raise CallError(f"no service port {port} found for service {quote(name)}")
    for address in _endpoints(listers, namespace, name, entry):
        return address
    raise CallError(f"no endpoints available for service {quote(name)}")


def _endpoints(listers: Listers, namespace: str, name: str, entry: Object) -> Iterator[Address]:
    wanted = entry.get("name", "")
    for part in listers.all("discovery.k8s.io", "endpointslices", namespace):
        if (part["metadata"].get("labels") or {}).get(_SERVICE_LABEL) != name:
            continue
        for number in _ports(part.get("ports"), wanted):
            for endpoint in part.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield from (Address(host, number) for host in endpoint.get("addresses") or ())
    endpoints = listers.get("", "endpoints", f"{namespace}/{name}") or {}
    for subset in endpoints.get("subsets") or ():
        for number in _ports(subset.get("ports"), wanted):
            yield from (Address(a.get("ip", ""), number) for a in subset.get("addresses") or ())


def _ports(ports: Any, wanted: str) -> Iterator[int]:
    for port in ports or ():
        if port.get("name", "") == wanted and port.get("port"):
            yield port["port"]
