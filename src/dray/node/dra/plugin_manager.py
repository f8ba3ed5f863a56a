"""Drivers as the node sees them: something that prepares claims, reached over gRPC or in this process.

A driver may be there several times while it is being updated; the newest instance that is connected serves. When none
has been for a while, whoever asked to be told is told: the driver's slices are then withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from dray.api.release import EffectiveVersion
from dray.kubelet_api.services import HEALTH_V1ALPHA1, NODE_V1ALPHA3, Service, stub
from dray.node.dra import grpc_versions
from dray.node.dra.grpc_versions import CallFailed, ChosenServices, ClaimRef, PrepareResult, Unimplemented
from dray.node.metrics import Metrics
from dray.wire.unix import SocketPath

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceModel

log = logging.getLogger(__name__)

#: Seconds that a driver has for a call.
CALL_TIMEOUT = 45.0
#: Seconds that a driver may be away before its slices are withdrawn.
WITHDRAW_AFTER = 30.0


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
        return await self._call_by_generation(grpc_versions.prepare, claims)

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        return await self._call_by_generation(grpc_versions.unprepare, claims)

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

    async def watch_health(self) -> AsyncIterator[Sequence[HealthReport]]:
        """The driver's reports; ends, or raises CallFailed, when the driver does not (or no longer) give any."""
        import grpc.aio

        health = stub(HEALTH_V1ALPHA1, self._channel)
        try:
            async for response in health.NodeWatchResources(
                HEALTH_V1ALPHA1.module.NodeWatchResourcesRequest()
            ):
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

    async def _call_by_generation(self, verb: Verb[T], claims: Sequence[ClaimRef]) -> dict[str, T]:
        """Each claim in the way of its generation."""
        answers: dict[str, T] = {}
        if today := [c for c in claims if not c.handles]:
            if self.services.devices is None:
                raise CallFailed(f"driver {self.driver} offers no service for claims that name devices")
            answers |= await verb(self.services.devices, self._caller(self.services.devices), today)
        if classic := [c for c in claims if c.handles]:
            answers |= await self._call_classic(verb, classic)
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
                # gRPC cancels the calls of a channel that is closed; whoever made the call goes on.
                task = asyncio.current_task()
                if task is None or task.cancelling():
                    raise
                code = "Unavailable"
                raise CallFailed(f"rpc error: code = {code} desc = the driver is gone") from None
            finally:
                path = f"/{service.full_name}/{method}"
                self._metrics.dra_calls.observe(time.monotonic() - started, self.driver, path, code)

        return call


class DRAPluginManager:
    """The drivers that have registered on one node."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        release: EffectiveVersion | None = None,
        withdraw: Callable[[str], Awaitable[None]] | None = None,
        withdraw_after: float = WITHDRAW_AFTER,
        on_health: Callable[[str, Sequence[HealthReport] | None], None] | None = None,
        on_usable: Callable[[str], None] | None = None,
        on_resources: Callable[[str, Sequence[ResourceModel] | None], None] | None = None,
    ) -> None:
        """``on_resources`` hears what drivers of 1.30 have on the node, and None when one has gone."""
        self._metrics = metrics
        self._release = release or EffectiveVersion()
        self._on_resources = on_resources
        self._withdraw = withdraw
        self._withdraw_after = withdraw_after
        self._on_health = on_health
        self._on_usable = on_usable
        self._plugins: dict[str, list[DRAPlugin]] = {}
        self._tasks: dict[Path, list[asyncio.Task[None]]] = {}
        self._withdrawals: dict[str, asyncio.Task[None]] = {}

    def get(self, driver: str) -> DRAPlugin | None:
        instances = self._plugins.get(driver, [])
        for instance in reversed(instances):
            if instance.connected:
                return instance
        return instances[-1] if instances else None

    @property
    def drivers(self) -> list[str]:
        return list(self._plugins)

    def add(self, driver: str, endpoint: Path, announced: Sequence[str]) -> None:
        """Takes a driver in; ValueError says why not."""
        try:
            services = grpc_versions.choose_services(announced, self._release)
        except ValueError as e:
            raise ValueError(
                f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {e}"
            ) from e
        instances = self._plugins.setdefault(driver, [])
        if any(i.endpoint == endpoint for i in instances):
            raise ValueError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        plugin = DRAPlugin(driver, endpoint, services, metrics=self._metrics)
        instances.append(plugin)
        tasks = [asyncio.create_task(plugin.follow_connection(lambda: self._connection_changed(driver)))]
        if self._on_health and HEALTH_V1ALPHA1.announced in announced:
            tasks.append(asyncio.create_task(self._follow_health(plugin)))
        if self._on_resources and NODE_V1ALPHA3 in services.handles:
            tasks.append(asyncio.create_task(self._follow_resources(plugin)))
        self._tasks[endpoint] = tasks
        self._connection_changed(driver)
        log.info("driver %s registered at %s with %s", driver, endpoint, services)

    async def remove(self, driver: str, endpoint: Path) -> None:
        instances = self._plugins.get(driver, [])
        gone = [i for i in instances if i.endpoint == endpoint]
        instances[:] = [i for i in instances if i.endpoint != endpoint]
        if not instances:
            self._plugins.pop(driver, None)
        for plugin in gone:
            await self._close_plugin(plugin)
            log.info("driver %s at %s is gone", driver, endpoint)
        if gone and not instances and self._on_resources:
            self._on_resources(driver, None)
        self._connection_changed(driver)

    def expect(self, driver: str) -> None:
        """A driver has slices on this node but has not registered: it gets the usual time to do so."""
        self._connection_changed(driver)

    async def close(self) -> None:
        for task in self._withdrawals.values():
            task.cancel()
        await asyncio.gather(*self._withdrawals.values(), return_exceptions=True)
        for plugin in [p for instances in self._plugins.values() for p in instances]:
            await self._close_plugin(plugin)
        self._plugins.clear()

    async def _close_plugin(self, plugin: DRAPlugin) -> None:
        tasks = self._tasks.pop(plugin.endpoint, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await plugin.close()

    def _connection_changed(self, driver: str) -> None:
        usable = any(p.connected for p in self._plugins.get(driver, []))
        if usable:
            if task := self._withdrawals.pop(driver, None):
                task.cancel()
            if self._on_usable:
                self._on_usable(driver)
        elif self._withdraw and driver not in self._withdrawals:
            self._withdrawals[driver] = asyncio.create_task(self._withdraw_later(driver))

    async def _withdraw_later(self, driver: str) -> None:
        assert self._withdraw is not None
        await asyncio.sleep(self._withdraw_after)
        log.info("driver %s has been away for %g s: its slices are withdrawn", driver, self._withdraw_after)
        await self._withdraw(driver)
        self._withdrawals.pop(driver, None)

    async def _follow_health(self, plugin: DRAPlugin) -> None:
        assert self._on_health is not None
        while True:
            try:
                async for reports in plugin.watch_health():
                    self._on_health(plugin.driver, reports)
            except CallFailed as e:
                log.debug("health of %s: %s", plugin.driver, e)
            finally:
                self._on_health(plugin.driver, None)
            await asyncio.sleep(5)

    async def _follow_resources(self, plugin: DRAPlugin) -> None:
        assert self._on_resources is not None
        while True:
            try:
                async for resources in plugin.watch_resources():
                    self._on_resources(plugin.driver, resources)
                return  # nothing will change any more
            except Unimplemented:
                return
            except CallFailed as e:
                log.debug("resources of %s: %s", plugin.driver, e)
            await asyncio.sleep(5)


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
