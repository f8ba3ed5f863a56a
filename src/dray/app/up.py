"""``dray up``: every component of a cluster in one process, each under its own identity.

A component is an async function of the cluster; it runs until it is cancelled. What ends by itself takes the whole
cluster down, loudly: half a cluster helps nobody.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from dray.api.kinds import UserInfo
from dray.app import cluster as clusters
from dray.app.options import ServerOptions
from dray.app.running import calm_collector, ended
from dray.app.server import RunningServer, run_server
from dray.server.inprocess import InProcess

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
class UpOptions:
    server: ServerOptions
    nodes: int = 0
    devices: int = 8
    drivers: tuple[str, ...] = ()
    runtime: str = "simulated"


@dataclass(frozen=True, slots=True)
class Cluster:
    """What components are given."""

    options: UpOptions
    server: RunningServer

    @property
    def data(self) -> Path:
        return self.options.server.data

    def transport(self, user: str, *groups: str) -> InProcess:
        """The in-process way to the API server, as this user."""
        return InProcess(self.server.api, UserInfo(user, groups=groups), agent=user.rpartition(":")[2])


@dataclass(frozen=True, slots=True)
class Component:
    name: str
    run: Callable[[Cluster], Awaitable[None]]


def components(options: UpOptions) -> Sequence[Component]:
    """What runs beside the API server, in the order in which it is started."""
    return ()


@dataclass(slots=True)
class Hooks:
    """Called along the way; tests and ``--detach`` use them."""

    ready: Callable[[Cluster], None] = field(default=lambda cluster: None)


async def run_up(options: UpOptions, *, hooks: Hooks | None = None, end: asyncio.Event | None = None) -> None:
    """Run a cluster until a signal (or ``end``)."""
    hooks = hooks or Hooks()
    end = end or ended()
    server_options = options.server
    with clusters.held(server_options.data):
        async with run_server(server_options) as server:
            cluster = Cluster(options, server)
            clusters.write(server_options.data, _state(cluster))
            calm_collector()
            try:
                await _run_components(cluster, components(options), hooks, end)
            finally:
                clusters.forget(server_options.data)


async def _run_components(
    cluster: Cluster, listed: Sequence[Component], hooks: Hooks, end: asyncio.Event
) -> None:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_supervised(c, cluster), name=c.name) for c in listed]
        hooks.ready(cluster)
        await end.wait()
        for task in tasks:
            task.cancel()


async def _supervised(component: Component, cluster: Cluster) -> None:
    await component.run(cluster)
    raise RuntimeError(f"{component.name} has ended unexpectedly")


def _state(cluster: Cluster) -> clusters.State:
    import os

    options = cluster.options.server
    return clusters.State(
        pid=os.getpid(),
        url=cluster.server.url,
        kubeconfig=str(options.kubeconfig_path),
        store=options.store,
        release=options.emulate or "all",
        started=time.time(),
    )
