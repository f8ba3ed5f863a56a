"""How the API server starts."""

from __future__ import annotations

import functools
from pathlib import Path

import pytest

from dray.app import server
from dray.app.options import Address, ServerOptions
from dray.backoff import Backoff
from dray.store.interface import StoreFull, StoreUnavailable
from dray.store.memory import MemoryStore


class Failing(MemoryStore):
    """A shared store that cannot be reached from a certain call on, for some calls."""

    shared = True

    def __init__(self, *, after: int, times: int, error: type[StoreUnavailable] = StoreUnavailable) -> None:
        super().__init__()
        self.calls = self.failed = 0
        self._after, self._times, self._error = after, times, error

    def _call(self) -> None:
        self.calls += 1
        if self.calls > self._after and self.failed < self._times:
            self.failed += 1
            raise self._error("etcd gave no answer in time")

    async def get(self, *args, **named):
        self._call()
        return await super().get(*args, **named)

    async def range(self, *args, **named):
        self._call()
        return await super().range(*args, **named)

    async def create(self, *args, **named):
        self._call()
        return await super().create(*args, **named)

    async def transact(self, *args, **named):
        self._call()
        return await super().transact(*args, **named)


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    async def opened(store: MemoryStore, *args, **named) -> MemoryStore:
        return store

    def started(store: MemoryStore):
        monkeypatch.setattr(server, "open_store", functools.partial(opened, store))
        monkeypatch.setattr(server, "_OUTAGE_BACKOFF", Backoff(initial=0))
        return server.run_server(ServerOptions(listen=Address("127.0.0.1", 0, 1), data=tmp_path / "data"))

    return started


@pytest.mark.parametrize("after", [0, 1, 2, 30, 80, 100, 150, 200])
async def test_a_server_waits_at_its_start_for_a_shared_store_that_gives_no_answer(start, after: int):
    store = Failing(after=after, times=5)
    async with start(store) as running:
        for plural, name in (("namespaces", "kube-system"), ("services", "default/kubernetes")):
            assert running.api.resource("", plural).cache.get(name) is not None
        roles = running.api.resource("rbac.authorization.k8s.io", "clusterroles").cache
        assert roles.get("cluster-admin") is not None
    assert store.failed == 5


async def test_a_server_does_not_wait_for_a_store_without_room(start):
    with pytest.raises(StoreFull):
        async with start(Failing(after=0, times=5, error=StoreFull)):
            pass
