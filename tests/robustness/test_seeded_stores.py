"""A server on a store with a mistake, and the load of a robustness run on it: the verdict must name the mistake."""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from dray.api.claims import FINALIZER
from dray.server.beyond_upstream.device_booking.records import PREFIX
from dray.server.endpoints import watch as endpoints_watch
from dray.server.endpoints.call import Call
from dray.server.endpoints.watch import Watch, WatchEvent
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import Watcher
from dray.store.interface import Operation
from tests.support.several_servers import TOKEN, servers
from tests.support.wait import wait_for

from .bookings import Bookings
from .history import History
from .load import Client, ConfigMapLoad
from .verdict import violations

MAPS = "/registry/configmaps/"
CLAIMS = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims"

Seed = Callable[[Any, pytest.MonkeyPatch], None]


def right(store: Any, patch: pytest.MonkeyPatch) -> None:
    """The store as it is."""


def lost_write(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Now and then an update is acknowledged and forgotten."""
    update, is_time = store.update, now_and_then()

    async def forgetful(key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        if key.startswith(MAPS) and is_time():
            return expected + 1
        revision: int = await update(key, value, expected=expected, ttl=ttl)
        return revision

    patch.setattr(store, "update", forgetful)


def stale_read(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Now and then a read gives what the read before it gave."""
    existing, last, is_time = Call.existing, dict[str, Document](), now_and_then()

    def behind(call: Call) -> Document:
        found = existing(call)
        before, last[found.key] = last.get(found.key, found), found
        return before if is_time() else found

    patch.setattr(Call, "existing", behind)


def duplicate_event(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Now and then an event is delivered twice."""
    take, is_time = Watcher.take, now_and_then()

    def twice(watcher: Watcher) -> Sequence[Any]:
        found = take(watcher)
        return [*found, found[-1]] if found and is_time() else found

    patch.setattr(Watcher, "take", twice)


def skipped_event(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Now and then an event is not delivered."""
    take, is_time = Watcher.take, now_and_then()

    def less(watcher: Watcher) -> Sequence[Any]:
        found = take(watcher)
        return found[:-1] if found and is_time() else found

    patch.setattr(Watcher, "take", less)


def hasty_bookmark(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Bookmarks say that the client has been told what comes next."""
    patch.setattr(Watch, "bookmark", moved(Watch.bookmark, by=5))


def old_bookmark(store: Any, patch: pytest.MonkeyPatch) -> None:
    """Bookmarks are older than what the client has been told."""
    patch.setattr(Watch, "bookmark", moved(Watch.bookmark, by=-5))


def moved(bookmark: Callable[[Watch, int], WatchEvent], *, by: int) -> Callable[[Watch, int], WatchEvent]:
    return lambda watch, revision: bookmark(watch, revision + by)


def now_and_then() -> Callable[[], bool]:
    """Yes at every tenth call."""
    calls = itertools.count(1)
    return lambda: next(calls) % 10 == 0


def unconditional(store: Any) -> None:
    """Transactions write what they are told and leave booking records out."""
    transact = store.transact

    async def careless(operations: Sequence[Operation]) -> int:
        revision: int = await transact([each for each in operations if not each.key.startswith(PREFIX)])
        return revision

    store.transact = careless


async def history_on(seed: Seed, patch: pytest.MonkeyPatch, data: Path) -> History:
    patch.setattr(endpoints_watch, "_BOOKMARK_SECONDS", 0.02)
    history, rng = History(), random.Random(3)
    async with (
        servers(data, "memory", count=1, disable_plugins=("ServiceAccount",)) as (server,),
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": f"Bearer {TOKEN}"}
        ) as session,
    ):
        load = ConfigMapLoad(history, lambda rng: Client(session, [server.url], rng), keys=4, prefix="seeded")
        start = server.api.store.revision
        seed(server.api.store, patch)
        readers = [
            asyncio.create_task(load.watch("faithful", random.Random(1), start, resume=True)),
            asyncio.create_task(load.list_now_and_then("lister", random.Random(2))),
        ]
        async with asyncio.TaskGroup() as writers:
            for number in range(6):
                own = random.Random(rng.random())
                writers.create_task(load.write(f"w{number}", own, lambda: load.done < 600))
        await asyncio.sleep(0.2)
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
    return history


@pytest.mark.parametrize(
    ("seed", "words"),
    [
        (lost_write, "and no watch has it"),
        (stale_read, "no order explains"),
        (duplicate_event, "not unique"),
        (skipped_event, "and no watch has it"),
        (hasty_bookmark, "not bookmarkable"),
        (old_bookmark, "not ordered: bookmark"),
    ],
)
async def test_a_mistake_of_the_store_is_found(
    seed: Seed, words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    found = violations(await history_on(seed, monkeypatch, tmp_path))
    assert any(words in problem for problem in found), found[:3]


async def test_a_right_store_passes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    history = await history_on(right, monkeypatch, tmp_path)
    assert len(history.operations) >= 600 and history.listings and history.watches[0].events
    assert any(event.type == "BOOKMARK" for watch in history.watches for event in watch.events)
    assert violations(history) == []


async def test_a_store_that_books_twice_is_found(tmp_path: Path) -> None:
    pool = {"name": "p", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "nodeName": "n", "pool": pool, "devices": [{"name": "gpu"}]}
    result = {"request": "r", "driver": "d.example.com", "pool": "p", "device": "gpu"}
    bookings = Bookings([{"spec": spec}])
    async with (
        servers(tmp_path, "memory", count=1) as (server,),
        aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(ssl=False), headers={"Authorization": f"Bearer {TOKEN}"}
        ) as session,
    ):
        unconditional(server.api.store)
        client = Client(session, [server.url], random.Random(1))
        start = server.api.store.revision

        async def follow() -> None:
            async for event in client.watch(CLAIMS, start, seconds=600):
                bookings.record(event["type"], event["object"])

        following = asyncio.create_task(follow())
        for name in "ab":
            requests = [{"name": "r", "exactly": {"deviceClassName": "c"}}]
            body: dict[str, Any] = {
                "metadata": {"name": name, "finalizers": [FINALIZER]},
                "spec": {"devices": {"requests": requests}},
            }
            _, made = await client.request("POST", CLAIMS, body)
            made["status"] = {"allocation": {"devices": {"results": [result]}}}
            status, answer = await client.request("PUT", f"{CLAIMS}/{name}/status", made)
            assert status == 200, answer
        await wait_for("the double booking to be seen", lambda: bool(bookings.violations))
        following.cancel()
    assert "while default/a had it" in bookings.violations[0]
