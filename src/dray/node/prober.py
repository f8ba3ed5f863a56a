"""Probes: startup, liveness and readiness. Each probe counts successes and failures as its pod says."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple, Protocol

from dray.api.protobuf.wire import key, sized
from dray.runtimes.interface import Runtime, RuntimeFailure
from dray.wire.errors import WireError
from dray.wire.http_client import connect, encode

if TYPE_CHECKING:
    from dray.api.types.core import Container, HTTPGetAction, Probe, TCPSocketAction

_MAX_RESPONSE_BYTES = 10 * 1024


class ProbeResult(NamedTuple):
    ok: bool
    text: str = ""


class ResultUpdate(NamedTuple):
    """The result of a probe is known, or has changed."""

    kind: str  # startup, liveness or readiness
    ok: bool
    text: str = ""


class ResultCounter:
    """Counts single outcomes until a threshold is reached. Pure."""

    def __init__(self, probe: Probe, *, initially: bool) -> None:
        self._successes_needed = probe.get("successThreshold") or 1
        self._failures_needed = probe.get("failureThreshold") or 3
        self._run = 0
        self._last: bool | None = None
        self.result = initially
        self.decided = False

    def add(self, ok: bool) -> bool:
        """Takes in an outcome; returns whether the result is to be reported."""
        self._run = self._run + 1 if ok == self._last else 1
        self._last = ok
        if self._run < (self._successes_needed if ok else self._failures_needed):
            return False
        changed = not self.decided or self.result != ok
        self.result, self.decided = ok, True
        return changed or not ok


class Readiness(NamedTuple):
    """What is known about a container before any probe of it has succeeded."""

    started: bool
    ready: bool


def _ignore(kind: str, text: str) -> None:
    return


class Probes(Protocol):
    """How a pod's worker finds out whether a container is well."""

    def initially(self, spec: Container) -> Readiness: ...

    def start(
        self,
        container_id: str,
        spec: Container,
        *,
        address: str,
        report: Callable[[ResultUpdate], None],
        failed: Callable[[str, str], None],
        done: Callable[[str, str], None] = _ignore,
    ) -> asyncio.Task[None] | None:
        """Begins to probe the container; None if there is nothing to probe."""


