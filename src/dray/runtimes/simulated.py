"""A runtime in which nothing runs: it only keeps the state of containers, for thousands of them.

By default a container starts at once and runs until it is stopped. Annotations of its pod change that:
``simulated.dray.dev/start-after``, ``simulated.dray.dev/run-for`` (seconds) and ``simulated.dray.dev/exit-code``,
each also with ``.<container>`` appended for one container only.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from dray.runtimes.interface import (
    Capabilities,
    ContainerConfig,
    ContainerStatus,
    ExecResult,
    Listing,
    PortConnection,
    Resources,
    RuntimeFailure,
    SandboxConfig,
    SandboxStatus,
    Session,
    State,
    Usage,
)
from dray.runtimes.pleg import LifecycleEvents

PREFIX = "simulated.dray.dev/"


class Script(NamedTuple):
    """The life of one container."""

    start_after: float = 0.0
    run_for: float | None = None
    exit_code: int = 0


def script_from_annotations(sandbox: SandboxConfig, container: ContainerConfig) -> Script:
    def value(key: str) -> str | None:
        own = sandbox.annotations.get(f"{PREFIX}{key}.{container.name}")
        return own if own is not None else sandbox.annotations.get(PREFIX + key)

    run_for = value("run-for")
    return Script(
        start_after=float(value("start-after") or 0),
        run_for=float(run_for) if run_for is not None else None,
        exit_code=int(value("exit-code") or 0),
    )


@dataclass(slots=True)
class _Container:
    status: ContainerStatus
    script: Script
    timer: asyncio.TimerHandle | None = None


class SimulatedRuntime:
    """Keeps books, and lets the event loop's timers do the work of containers."""

    name = "simulated"
    version = "1"
    # CDI ids are taken on trust: no container is there to see what they stand for.
    capabilities = Capabilities(resolves_cdi=True, mounts_host_files=False, runs_programs=False)

    def __init__(
        self,
        *,
        script: Callable[[SandboxConfig, ContainerConfig], Script] = script_from_annotations,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._script = script
        self._clock = clock
        self._ids = count(1)
        self._sandboxes: dict[str, tuple[SandboxConfig, SandboxStatus]] = {}
        self._addresses: set[str] = set()
        self._containers: dict[str, _Container] = {}
        self._lifecycle_events = LifecycleEvents()

    async def start(self) -> None:
        return

    async def close(self, *, keep: bool) -> None:
        for container in self._containers.values():
            if container.timer:
                container.timer.cancel()

    async def node_address(self, number: int) -> str:
        return ""

    async def list(self) -> Listing:
        return Listing(
            [s for _, s in self._sandboxes.values()], [c.status for c in self._containers.values()]
        )

    def container_events(self) -> AsyncIterator[ContainerStatus]:
        return self._lifecycle_events.subscribe()

    async def run_sandbox(self, config: SandboxConfig) -> SandboxStatus:
        ip = "" if config.host_network else self._invent_address(config.uid)
        status = SandboxStatus.of(config, id=f"sandbox-{next(self._ids)}", ip=ip)
        self._sandboxes[status.id] = config, status
        return status

    def _invent_address(self, uid: str) -> str:
        """An address that no other pod here has, from 10.128.0.0/9. It depends on the pod, so that runtimes in different
        processes hardly ever give the same one."""
        number = zlib.crc32(uid.encode())
        while (ip := _address(number)) in self._addresses:
            number += 1
        self._addresses.add(ip)
        return ip

    async def remove_sandbox(self, sandbox: str) -> None:
        if known := self._sandboxes.pop(sandbox, None):
            self._addresses.discard(known[1].ip)
        for container in [c for c in self._containers.values() if c.status.sandbox == sandbox]:
            self._end(container, exit_code=137)
            await self.remove_container(container.status.id)

    async def ensure_image(self, image: str, *, policy: str) -> str:
        return image

    async def create_container(self, sandbox: str, config: ContainerConfig) -> ContainerStatus:
        pod, _ = self._sandboxes[sandbox]
        status = ContainerStatus(
            id=f"container-{next(self._ids)}",
            sandbox=sandbox,
            pod_uid=pod.uid,
            name=config.name,
            attempt=config.attempt,
            image=config.image,
            image_id=config.image,
            created_at=self._clock(),
            log_path=config.log_path,
        )
        self._containers[status.id] = _Container(status, self._script(pod, config))
        return status

    async def start_container(self, container: str) -> ContainerStatus:
        it = self._containers[container]
        if it.script.start_after:
            await asyncio.sleep(it.script.start_after)
        it.status = replace(it.status, state=State.RUNNING, started_at=self._clock())
        if it.script.run_for is not None:
            loop = asyncio.get_running_loop()
            it.timer = loop.call_later(
                it.script.run_for, lambda: self._end(it, exit_code=it.script.exit_code)
            )
        return it.status

    async def update_resources(self, container: str, resources: Resources) -> None:
        return

    async def usage(self) -> Mapping[str, Usage]:
        return {}

    async def stop_container(self, container: str, *, grace: float) -> None:
        if it := self._containers.get(container):
            self._end(it, exit_code=143)

    async def remove_container(self, container: str) -> None:
        it = self._containers.pop(container, None)
        if it and it.timer:
            it.timer.cancel()

    async def exec_sync(self, container: str, command: Sequence[str], *, timeout: float) -> ExecResult:
        return ExecResult(0, b"", b"")

    async def exec(self, container: str, command: Sequence[str], *, tty: bool, stdin: bool) -> Session:
        raise RuntimeFailure("Unsupported", "nothing runs in a simulated container")

    async def attach(self, container: str, *, tty: bool, stdin: bool) -> Session:
        raise RuntimeFailure("Unsupported", "nothing runs in a simulated container")

    async def port_forward(self, sandbox: str, port: int) -> PortConnection:
        raise RuntimeFailure("Unsupported", "nothing listens in a simulated pod")

    def _end(self, it: _Container, *, exit_code: int) -> None:
        if it.status.state is State.EXITED:
            return
        if it.timer:
            it.timer.cancel()
        it.status = replace(
            it.status,
            state=State.EXITED,
            started_at=it.status.started_at or self._clock(),
            finished_at=self._clock(),
            exit_code=exit_code,
            reason="Completed" if exit_code == 0 else "Error",
        )
        self._lifecycle_events.publish(it.status)


def _address(number: int) -> str:
    """One of the eight million, without those that end in 0 or 255."""
    number %= 128 * 256 * 254
    return f"10.{128 + number // (256 * 254)}.{number // 254 % 256}.{number % 254 + 1}"
