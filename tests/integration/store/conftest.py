"""Every store there is, opened for one test; etcd is a real one, started once."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest

from dray.store import open_store
from dray.store.interface import Store

OpenStore = Callable[[], AbstractAsyncContextManager[Store]]

_numbers = itertools.count()
#: Where tests write. SQLite is tried with these keys in memory, and with all of them on disk.
ROOT = "/registry/test-"


def _opener(request: pytest.FixtureRequest, directory: Path) -> OpenStore:
    spec, _, on_disk = request.param.partition(" ")
    if spec == "etcd":
        spec = f"etcd://{request.getfixturevalue('etcd').endpoint}"

    @asynccontextmanager
    async def open_and_close() -> AsyncIterator[Store]:
        store = await open_store(spec, data=directory, on_disk=on_disk)
        try:
            yield store
        finally:
            await store.close()

    return open_and_close


@pytest.fixture(params=["memory", "sqlite", f"sqlite {ROOT}", "etcd"])
def opened(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """Opens the store under test, for use with ``async with``."""
    return _opener(request, tmp_path)


@pytest.fixture(params=["sqlite", f"sqlite {ROOT}", "etcd"])
def durable(request: pytest.FixtureRequest, tmp_path: Path) -> OpenStore:
    """The same for stores that outlive their process; every opening sees what the last one left."""
    return _opener(request, tmp_path)


@pytest.fixture
def root() -> str:
    """A prefix that no other test writes to."""
    return f"{ROOT}{next(_numbers)}/"
