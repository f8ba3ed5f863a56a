"""Drivers as the node sees them: something that prepares claims, reached over gRPC or in this process.

A driver may be there several times while it is being updated; the newest instance that is connected serves. When none
has been for a while, whoever asked to be told is told: the driver's slices are then withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from dray.kubelet_api.services import DRA_SERVICES, HEALTH_V1ALPHA1, Service, stub
from dray.kubelet_api.unix import SocketPath
from dray.node.dra.state import Device
from dray.node.metrics import Metrics

log = logging.getLogger(__name__)

#: Seconds that a driver has for a call.
CALL_TIMEOUT = 45.0
#: Seconds that a driver may be away before its slices are withdrawn.
WIPE_AFTER = 30.0


class ClaimRef(NamedTuple):
    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Answer:
    """What a driver said about one claim."""

    devices: Sequence[Device] = ()
    error: str = ""


class CallFailed(Exception):
    """A call to a driver failed as a whole."""


class Plugin(Protocol):
    """A driver that can be called. Answers are by claim uid; claims may be missing from them."""

    driver: str

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Answer]: ...

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


class GrpcPlugin:
    """One instance of a driver behind a unix socket."""

    def __init__(
        self,
        driver: str,
        endpoint: Path,
        service: Service,
        *,
        metrics: Metrics,
        timeout: float = CALL_TIMEOUT,
    ) -> None:
        import grpc.aio

        self.driver = driver
        self.endpoint = endpoint
        self.service = service
        self.connected = False
        self._metrics = metrics
        self._timeout = timeout
        self._address = SocketPath(endpoint)
        # A driver that was restarted should be found again at once, not after gRPC's usual back-off.
        options = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 2000)]
        self._channel = grpc.aio.insecure_channel(self._address.grpc, options=options)
        self._stub = stub(service, self._channel)

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Answer]:
        response = await self._call("NodePrepareResources", claims)
        return {uid: _answer(result) for uid, result in response.claims.items()}

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
        response = await self._call("NodeUnprepareResources", claims)
        return {uid: result.error for uid, result in response.claims.items()}

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
            raise CallFailed(f"{e.code().name}: {e.details()}") from e

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

    async def _call(self, method: str, claims: Sequence[ClaimRef]) -> Any:
        import grpc.aio

        messages = self.service.module
        request = getattr(messages, f"{method}Request")(
            claims=[messages.Claim(namespace=c.namespace, name=c.name, uid=c.uid) for c in claims]
        )
        started, code = time.monotonic(), "OK"
        try:
            return await getattr(self._stub, method)(request, timeout=self._timeout)
        except grpc.aio.AioRpcError as e:
            code = _go_code_name(e.code().name)
            raise CallFailed(f"rpc error: code = {code} desc = {e.details()}") from e
        except asyncio.CancelledError:
            # gRPC cancels the calls of a channel that is closed; whoever made the call goes on.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            code = "Unavailable"
            raise CallFailed(f"rpc error: code = {code} desc = the driver is gone") from None
        finally:
            path = f"/{self.service.descriptor.full_name}/{method}"
            self._metrics.dra_calls.observe(time.monotonic() - started, self.driver, path, code)


class PluginRegistry:
    """The drivers that have registered on one node."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        wipe: Callable[[str], Awaitable[None]] | None = None,
        wipe_after: float = WIPE_AFTER,
        on_health: Callable[[str, Sequence[HealthReport] | None], None] | None = None,
        on_usable: Callable[[str], None] | None = None,
    ) -> None:
        self._metrics = metrics
        self._wipe = wipe
        self._wipe_after = wipe_after
        self._on_health = on_health
        self._on_usable = on_usable
        self._plugins: dict[str, list[GrpcPlugin]] = {}
        self._tasks: dict[Path, list[asyncio.Task[None]]] = {}
        self._wipes: dict[str, asyncio.Task[None]] = {}

    def get(self, driver: str) -> GrpcPlugin | None:
        instances = self._plugins.get(driver, [])
        for instance in reversed(instances):
            if instance.connected:
                return instance
        return instances[-1] if instances else None

    @property
    def drivers(self) -> list[str]:
        return list(self._plugins)

    @staticmethod
    def choose(announced: Sequence[str]) -> Service:
        """The first announced version that is known here; ValueError in the kubelet's words if there is none."""
        if not announced:
            raise ValueError("empty list of supported gRPC services (aka supported versions)")
        for name in announced:
            if name in DRA_SERVICES:
                return DRA_SERVICES[name]
        theirs = " ".join(f'"{a}"' for a in announced)
        ours = " ".join(f'"{s}"' for s in DRA_SERVICES)
        raise ValueError(
            f"none of services supported by the plugin ([{theirs}]) are supported by the kubelet ([{ours}])"
        )

    def add(self, driver: str, endpoint: Path, announced: Sequence[str]) -> None:
        """Takes a driver in; ValueError says why not."""
        try:
            service = self.choose(announced)
        except ValueError as e:
            raise ValueError(
                f"invalid supported gRPC versions of DRA driver plugin {driver} at endpoint {endpoint}: {e}"
            ) from e
        instances = self._plugins.setdefault(driver, [])
        if any(i.endpoint == endpoint for i in instances):
            raise ValueError(f"endpoint {endpoint} already registered for DRA driver plugin {driver}")
        plugin = GrpcPlugin(driver, endpoint, service, metrics=self._metrics)
        instances.append(plugin)
        tasks = [asyncio.create_task(plugin.follow_connection(lambda: self._connection_changed(driver)))]
        if self._on_health and HEALTH_V1ALPHA1.announced in announced:
            tasks.append(asyncio.create_task(self._follow_health(plugin)))
        self._tasks[endpoint] = tasks
        self._connection_changed(driver)
        log.info("driver %s registered at %s with %s", driver, endpoint, service.announced)

    async def remove(self, driver: str, endpoint: Path) -> None:
        instances = self._plugins.get(driver, [])
        gone = [i for i in instances if i.endpoint == endpoint]
        instances[:] = [i for i in instances if i.endpoint != endpoint]
        if not instances:
            self._plugins.pop(driver, None)
        for plugin in gone:
            await self._let_go(plugin)
            log.info("driver %s at %s is gone", driver, endpoint)
        self._connection_changed(driver)

    def expect(self, driver: str) -> None:
        """A driver has slices on this node but has not registered: it gets the usual time to do so."""
        self._connection_changed(driver)

    async def close(self) -> None:
        for task in self._wipes.values():
            task.cancel()
        await asyncio.gather(*self._wipes.values(), return_exceptions=True)
        for plugin in [p for instances in self._plugins.values() for p in instances]:
            await self._let_go(plugin)
        self._plugins.clear()

    async def _let_go(self, plugin: GrpcPlugin) -> None:
        tasks = self._tasks.pop(plugin.endpoint, [])
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await plugin.close()

    def _connection_changed(self, driver: str) -> None:
        usable = any(p.connected for p in self._plugins.get(driver, []))
        if usable:
            if task := self._wipes.pop(driver, None):
                task.cancel()
            if self._on_usable:
                self._on_usable(driver)
        elif self._wipe and driver not in self._wipes:
            self._wipes[driver] = asyncio.create_task(self._wipe_later(driver))

    async def _wipe_later(self, driver: str) -> None:
        assert self._wipe is not None
        await asyncio.sleep(self._wipe_after)
        log.info("driver %s has been away for %g s: its slices are withdrawn", driver, self._wipe_after)
        await self._wipe(driver)
        self._wipes.pop(driver, None)

    async def _follow_health(self, plugin: GrpcPlugin) -> None:
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


class TrustingPlugins:
    """For simulated nodes: every driver is there and everything succeeds."""

    class _Plugin:
        def __init__(self, driver: str) -> None:
            self.driver = driver

        async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Answer]:
            return {c.uid: Answer() for c in claims}

        async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, str]:
            return {c.uid: "" for c in claims}

    def get(self, driver: str) -> Plugin:
        return self._Plugin(driver)


def _answer(result: Any) -> Answer:
    devices = [
        Device(
            pool=d.pool_name,
            name=d.device_name,
            requests=tuple(d.request_names),
            cdi_ids=tuple(d.cdi_device_ids),
            share=d.share_id
            if "share_id" in d.DESCRIPTOR.fields_by_name and d.HasField("share_id")
            else None,
        )
        for d in result.devices
    ]
    return Answer(devices, result.error)


def _go_code_name(name: str) -> str:
    """DEADLINE_EXCEEDED as Go prints it: DeadlineExceeded."""
    return "OK" if name == "OK" else "".join(part.capitalize() for part in name.split("_"))
