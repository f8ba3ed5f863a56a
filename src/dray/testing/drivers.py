"""Drivers under test: started on a node, crashed at a step, killed, and started again."""

from __future__ import annotations

import asyncio
import os
import subprocess
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Literal

from dray.app.components import DRIVERS
from dray.client.client import Client
from dray.driver import plugin
from dray.driver.base import Driver
from dray.testing.wait import wait_for

if TYPE_CHECKING:
    from concurrent.futures import Future

    from dray.testing.environment import Cluster

_LEAVE_SECONDS = 10.0

Step = Literal["prepare", "unprepare"]
Moment = Literal["before", "after"]


class Crash(Exception):
    """A driver that was told to crash at a step has done so."""


class RunningDriver:
    """A driver of the SDK on a node, in the test's own process."""

    def __init__(self, cluster: Cluster, driver: Driver, node: str) -> None:
        self._cluster, self._driver, self._node = cluster, driver, node
        self._task: Future[None] | None = None
        self._registered = False
        self._gone = threading.Event()
        self._gone.set()
        for step in ("prepare", "unprepare"):
            self._instrument(step)
        self._points: dict[tuple[str, Moment], Callable[[], Awaitable[None]]] = {}
        self.crashes = 0

    def _instrument(self, step: str) -> None:
        original = getattr(self._driver, step)

        async def instrumented(*args: object, **kwargs: object) -> object:
            await self._reach(step, "before")
            result = await original(*args, **kwargs)
            await self._reach(step, "after")
            return result

        setattr(self._driver, step, instrumented)

    async def _reach(self, step: str, moment: Moment) -> None:
        action = self._points.pop((step, moment), None)
        if action is not None:
            await action()

    def at(self, step: Step, moment: Moment, action: Callable[[], Awaitable[None]]) -> None:
        """Do something, once, when the driver comes to this step; an error of the action is the driver's error."""
        self._points[step, moment] = action

    def kill_agent_at(self, step: Step, moment: Moment = "after") -> None:
        """Kill the agent of the driver's node the next time the driver comes to this step."""
        self.at(step, moment, lambda: self._cluster.node_agents.killed(self._node))

    def crash_at(self, step: Step, moment: Moment = "after") -> None:
        """End the driver the next time it comes to this step. It stays down until ``start``."""

        async def crash() -> None:
            self.crashes += 1
            if self._task is not None:
                self._task.cancel()
            raise Crash(f"the driver crashed {moment} {step}")

        self.at(step, moment, crash)

    @property
    def running(self) -> bool:
        return self._task is not None and not self._task.done()

    def start(self) -> None:
        """Start it, and return when the node knows it."""
        self._gone.wait(_LEAVE_SECONDS)
        self._registered = False
        self._gone.clear()
        assert self._cluster._loop is not None
        self._task = asyncio.run_coroutine_threadsafe(self._serve(), self._cluster._loop)
        wait_for(
            f"{self._driver.name} to register on {self._node}", lambda: self._registered or self._ended()
        )

    def _ended(self) -> bool:
        if self._task is not None and self._task.done() and not self._task.cancelled():
            problem = self._task.exception()
            if problem is not None:
                raise problem
        return False

    async def _serve(self) -> None:
        cluster = self._cluster
        assert cluster._running is not None
        client = Client(cluster._running.transport(DRIVERS, "system:masters"))
        options = plugin.Options(
            node=self._node, kubelet_dir=cluster.kubelet_dir(self._node), cdi_dir=cluster.cdi_dir(self._node)
        )
        try:
            async with plugin.serving(client, self._driver, options=options) as running:
                await running.registered()
                self._registered = True
                await asyncio.Event().wait()
        finally:
            self._gone.set()

    def kill(self) -> None:
        """End it, and return when its sockets are gone."""
        if self._task is not None:
            self._task.cancel()
            self._gone.wait(_LEAVE_SECONDS)


class DriverProcess:
    """A driver in a process of its own, which is killed as the kernel kills: nothing is cleaned up."""

    def __init__(self, cluster: Cluster, command: Sequence[str], node: str) -> None:
        self._cluster, self._command, self._node = cluster, command, node
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def environment(self) -> Mapping[str, str]:
        """What a driver finds in its pod: where it is, and where the kubelet and the API server are."""
        return {
            "NODE_NAME": self._node,
            "KUBECONFIG": str(self._cluster.kubeconfig),
            "KUBELET_DIRECTORY_PATH": str(self._cluster.kubelet_dir(self._node)),
            "CDI_ROOT": str(self._cluster.cdi_dir(self._node)),
        }

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        self._process = subprocess.Popen(self._command, env={**os.environ, **self.environment})

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
