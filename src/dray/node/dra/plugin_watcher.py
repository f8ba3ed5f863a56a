"""Finds drivers: the watcher looks at the directory in which drivers put their registration sockets.

The kernel tells of changes where it can (inotify); a look every few seconds finds the rest. A socket is known by path,
inode and time, so one that was deleted and made anew between two looks is a new driver.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import logging
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from dray.backoff import Backoff
from dray.kubelet_api.services import DEVICE_PLUGIN_TYPE, DRA_PLUGIN, REGISTRATION, stub
from dray.node.deviceplugins.manager import DeviceManager
from dray.node.dra.plugin_manager import DRAPluginManager
from dray.wire.unix import SocketPath

log = logging.getLogger(__name__)

#: Seconds between looks at the directory.
SCAN_PERIOD = 5.0
#: Seconds that a driver has to answer during registration.
REGISTRATION_TIMEOUT = 1.0
_RETRY = Backoff(initial=0.5, maximum=60.0)

_CREATE, _DELETE, _MOVED_TO, _MOVED_FROM = 0x100, 0x200, 0x80, 0x40
_NONBLOCK_CLOEXEC = os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(slots=True)
class _RegistrationSocket:
    """A registration socket and what has become of it."""

    identity: tuple[int, int]
    kind: str = DRA_PLUGIN
    driver: str = ""
    endpoint: Path = field(default_factory=Path)
    registered: bool = False
    tries: int = 0
    retry_at: float = 0.0


class PluginWatcher:
    """Registers the drivers of one directory."""

    def __init__(
        self,
        directory: Path,
        registry: DRAPluginManager,
        *,
        device_plugins: DeviceManager | None = None,
        locate: Callable[[str], str] = lambda path: path,
        scan_period: float = SCAN_PERIOD,
    ) -> None:
        self._directory = directory
        self._registries: dict[str, DRAPluginManager | DeviceManager] = {DRA_PLUGIN: registry}
        if device_plugins is not None:
            self._registries[DEVICE_PLUGIN_TYPE] = device_plugins
        self._locate = locate
        self._scan_period = scan_period
        self._found: dict[Path, _RegistrationSocket] = {}
        self._hint = asyncio.Event()

    async def run(self) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        with _directory_changes(self._directory, self._hint.set):
            while True:
                self._hint.clear()
                await self.scan()
                pause = self._scan_period
                now = asyncio.get_running_loop().time()
                waiting = [f.retry_at - now for f in self._found.values() if not f.registered]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(max(0.05, min([pause, *waiting]))):
                        await self._hint.wait()

    async def scan(self) -> None:
        """One look: lets go of what vanished, registers what is new."""
        there = dict(self._sockets())
        for path, found in list(self._found.items()):
            if there.get(path) != found.identity:
                del self._found[path]
                if found.registered:
                    await self._registries[found.kind].remove(found.driver, found.endpoint)
        now = asyncio.get_running_loop().time()
        for path, identity in there.items():
            found = self._found.setdefault(path, _RegistrationSocket(identity))
            if not found.registered and found.retry_at <= now:
                await self._register(path, found)

    def _sockets(self) -> list[tuple[Path, tuple[int, int]]]:
        out = []
        try:
            entries = [Path(root) / name for root, _, names in os.walk(self._directory) for name in names]
        except OSError:
            return []
        for path in sorted(entries):
            if path.name.startswith("."):
                continue
            with contextlib.suppress(OSError):
                info = path.lstat()  # a link to a socket elsewhere is not followed
                if stat.S_ISSOCK(info.st_mode):
                    out.append((path, (info.st_ino, info.st_mtime_ns)))
        return out

    async def _register(self, path: Path, found: _RegistrationSocket) -> None:
        import grpc.aio

        problem = ""
        try:
            with SocketPath(path) as address:
                async with grpc.aio.insecure_channel(address.grpc) as channel:
                    problem = await self._exchange_info(stub(REGISTRATION, channel), path, found)
        except (grpc.aio.AioRpcError, OSError, ValueError) as e:
            problem = str(e.details() if isinstance(e, grpc.aio.AioRpcError) else e)
            if found.registered:  # it could not be told, so it does not know: once more from the start
                found.registered = False
                await self._registries[found.kind].remove(found.driver, found.endpoint)
        if problem:
            found.tries += 1
            found.retry_at = asyncio.get_running_loop().time() + _RETRY.after(found.tries - 1)
            log.info("driver at %s is not registered: %s", path, problem)

    async def _exchange_info(self, driver: Any, path: Path, found: _RegistrationSocket) -> str:
        """The kubelet's conversation with a plugin; returns what is wrong with it, if anything."""
        messages = REGISTRATION.module
        info = await driver.GetInfo(messages.InfoRequest(), timeout=REGISTRATION_TIMEOUT)
        endpoint = Path(self._locate(info.endpoint)) if info.endpoint else path
        problem = ""
        registry = self._registries.get(info.type)
        if registry is None:
            problem = (
                f"RegisterPlugin error -- no handler registered for plugin type: {info.type} at socket {path}"
            )
        else:
            try:
                registry.add(info.name, endpoint, list(info.supported_versions))
                found.kind, found.driver, found.endpoint, found.registered = (
                    info.type,
                    info.name,
                    endpoint,
                    True,
                )
            except ValueError as e:
                problem = f"RegisterPlugin error -- plugin registration failed with err: {e}"
        status = messages.RegistrationStatus(plugin_registered=not problem, error=problem)
        await driver.NotifyRegistrationStatus(status, timeout=REGISTRATION_TIMEOUT)
        return problem


@contextlib.contextmanager
def _directory_changes(directory: Path, changed: Callable[[], None]) -> Iterator[None]:
    """Calls ``changed`` whenever something appears in or vanishes from the directory, where the kernel tells."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(_NONBLOCK_CLOEXEC) if hasattr(libc, "inotify_init1") else -1
    if handle < 0:
        yield
        return
    loop = asyncio.get_running_loop()
    mask = _CREATE | _DELETE | _MOVED_TO | _MOVED_FROM
    libc.inotify_add_watch(handle, os.fsencode(directory), mask)

    def ready() -> None:
        with contextlib.suppress(BlockingIOError):
            while os.read(handle, 65536):
                changed()

    loop.add_reader(handle, ready)
    try:
        yield
    finally:
        loop.remove_reader(handle)
        os.close(handle)
