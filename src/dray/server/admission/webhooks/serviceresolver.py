"""The address of a webhook: its URL, or that of one of its service's endpoints, because the server does not route cluster addresses."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dray.api.validation.field import quote
from dray.server.admission.listers import Listers
from dray.server.admission.webhooks.client import Address, CallError, Endpoint

if TYPE_CHECKING:
    from dray.api.types import core, discovery
    from dray.api.types.admissionregistration import WebhookClientConfig
    from dray.api.types.core import Endpoints, Service
    from dray.api.types.discovery import EndpointSlice

_SERVICE_LABEL = "kubernetes.io/service-name"


def endpoint_of(config: WebhookClientConfig, listers: Listers) -> Endpoint:
    """Where a webhook is called: at its URL, or at an endpoint of its service."""
    ca, service = config.get("caBundle") or "", config.get("service")
    if service is None:
        return Endpoint.of_url(config.get("url", ""), ca)
    namespace, name = service.get("namespace", ""), service.get("name", "")
    port = service.get("port") or 443
    host = f"{name}.{namespace}.svc"
    path = "/" + (service.get("path") or "").lstrip("/")
    return Endpoint(
        f"https://{host}:{port}{path}", host, lambda: resolve_endpoint(listers, namespace, name, port), ca
    )


def resolve_endpoint(listers: Listers, namespace: str, name: str, port: int) -> Address:
    """The address behind a port of a service; CallError if there is none."""
    service: Service | None = listers.get("", "services", f"{namespace}/{name}")
    if service is None:
        raise CallError(f'services "{name}" not found')
    spec = service.get("spec", {})
    if spec.get("type") == "ExternalName":
        return Address(spec.get("externalName", ""), port)
    entry = next((p for p in spec.get("ports") or () if p.get("port") == port), None)
    if entry is None:
        raise CallError(f"no service port {port} found for service {quote(name)}")
    for address in _endpoints(listers, namespace, name, entry.get("name", "")):
        return address
    raise CallError(f"no endpoints available for service {quote(name)}")


def _endpoints(listers: Listers, namespace: str, name: str, port: str) -> Iterator[Address]:
    slices: Iterable[EndpointSlice] = listers.all("discovery.k8s.io", "endpointslices", namespace)
    for endpoint_slice in slices:
        if (endpoint_slice["metadata"].get("labels") or {}).get(_SERVICE_LABEL) != name:
            continue
        for number in _ports(endpoint_slice.get("ports"), port):
            for endpoint in endpoint_slice.get("endpoints") or ():
                if (endpoint.get("conditions") or {}).get("ready") is not False:
                    yield from (Address(host, number) for host in endpoint.get("addresses") or ())
    endpoints: Endpoints | None = listers.get("", "endpoints", f"{namespace}/{name}")
    for subset in (None if endpoints is None else endpoints.get("subsets")) or ():
        for number in _ports(subset.get("ports"), port):
            yield from (Address(a.get("ip", ""), number) for a in subset.get("addresses") or ())


def _ports(ports: Sequence[discovery.EndpointPort | core.EndpointPort] | None, name: str) -> Iterator[int]:
    for port in ports or ():
        if port.get("name", "") == name and (number := port.get("port")):
            yield number
