"""Checks of the registration: the driver has a socket and answers GetInfo as it should."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any, NamedTuple

from dray.driver.verify.grpc_client import CALL_TIMEOUT, CallFailed, call, channel
from dray.driver.verify.report import Options, Report
from dray.kubelet_api.services import DRA_PLUGIN, DRA_SERVICES, HEALTH_SERVICES, REGISTRATION, Service, stub

_NUMBER = re.compile(r"v?1(\.\d+)*")  # what drivers of Kubernetes 1.26 to 1.30 announce
_DNS = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")


class RegisteredDriver(NamedTuple):
    """A driver that can be called: with what, where, and whether it also serves the classic generation."""

    services: list[Service]
    endpoint: Path
    classic: bool


async def check_registration(report: Report, options: Options) -> RegisteredDriver | None:
    """How to go on with the driver, if at all. Of several drivers it is the first by name, unless one is named."""
    infos = []
    for path in sorted(options.registry.rglob("*.sock")) if options.registry.is_dir() else []:
        try:
            infos.append((path, await _get_info(path)))
        except CallFailed as e:
            report.note(f"socket {path.name}", f"does not answer GetInfo: {e}")
    wanted = [(p, i) for p, i in infos if i.type == DRA_PLUGIN and options.driver in ("", i.name)]
    who = f"driver {options.driver}" if options.driver else "a driver"
    if not report.expect(
        "registers",
        bool(wanted),
        f"no socket in {options.registry} belongs to {who}; name the directory with --registry",
    ):
        return None
    report.driver = min(info.name for _, info in wanted)
    if others := sorted({info.name for _, info in wanted} - {report.driver}):
        report.note("other drivers", f"{', '.join(others)}: name the one to check")
    path, info = [(p, i) for p, i in wanted if i.name == report.driver][-1]
    report.expect("has a DNS name", bool(_DNS.fullmatch(info.name)) and len(info.name) <= 63, info.name)
    endpoint = Path(options.locate(info.endpoint)) if info.endpoint else path
    report.expect("names a socket to be called on", endpoint.is_socket(), f"{info.endpoint} is no socket")
    announced = list(info.supported_versions)
    services = [DRA_SERVICES[a] for a in announced if a in DRA_SERVICES]
    known = ", ".join(DRA_SERVICES)
    classic = any(_NUMBER.fullmatch(a) for a in announced)
    good = bool(services) or classic
    if not report.expect("announces a known version", good, f"{announced} has none of {known}"):
        return None
    await _notify(path)
    for service in HEALTH_SERVICES:
        if service.announced in announced:
            await _health(report, endpoint, service)
    return RegisteredDriver(services, endpoint, classic)


async def _get_info(path: Path) -> Any:
    async with channel(path) as opened:
        return await call(stub(REGISTRATION, opened).GetInfo, REGISTRATION.module.InfoRequest())


async def _notify(path: Path) -> None:
    status = REGISTRATION.module.RegistrationStatus(plugin_registered=True)
    async with channel(path) as opened:
        await call(stub(REGISTRATION, opened).NotifyRegistrationStatus, status)


async def _health(report: Report, endpoint: Path, service: Service) -> None:
    async with channel(endpoint) as opened:
        messages = service.module
        stream = stub(service, opened).NodeWatchResources(messages.NodeWatchResourcesRequest())
        try:
            async with asyncio.timeout(CALL_TIMEOUT):
                first = await stream.read()
            report.expect("reports health at once", hasattr(first, "devices"), "the stream ended")
        except Exception as e:
            report.expect("reports health at once", False, str(e) or type(e).__name__)
        finally:
            stream.cancel()
