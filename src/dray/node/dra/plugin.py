"""A driver as the node sees it: something that prepares claims, reached over gRPC or assumed to be there."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from dray.kubelet_api.services import NODE_V1ALPHA3, Service, stub
from dray.node.dra import grpc_versions
from dray.node.dra.classic import services as classic_services
from dray.node.dra.grpc_versions import CallFailed, ChosenServices, ClaimRef, PrepareResult, Unimplemented
from dray.node.metrics import Metrics
from dray.wire.unix import SocketPath

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceModel

log = logging.getLogger(__name__)

#: Seconds that a driver has for a call.
CALL_TIMEOUT = 45.0


class Plugin(Protocol):
    """A driver that can be called. Answers are by claim uid; claims may be missing from them."""

    driver: str

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]: ...

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]: ...


class Plugins(Protocol):
    """Where plugins are looked up."""

    def get(self, driver: str) -> Plugin | None: ...


class HealthReport(NamedTuple):
    pool: str
    device: str
    health: str  # Healthy, Unhealthy or Unknown
    message: str
    timeout: float


HEALTH_NAMES = {0: "Unknown", 1: "Healthy", 2: "Unhealthy"}


T = TypeVar("T")
Verb = Callable[[Service, grpc_versions.Call, Sequence[ClaimRef]], Awaitable[dict[str, T]]]


class DRAPlugin:
    """One instance of a driver behind a unix socket."""

    def __init__(
        self,
        driver: str,
        endpoint: Path,
        services: ChosenServices,
        *,
        metrics: Metrics,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        import grpc.aio

        self.driver = driver
        self.endpoint = endpoint
        self.services = services
        self.connected = False
        self._metrics = metrics
        self._timeout = timeout
        self._address = SocketPath(endpoint)
        # A driver that was restarted should be found again at once, not after gRPC's usual back-off.
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 2000)]
        self._channel = grpc.aio.insecure_channel(self._address.grpc, options=options)
        self._stubs: dict[Service, Any] = {}

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
        return await self._call_by_generation(grpc_versions.prepare, classic_services.prepare, claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return await self._call_by_generation(grpc_versions.unprepare, classic_services.unprepare, claims)

    async def watch_resources(self) -> AsyncIterator[Sequence[ResourceModel]]:
        """What the driver says the node has, for 1.30's slices; ends, or raises CallFailed, when it says no more."""
        import grpc.aio

        from dray.kubelet_api.structured import model_document

        try:
            async for response in self._stub(NODE_V1ALPHA3).NodeListAndWatchResources(
                NODE_V1ALPHA3.module.NodeListAndWatchResourcesRequest()
            ):
                yield [model_document(resource) for resource in response.resources]
        except grpc.aio.AioRpcError as e:
            raise _failure(e) from e

    async def watch_health(self, service: Service) -> AsyncIterator[Sequence[HealthReport]]:
        """The driver's reports; ends, or raises CallFailed, when the driver does not (or no longer) give any."""
        import grpc.aio

        health = stub(service, self._channel)
        try:
            async for response in health.NodeWatchResources(service.module.NodeWatchResourcesRequest()):
                yield [
                    HealthReport(
                        d.device.pool_name,
                        d.device.device_name,
                        HEALTH_NAMES.get(d.health, "Unknown"),
                        d.message if len(d.message) <= 1024 else d.message[:1021] + "...",
                        d.health_check_timeout_seconds if d.health_check_timeout_seconds > 0 else 0.0,
                    )
                    for d in response.devices
                ]
        except grpc.aio.AioRpcError as e:
            raise _failure(e) from e

    async def follow_connection(self, changed: Callable[[], None]) -> None:
        """Keeps ``connected`` true to life, and the connection up."""
        import grpc

        while True:
            state = self._channel.get_state(try_to_connect=True)
            connected = state is grpc.ChannelConnectivity.READY
            if connected != self.connected:
                self.connected = connected
                changed()
            if state is grpc.ChannelConnectivity.SHUTDOWN:
                return
            await self._channel.wait_for_state_change(state)

    async def close(self) -> None:
        await self._channel.close(None)
        self._address.close()

    async def _call_by_generation(
        self, verb: Verb[T], classic_verb: Verb[T], claims: Sequence[ClaimRef]
    ) -> dict[str, T]:
        """Calls the services for claims that name devices and those for classic claims, each with its claims."""
        answers: dict[str, T] = {}
        if today := [c for c in claims if not c.handles]:
            if self.services.devices is None:
                raise CallFailed(f"driver {self.driver} offers no service for claims that name devices")
            answers |= await verb(self.services.devices, self._caller(self.services.devices), today)
        if classic := [c for c in claims if c.handles]:
            answers |= await self._call_classic(classic_verb, classic)
        return answers

    async def _call_classic(self, verb: Verb[T], claims: Sequence[ClaimRef]) -> dict[str, T]:
        problem = CallFailed(f"driver {self.driver} offers no service for classic claims")
        for service in self.services.handles:
            try:
                answers = await verb(service, self._caller(service), claims)
            except Unimplemented as e:
                problem = e  # an older driver, then
                continue
            self.services = self.services._replace(handles=(service,))
            return answers
        raise problem

    def _stub(self, service: Service) -> Any:
        if service not in self._stubs:
            self._stubs[service] = stub(service, self._channel)
        return self._stubs[service]

    def _caller(self, service: Service) -> grpc_versions.Call:
        async def call(method: str, request: Any) -> Any:
            import grpc.aio

            started, code = time.monotonic(), "OK"
            try:
                return await getattr(self._stub(service), method)(request, timeout=self._timeout)
            except grpc.aio.AioRpcError as e:
                code = _go_code_name(e.code().name)
                raise _failure(e) from e
            except asyncio.CancelledError:
                # gRPC cancels the calls of a channel that is closed; the task that made the call goes on.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                code = "Unavailable"
                raise CallFailed(f"rpc error: code = {code} desc = the driver is gone") from None
            finally:
                path = f"/{service.full_name}/{method}"
                self._metrics.dra_calls.observe(time.monotonic() - started, self.driver, path, code)

        return call


class AssumedPlugins:
    """For simulated nodes: every driver is there and everything succeeds."""

    class _Plugin:
        def __init__(self, driver: str) -> None:
            self.driver = driver

        async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, PrepareResult]:
            return {c.uid: PrepareResult() for c in claims}

        async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
            return {c.uid: "" for c in claims}

    def get(self, driver: str) -> Plugin:
        return self._Plugin(driver)


def _failure(error: Any) -> CallFailed:
    """A gRPC error in Go's words."""
    code = _go_code_name(error.code().name)
    kind = Unimplemented if code == "Unimplemented" else CallFailed
    return kind(f"rpc error: code = {code} desc = {error.details()}")


def _go_code_name(name: str) -> str:
    """DEADLINE_EXCEEDED as Go prints it: DeadlineExceeded."""
    return "OK" if name == "OK" else "".join(part.capitalize() for part in name.split("_"))
