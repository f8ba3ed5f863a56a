"""The drivers that have registered on a node.

A driver may have several instances while it is being updated; the newest instance that is connected is called. When no
instance has been connected for a while, the driver's slices are withdrawn.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from dray.api.groups.resource.validation.checks import is_driver_name
from dray.kubelet_api.services import NODE_V1ALPHA3, Service
from dray.node.dra import grpc_versions
from dray.node.dra.grpc_versions import CallFailed, Unimplemented
from dray.node.dra.plugin import DRAPlugin, HealthReport
from dray.node.metrics import Metrics
from dray.node.options import WITHDRAW_AFTER
from dray.node.quirks import Quirks

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceModel

log = logging.getLogger(__name__)

#: Seconds until a driver is asked again for health or resources after it stopped telling them.
_WATCH_AGAIN_AFTER = 5.0


class DRAPluginManager:
    """The drivers that have registered on one node."""

    def __init__(
        self,
        *,
        metrics: Metrics,
        quirks: Quirks,
        withdraw: Callable[[str], Awaitable[None]] | None = None,
        withdraw_after: float = WITHDRAW_AFTER,
        on_health: Callable[[str, Sequence[HealthReport] | None], None] | None = None,
        on_usable: Callable[[str], None] | None = None,
        on_resources: Callable[[str, Sequence[ResourceModel] | None], None] | None = None,
    ) -> None:
        """``on_resources`` hears what drivers of 1.30 have on the node, and None when one has gone."""
        self._metrics = metrics
        self._quirks = quirks
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
        if not is_driver_name(driver):
            raise ValueError(
                f"invalid DRA driver name {driver!r}: it must be a DNS subdomain of at most 63 characters"
            )
        try:
            services = grpc_versions.choose_services(announced, self._quirks)
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
        health = next((s for s in self._quirks.health_services if s.announced in announced), None)
        if self._on_health and health is not None:
            tasks.append(asyncio.create_task(self._follow_health(plugin, health)))
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

    async def _follow_health(self, plugin: DRAPlugin, service: Service) -> None:
        assert self._on_health is not None
        while True:
            try:
                async for reports in plugin.watch_health(service):
                    self._on_health(plugin.driver, reports)
            except CallFailed as e:
                log.debug("health of %s: %s", plugin.driver, e)
            finally:
                self._on_health(plugin.driver, None)
            await asyncio.sleep(_WATCH_AGAIN_AFTER)

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
            await asyncio.sleep(_WATCH_AGAIN_AFTER)