class ProberManager:
    """Probes containers as their pods say."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def initially(self, spec: Container) -> Readiness:
        started = not spec.get("startupProbe")
        return Readiness(started, ready=started and not spec.get("readinessProbe"))

    def start(
        self,
        container_id: str,
        spec: Container,
        *,
        address: str,
        report: Callable[[ResultUpdate], None],
        failed: Callable[[str, str], None],
        done: Callable[[str, str], None] = _ignore,
    ) -> asyncio.Task[None] | None:
        if not (spec.get("startupProbe") or spec.get("livenessProbe") or spec.get("readinessProbe")):
            return None
        prober = Prober(
            self._runtime, container_id, spec, address=address, report=report, failed=failed, done=done
        )
        return asyncio.create_task(prober.run())


class NoProbes:
    """For runtimes that run no programs: a container is ready as soon as it has started."""

    def initially(self, spec: Container) -> Readiness:
        return Readiness(started=True, ready=True)

    def start(
        self,
        container_id: str,
        spec: Container,
        *,
        address: str,
        report: Callable[[ResultUpdate], None],
        failed: Callable[[str, str], None],
        done: Callable[[str, str], None] = _ignore,
    ) -> asyncio.Task[None] | None:
        return None


class Prober:
    """Probes one running container until it is cancelled."""

    def __init__(
        self,
        runtime: Runtime,
        container_id: str,
        spec: Container,
        *,
        address: str,
        report: Callable[[ResultUpdate], None],
        failed: Callable[[str, str], None],
        done: Callable[[str, str], None] = _ignore,
    ) -> None:
        """``report`` hears of verdicts, ``failed`` of every single failure (kind and text), ``done`` of every
        probe (kind and result)."""
        self._runtime = runtime
        self._id = container_id
        self._spec = spec
        self._address = address
        self._report = report
        self._failed = failed
        self._done = done

    async def run(self) -> None:
        if probe := self._spec.get("startupProbe"):
            await self._startup(probe)
        async with asyncio.TaskGroup() as group:
            if probe := self._spec.get("livenessProbe"):
                group.create_task(self._repeat("liveness", probe))
            if probe := self._spec.get("readinessProbe"):
                group.create_task(self._repeat("readiness", probe))

    async def _startup(self, probe: Probe) -> None:
        counter = ResultCounter(probe, initially=False)
        await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
        while True:
            outcome = await self._once("startup", probe)
            if counter.add(outcome.ok):
                self._report(ResultUpdate("startup", outcome.ok, outcome.text))
                if outcome.ok:
                    return
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _repeat(self, kind: str, probe: Probe) -> None:
        counter = ResultCounter(probe, initially=kind == "liveness")
        await asyncio.sleep(probe.get("initialDelaySeconds") or 0)
        while True:
            outcome = await self._once(kind, probe)
            if counter.add(outcome.ok):
                self._report(ResultUpdate(kind, outcome.ok, outcome.text))
            await asyncio.sleep(probe.get("periodSeconds") or 10)

    async def _once(self, kind: str, probe: Probe) -> ProbeResult:
        timeout = float(probe.get("timeoutSeconds") or 1)
        try:
            async with asyncio.timeout(timeout):
                outcome = await self._check(probe, timeout)
        except TimeoutError:
            outcome = ProbeResult(False, f"timed out after {timeout:g}s")
        except (OSError, RuntimeFailure, ValueError) as e:
            outcome = ProbeResult(False, str(e))
        self._done(kind, "successful" if outcome.ok else "failed")
        if not outcome.ok:
            self._failed(kind, outcome.text)
        return outcome

    async def _check(self, probe: Probe, timeout: float) -> ProbeResult:
        if command := probe.get("exec"):
            result = await self._runtime.exec_sync(self._id, command["command"], timeout=timeout)
            text = (result.stdout + result.stderr)[:_MAX_RESPONSE_BYTES].decode(errors="replace").strip()
            return ProbeResult(result.exit_code == 0, text)
        if http := probe.get("httpGet"):
            return await http_get(http, port_number(self._spec, http["port"]), self._address)
        if tcp := probe.get("tcpSocket"):
            await tcp_connect(tcp, port_number(self._spec, tcp["port"]), self._address)
            return ProbeResult(True)
        if grpc := probe.get("grpc"):
            return await grpc_check(self._address, int(grpc["port"]), grpc.get("service") or "")
        return ProbeResult(True)


def port_number(spec: Container, port: int | str) -> int:
    """A port of a container, by number or name. ValueError if it has none of that name."""
    if isinstance(port, int):
        return port
    for known in spec.get("ports") or []:
        if known.get("name") == port:
            return int(known["containerPort"])
    return int(port)


async def tcp_connect(handler: TCPSocketAction, port: int, address: str) -> None:
    """OSError if nobody listens there."""
    _, writer = await asyncio.open_connection(handler.get("host") or address, port)
    writer.close()


async def http_get(handler: HTTPGetAction, port: int, address: str) -> ProbeResult:
    """A status from 200 to 399 is a success."""
    host = handler.get("host") or address
    secure = (handler.get("scheme") or "HTTP").upper() == "HTTPS"
    context = ssl._create_unverified_context() if secure else None
    headers = {
        "Host": f"{host}:{port}",
        "User-Agent": "kube-probe/1.36",
        "Accept": "*/*",
        "Connection": "close",
    }
    headers |= {h["name"]: h["value"] for h in handler.get("httpHeaders") or []}
    request = encode("GET", handler.get("path") or "/", headers.items())
    connection = await connect(host, port, tls=context)
    try:
        connection.send(request)
        code = (await connection.head()).status
    except WireError as e:
        if isinstance(e.reason, OSError):
            raise e.reason from None
        code = 0  # the container hung up without an answer, or answered something that is no HTTP
    finally:
        connection.close()
    if 200 <= code < 400:
        return ProbeResult(True)
    return ProbeResult(False, f"HTTP probe failed with statuscode: {code}")


async def grpc_check(address: str, port: int, service: str) -> ProbeResult:
    """gRPC's own health protocol, whose two messages are simple enough to be spelled out."""
    import grpc.aio

    request = key(1, 2) + sized(service.encode()) if service else b""
    async with grpc.aio.insecure_channel(f"{address}:{port}") as channel:
        call = channel.unary_unary("/grpc.health.v1.Health/Check", lambda m: m, lambda m: m)
        try:
            answer = await call(request)
        except grpc.aio.AioRpcError as e:
            return ProbeResult(False, f"rpc error: {e.details()}")
    serving = answer[:2] == b"\x08\x01"
    return ProbeResult(serving, "" if serving else "service unhealthy (responded with NOT_SERVING)")
