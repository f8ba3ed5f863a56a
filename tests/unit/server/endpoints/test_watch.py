"""What a watch says, when, and how it is written to its connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence

import pytest

from dray.api.groups.core import configmap
from dray.server.endpoints import watch as endpoints_watch
from dray.server.endpoints.watch import ERROR, Watch, WatchEvent, WatchStream
from dray.server.storage.codec import Codecs
from dray.server.storage.documents import AT_ONCE
from dray.server.storage.watchcache import WatchCache
from dray.store.memory import MemoryStore


def bookmarks(batches: AsyncIterator[Sequence[WatchEvent]]) -> AsyncIterator[int]:
    return (
        int(event.object["metadata"]["resourceVersion"])
        async for batch in batches
        for event in batch
        if event.object
    )


async def test_a_bookmark_is_never_older_than_what_the_client_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints_watch, "_BOOKMARK_SECONDS", 0.001)
    monkeypatch.setattr(endpoints_watch, "_LAST_BOOKMARK_SECONDS", 0.0)
    codecs = Codecs(configmap.KIND)
    cache = WatchCache(MemoryStore(), "/registry/configmaps/", codecs)
    await cache.load()
    heard = iter((3, 4, 5, 5, 4, 6))
    watch = Watch(
        codecs.storage, cache.watch(since=5), bookmarks=True, timeout=60, since=5, revision=lambda: next(heard)
    )  # fmt: skip
    told = bookmarks(watch.batches())
    assert [await anext(told) for _ in range(3)] == [5, 5, 6]


async def test_the_bookmark_after_the_initial_events_is_of_the_revision_at_which_they_were_read() -> None:
    codecs = Codecs(configmap.KIND)
    cache = WatchCache(MemoryStore(), "/registry/configmaps/", codecs)
    await cache.load()
    watch = Watch(
        codecs.storage, cache.watch(since=5), initial_end=True, timeout=60, since=5, revision=lambda: 8
    )  # fmt: skip
    assert await anext(bookmarks(watch.batches())) == 5


class ManyChanges:
    """A watch whose client has so many changes to catch up with."""

    def __init__(self, count: int) -> None:
        self._count = count

    async def batches(self):
        yield [WatchEvent(ERROR, object={"number": number}) for number in range(self._count)]

    def close(self) -> None:
        pass


class FastReader:
    """A sink that takes everything at once. ``turns`` has the turn of the loop in which each piece came."""

    congested = closed = False

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.turns: list[int] = []
        self._turn = 0

    def write(self, data: bytes) -> None:
        self.pieces.append(data)
        self.turns.append(self._turn)

    async def drained(self) -> None:
        raise AssertionError("it is never congested")

    async def count_turns(self) -> None:
        while True:
            await asyncio.sleep(0)
            self._turn += 1


async def test_the_loop_turns_while_many_events_are_written():
    sink = FastReader()
    counting = asyncio.create_task(sink.count_turns())
    await asyncio.sleep(0)
    written: list[int] = []

    def line(event: WatchEvent) -> bytes:
        assert event.object is not None
        written.append(event.object["number"])
        return b"."

    await WatchStream(ManyChanges(AT_ONCE * 5 + 1), line).run(sink)  # type: ignore[arg-type]
    counting.cancel()
    assert written == list(range(AT_ONCE * 5 + 1))
    assert list(map(len, sink.pieces)) == [AT_ONCE] * 5 + [1]
    assert sorted(set(sink.turns)) == sink.turns


async def test_what_is_left_of_many_events_is_not_made_for_a_client_who_has_gone():
    sink = FastReader()
    made = 0

    def line(event: WatchEvent) -> bytes:
        nonlocal made
        made += 1
        sink.closed = True
        return b"."

    await WatchStream(ManyChanges(AT_ONCE * 5), line).run(sink)  # type: ignore[arg-type]
    assert made == AT_ONCE
