"""Every store there is, opened for one test; etcd is a real one, started once."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from dray.store import open_store
from dray.store.interface import Store
from tests.support.etcd import Etcd

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

_numbers = itertools.count()


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
