"""Every store there is, opened for one test; etcd is a real one, started once."""

from __future__ import annotations

import contextlib
import itertools
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from dray.store import open_store
from dray.store.interface import Store

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

_numbers = itertools.count()


class Etcd:
    """A real etcd member on loopback with a data directory of its own."""

    def __init__(self, binary: str, directory: Path, *, name: str = "only") -> None:
        self.name = name
        self._binary = binary
        self._directory = directory
        self._port, peer_port = _free_ports(2)
        self.peer = f"http://127.0.0.1:{peer_port}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def endpoint(self) -> str:
        return f"127.0.0.1:{self._port}"

    def launch(self, *others: Etcd) -> None:
        client = f"http://{self.endpoint}"
        with (self._directory / f"{self.name}.log").open("ab") as log:
            self._process = subprocess.Popen(
                [
                    self._binary,
                    f"--name={self.name}",
                    f"--data-dir={self._directory / self.name}",
                    f"--listen-client-urls={client}",
                    f"--advertise-client-urls={client}",
                    f"--listen-peer-urls={self.peer}",
                    f"--initial-advertise-peer-urls={self.peer}",
                    f"--initial-cluster={','.join(f'{each.name}={each.peer}' for each in (self, *others))}",
                    "--heartbeat-interval=20",
                    "--election-timeout=200",
                ],
                stdout=subprocess.DEVNULL,
                stderr=log,
            )

    def wait(self) -> None:
        """Until it answers clients."""
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self._port), timeout=1):
                return
            time.sleep(0.02)
        raise RuntimeError((self._directory / f"{self.name}.log").read_text())

    def start(self) -> None:
        self.launch()
        self.wait()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None


def _free_ports(count: int) -> list[int]:
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


@pytest.fixture(scope="session")
def etcd(tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = Etcd(tool("etcd"), tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fresh_etcd(tool: Callable[[str], str], tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that a test may stop and start."""
    server = Etcd(tool("etcd"), tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def etcd_cluster(tool: Callable[[str], str], tmp_path: Path) -> Iterator[list[Etcd]]:
    """Three members, any of which a test may stop."""
    members = [Etcd(tool("etcd"), tmp_path, name=name) for name in ("one", "two", "three")]
    for member in members:
        member.launch(*(other for other in members if other is not member))
    for member in members:
        member.wait()
    yield members
    for member in members:
        member.stop()


def _opener(request: pytest.FixtureRequest, directory: Path) -> OpenStore:
    spec = request.param
    if spec == "etcd":
        spec = f"etcd://{request.getfixturevalue('etcd').endpoint}"

    @asynccontextmanager
    async def open_and_close() -> AsyncIterator[Store]:
        store = await open_store(spec, data=directory)
        try:
            yield store
        finally:
            await store.close()

    return open_and_close


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the store under test, for use with ``async with``."""
    return _opener(request, tmp_path)


@pytest.fixture(params=["sqlite", "etcd"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """The same for stores that outlive their process; every opening sees what the last one left."""
    return _opener(request, tmp_path)


@pytest.fixture
def root() -> str:
    """A prefix that no other test writes to."""
    return f"/registry/test-{next(_numbers)}/"
