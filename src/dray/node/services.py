"""What containers are told about Services: the variables by which programs find them, as the kubelet names them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dray.client.client import Client
from dray.client.informers import Informer
from dray.client.resources import SERVICES

if TYPE_CHECKING:
    from dray.api.types.core import Pod, Service, ServicePort

#: The Service of the API server: pods of every namespace are told about it.
API_SERVER = ("default", "kubernetes")
#: Seconds that the first pods wait for the Services to be known; they start without them if they cannot be read.
_PATIENCE = 5.0


class ServiceAddress(NamedTuple):
    ip: str
    port: int


class Services(Protocol):
    """What a pod's worker asks about Services."""

    async def variables(self, pod: Pod) -> dict[str, str]: ...

    async def api_server(self) -> ServiceAddress | None:
        """Where pods look for the API server."""


class NoServices:
    """For runtimes that run no programs."""

    async def variables(self, pod: Pod) -> dict[str, str]:
        return {}

    async def api_server(self) -> ServiceAddress | None:
        return None


def _namespaces(service: Service) -> tuple[str]:
    return (service["metadata"]["namespace"],)


class ServiceLister:
    """Follows all Services; the nodes of one process share it."""

    def __init__(self, client: Client) -> None:
        self._informer = Informer(client, SERVICES, indexers={"namespace": _namespaces})
        self._given_up = False

    async def run(self) -> None:
        await self._informer.run()

    async def variables(self, pod: Pod) -> dict[str, str]:
        await self._known()
        spec = pod["spec"]
        found = {}
        if spec.get("enableServiceLinks", True):
            mine = self._informer.by_index("namespace", pod["metadata"]["namespace"])
            found = {service["metadata"]["name"]: service for service in mine}
        if api := self._informer.get(*API_SERVER):
            found.setdefault(API_SERVER[1], api)
        return dict(variables(found.values()))

    async def api_server(self) -> ServiceAddress | None:
        await self._known()
        service = self._informer.get(*API_SERVER)
        ip = (service.get("spec") or {}).get("clusterIP", "") if service else ""
        if service is None or not ip or ":" in ip:
            return None
        return ServiceAddress(ip, service["spec"]["ports"][0]["port"])

    async def _known(self) -> None:
        if self._informer.has_synced or self._given_up:
            return
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._informer.synced()
        except TimeoutError:
            self._given_up = True


def variables(services: Iterable[Service]) -> Iterator[tuple[str, str]]:
    """The variables of those Services that have an address."""
    for service in services:
        spec = service.get("spec") or {}
        ip, ports = spec.get("clusterIP", ""), spec.get("ports") or ()
        if ip in ("", "None") or not ports:
            continue
        name = _variable(service["metadata"]["name"])
        shown = f"[{ip}]" if ":" in ip else ip
        yield f"{name}_SERVICE_HOST", ip
        yield f"{name}_SERVICE_PORT", str(ports[0]["port"])
        yield f"{name}_PORT", f"{_protocol(ports[0])}://{shown}:{ports[0]['port']}"
        for port in ports:
            number, protocol = port["port"], _protocol(port)
            if port.get("name"):
                yield f"{name}_SERVICE_PORT_{_variable(port['name'])}", str(number)
            prefix = f"{name}_PORT_{number}_{protocol.upper()}"
            yield prefix, f"{protocol}://{shown}:{number}"
            yield f"{prefix}_PROTO", protocol
            yield f"{prefix}_PORT", str(number)
            yield f"{prefix}_ADDR", ip


def _variable(name: str) -> str:
    return name.replace("-", "_").upper()


def _protocol(port: ServicePort) -> str:
    return (port.get("protocol") or "TCP").lower()
