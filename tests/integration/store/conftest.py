"""Every store there is, opened for one test; etcd is a real one of each version at hand, started once."""

from __future__ import annotations

import functools
import itertools
import os
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from pathlib import Path

import pytest

from dray.store import open_store
from dray.store.interface import Store
from tests.integration.conftest import ETCD
from tests.support.etcd import Etcd

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

_numbers = itertools.count()
#: Where tests write. SQLite is tried with these keys in memory, with what was superseded on disk, and with all on disk.
ROOT = "/registry/test-"
SQLITE = ["sqlite", "sqlite /registry/others/", f"sqlite {ROOT}"]
ETCDS = [ETCD] if "DRAY_TEST_ETCD" in os.environ else ["etcd", "etcd-3.5"]


@pytest.fixture(scope="session")
def etcd_of(
    tool: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[[str], Etcd]]:
    """Starts the etcd of a version, once."""
    with ExitStack() as stack:

        @functools.cache
        def start(version: str) -> Etcd:
            server = Etcd(tool(version), tmp_path_factory.mktemp(version))
            server.start()
            stack.callback(server.stop)
            return server

        yield start


@pytest.fixture(params=ETCDS)
def etcd(request: pytest.FixtureRequest, etcd_of: Callable[[str], Etcd]) -> Etcd:
    return etcd_of(request.param)


@pytest.fixture(scope="session", params=ETCDS)
def etcd_binary(request: pytest.FixtureRequest, tool: Callable[[str], str]) -> str:
    return tool(request.param)


def _opener(request: pytest.FixtureRequest, directory: Path) -> OpenStore:
    spec, _, on_disk = request.param.partition(" ")
    if spec in ETCDS:
        spec = f"etcd://{request.getfixturevalue('etcd_of')(spec).endpoint}"

    @asynccontextmanager
    async def open_and_close() -> AsyncIterator[Store]:
        store = await open_store(spec, data=directory, on_disk=on_disk)
        try:
            yield store
        finally:
            await store.close()

    return open_and_close


@pytest.fixture(params=["memory", *SQLITE, *ETCDS])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the store under test, for use with ``async with``."""
    return _opener(request, tmp_path)


@pytest.fixture(params=[*SQLITE, *ETCDS])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """The same for stores that outlive their process; every opening sees what the last one left."""
    return _opener(request, tmp_path)


@pytest.fixture
def root() -> str:
    """A prefix that no other test writes to."""
    return f"{ROOT}{next(_numbers)}/"
