"""The two sockets of a driver: the kubelet registers the driver over one and calls it over the other.

Names are upstream's. During rolling updates they contain the instance's uid, so that two instances run side by side.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dray.driver.model import ClaimRef
from dray.driver.preparation import Preparer
from dray.kubelet_api.services import (
    CLASSIC_VERSION,
    DRA_PLUGIN,
    DRA_SERVICES,
    HEALTH_SERVICES,
    REGISTRATION,
    Service,
    handlers,
)
from dray.wire.unix import SocketPath

log = logging.getLogger(__name__)

#: The longest file name that fits an address relative to an open directory.
_MAX_NAME_BYTES = 80


def registration_socket(registry: Path, driver: str, instance: str) -> Path:
    return registry / _socket_name(f"{driver}-{instance}" if instance else driver, "-reg.sock")


def service_socket(data_dir: Path, instance: str) -> Path:
    return data_dir / _socket_name(f"dra-{instance}" if instance else "dra", ".sock")


def _socket_name(stem: str, suffix: str) -> str:
    """A file name that is as it should be, or at least as unique."""
    longest = _MAX_NAME_BYTES - len(suffix)
    if len(stem) > longest:
        digest = hashlib.sha256(stem.encode()).hexdigest()[:16]
        stem = f"{stem[: longest - 17]}-{digest}"
    return stem + suffix


class Registration:
    """Answers the kubelet's questions about this driver and remembers what it thought of the answers."""

    def __init__(self, *, driver: str, endpoint: Path, announced: Sequence[str]) -> None:
        messages = REGISTRATION.module
        self._info = messages.PluginInfo(
            type=DRA_PLUGIN, name=driver, endpoint=str(endpoint), supported_versions=announced
        )
        self._answer = messages.RegistrationStatusResponse()
        self.registered = asyncio.Event()
        self.error = ""

    async def GetInfo(self, request: Any, context: Any) -> Any:
        return self._info

    async def NotifyRegistrationStatus(self, request: Any, context: Any) -> Any:
        self.error = request.error
        if request.plugin_registered:
            self.registered.set()
        else:
            self.registered.clear()
            log.error("the kubelet refused to register %s: %s", self._info.name, request.error)
        return self._answer


class DraService:
    """NodePrepareResources and NodeUnprepareResources in one version of the interface."""

    def __init__(self, service: Service, preparer: Preparer) -> None:
        self._messages = service.module
        self._shares = "share_id" in self._messages.Device.DESCRIPTOR.fields_by_name
        self._preparer = preparer

    async def NodePrepareResources(self, request: Any, context: Any) -> Any:
        answers = await self._preparer.prepare([ClaimRef(c.namespace, c.name, c.uid) for c in request.claims])
        response = self._messages.NodePrepareResourcesResponse()
        for uid, answer in answers.items():
            entry = response.claims[uid]
            entry.error = answer.error
            for device in answer.devices:
                sent = entry.devices.add(
                    request_names=device.requests,
                    pool_name=device.id.pool,
                    device_name=device.id.device,
                    cdi_device_ids=device.cdi_ids,
                )
                if self._shares and device.id.share:
                    sent.share_id = device.id.share
        return response

    async def NodeUnprepareResources(self, request: Any, context: Any) -> Any:
        errors = await self._preparer.unprepare(
            [ClaimRef(c.namespace, c.name, c.uid) for c in request.claims]
        )
        response = self._messages.NodeUnprepareResourcesResponse()
        for uid, error in errors.items():
            response.claims[uid].error = error
        return response


class Listener:
    """A gRPC server on a unix socket."""

    def __init__(self, path: Path, services: Sequence[tuple[Service, Any]]) -> None:
        self.path = path
        self._services = services
        self._server: Any = None
        self._address: SocketPath | None = None

    async def start(self) -> None:
        import grpc.aio

        self._address = SocketPath(self.path)
        self.path.unlink(missing_ok=True)  # left behind by an instance that was killed
        self._server = grpc.aio.server()
        self._server.add_generic_rpc_handlers(tuple(handlers(s, impl) for s, impl in self._services))
        self._server.add_insecure_port(self._address.grpc)
        await self._server.start()
        self.path.chmod(0o600)

    async def stop(self, *, grace: float | None = None) -> None:
        if self._server is not None:
            await self._server.stop(grace)
            self._server = None
        if self._address is not None:
            self.path.unlink(missing_ok=True)
            self._address.close()
            self._address = None


def dra_services(versions: Sequence[str], preparer: Preparer) -> list[tuple[Service, Any]]:
    return [(DRA_SERVICES[v], DraService(DRA_SERVICES[v], preparer)) for v in versions]


def announced(versions: Sequence[str], *, health: bool, classic: bool = False) -> list[str]:
    """What the driver says it supports: the kubelet takes the first version it knows; old ones look for a number."""
    said = [*versions, *(service.announced for service in HEALTH_SERVICES)] if health else list(versions)
    return [*said, CLASSIC_VERSION] if classic else said


def remove_stale(directory: Path, pattern: str) -> None:
    """Removes sockets on which no process listens: those of instances that were killed."""
    for path in directory.glob(pattern):
        if is_listening(path) is False:
            path.unlink(missing_ok=True)


def is_listening(path: Path) -> bool | None:
    """Whether a process listens on a socket; None if that cannot be found out."""
    with socket.socket(socket.AF_UNIX) as probe, SocketPath(path) as address:
        probe.setblocking(False)
        try:
            probe.connect(address.short)
            return True
        except ConnectionRefusedError:
            return False
        except OSError:
            return None
