"""What can be said of the embedded stores' insides on the simplest of them."""

from __future__ import annotations

import asyncio

import pytest

from dray.store.embedded import EmbeddedStore
from dray.store.interface import Compacted, WatcherTooSlow
from dray.store.memory import MemoryStore


async def test_a_slow_watcher_is_dropped_and_the_others_are_not_kept_waiting():
    store = MemoryStore(lag_limit=10)
    slow, quick = store.watch("/r/", after=1), store.watch("/r/", after=1)
    seen = 0
    for n in range(15):
        await store.create(f"/r/{n}", b"")
        seen += len(await anext(quick))
    assert seen == 15
    with pytest.raises(WatcherTooSlow):
        await anext(slow)
    await store.close()


async def test_what_happened_before_a_watch_began_is_no_lag():
    store = MemoryStore(lag_limit=3)
    for n in range(20):
        await store.create(f"/r/{n}", b"")
    watch = store.watch("/r/", after=1)
    await store.create("/r/20", b"")
    assert len(await anext(watch)) == 20
    assert len(await anext(watch)) == 1
    await store.close()


async def test_watchers_of_one_prefix_share_their_batches():
    store = MemoryStore()
    watches = [store.watch("/r/", after=1) for _ in range(3)]
    await store.create("/r/a", b"")
    first, *others = [await anext(watch) for watch in watches]
    assert all(batch is first for batch in others)
    await store.close()


async def test_history_is_bounded_by_count_and_by_size():
    for bound in ({"history_events": 100}, {"history_bytes": 100_000}):
        store = MemoryStore(**bound)
        revision = await store.create("/r/a", b"")
        for _ in range(500):
            revision = await store.update("/r/a", b"x" * 1000, expected=revision)
        with pytest.raises(Compacted):
            await store.range("/r/", revision=100)
        assert len((await store.range("/r/", revision=revision - 20)).entries) == 1
        await store.close()


async def test_history_is_compacted_as_time_goes_by():
    store = MemoryStore(compaction_interval=0.01)
    old = await store.create("/r/a", b"")
    async with asyncio.timeout(10):
        while True:
            try:
                await store.range("/r/", revision=old - 1)
            except Compacted as error:
                assert error.oldest == old
                break
            await asyncio.sleep(0.005)
    assert len((await store.range("/r/", revision=old)).entries) == 1
    await store.close()


async def test_keys_expire_by_the_clock_given():
    now = [1000.0]
    store = MemoryStore(clock=lambda: now[0])
    await store.create("/r/brief", b"", ttl=10)
    rewritten = await store.create("/r/rewritten", b"", ttl=10)
    await store.update("/r/rewritten", b"", expected=rewritten, ttl=100)
    now[0] += 11
    EmbeddedStore._expire(store)
    assert [e.key for e in (await store.range("/r/")).entries] == ["/r/rewritten"]
    now[0] += 90
    EmbeddedStore._expire(store)
    assert not (await store.range("/r/")).entries
    await store.close()


async def test_a_subscriber_may_close_itself_while_it_is_called():
    store = MemoryStore()
    seen: list[str] = []

    def once(events):
        seen.extend(event.key for event in events)
        subscription.close()

    subscription = store.subscribe("/r/", once, after=1)
    store.subscribe("/r/", lambda events: seen.append("other"), after=1)
    await store.create("/r/a", b"")
    await store.create("/r/b", b"")
    assert seen == ["/r/a", "other", "other"]
    await store.close()


async def test_a_subscription_closed_by_another_subscriber_hears_nothing_more():
    store = MemoryStore()
    heard: list[str] = []
    store.subscribe("/r/", lambda events: second.close(), after=1)
    second = store.subscribe("/r/", lambda events: heard.append("second"), after=1)
    await store.create("/r/a", b"")
    assert not heard
    await store.close()
