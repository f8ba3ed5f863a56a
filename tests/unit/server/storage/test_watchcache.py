from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from dray.api.groups.core import configmap
from dray.server.storage import watchcache
from dray.server.storage.codec import Codecs, DecodedDocuments, encode
from dray.server.storage.watchcache import ADDED, DELETED, MODIFIED, WatchCache, WindowBudget
from dray.store.interface import StoreError
from dray.store.memory import MemoryStore
from dray.store.sqlite import SqliteStore

PREFIX = "/registry/configmaps/"


def value(name: str, namespace: str = "a", **labels: str) -> bytes:
    return encode(
        {
            "kind": "ConfigMap",
            "apiVersion": "v1",
            "metadata": {"name": name, "namespace": namespace, "labels": labels},
        }
    )


async def cache(*, window: int = 100, lag: int = 100) -> tuple[MemoryStore, WatchCache]:
    store = MemoryStore()
    found = WatchCache(store, PREFIX, Codecs(configmap.KIND), window=window, lag=lag)
    await found.load()
    return store, found


async def test_a_write_is_seen_when_the_writer_is_answered():
    store, cached = await cache()
    revision = await store.create(PREFIX + "a/x", value("x"))
    document = cached.get("a/x")
    assert document is not None and document.revision == revision
    assert document.hub["metadata"]["resourceVersion"] == str(revision)


async def test_what_was_there_before_is_loaded():
    store = MemoryStore()
    await store.create(PREFIX + "a/x", value("x"))
    cached = WatchCache(store, PREFIX, Codecs(configmap.KIND))
    await cached.load()
    assert [d.key for d in cached] == ["a/x"]


async def test_keys_come_in_the_stores_order_and_by_namespace():
    store, cached = await cache()
    for key in ("b/1", "a/2", "a-b/1", "a/1"):
        namespace, name = key.split("/")
        await store.create(PREFIX + key, value(name, namespace))
    assert list(cached.range()) == ["a-b/1", "a/1", "a/2", "b/1"]
    assert list(cached.range("a")) == ["a/1", "a/2"]
    assert list(cached.range("a", after="a/1\x00")) == ["a/2"]
    assert list(cached.range("c")) == []


async def test_a_writer_saves_others_the_decoding():
    store, cached = await cache()
    hub = {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "x", "namespace": "a"},
        "data": {"k": "v"},
    }
    written = value("x")
    cached.announce(written, hub)
    await store.create(PREFIX + "a/x", written)
    document = cached.get("a/x")
    assert document is not None and document.hub is hub


async def test_a_watcher_is_told_of_changes_and_transitions_of_its_selector():
    store, cached = await cache()
    watcher = cached.watch("a", since=store.revision, matches=lambda d: d.labels.get("l") == "1")
    first = await store.create(PREFIX + "a/x", value("x", l="1"))
    second = await store.update(PREFIX + "a/x", value("x", l="1", m="2"), expected=first)
    third = await store.update(PREFIX + "a/x", value("x", l="2"), expected=second)
    await store.update(PREFIX + "a/x", value("x", l="3"), expected=third)
    await store.create(PREFIX + "b/x", value("x", "b", l="1"))
    assert [type for type, _ in watcher.pending] == [ADDED, MODIFIED, DELETED]
    _, gone = watcher.pending[-1]
    assert gone.deleted.labels == {"l": "1", "m": "2"} and gone.deleted.revision == third


async def test_a_watcher_begins_where_it_is_told_within_the_window():
    store, cached = await cache()
    start = store.revision
    await store.create(PREFIX + "a/x", value("x"))
    await store.create(PREFIX + "b/x", value("x", "b"))
    assert len(cached.watch(since=start).pending) == 2
    assert len(cached.watch("b", since=start).pending) == 1
    assert len(cached.watch(since=store.revision).pending) == 0


async def test_the_line_of_a_change_is_made_once_for_all_watchers():
    store, cached = await cache()
    watchers = [cached.watch(since=store.revision) for _ in range(3)]
    await store.create(PREFIX + "a/x", value("x"))
    codec = cached.codecs.storage
    lines = [change.line(codec, type) for w in watchers for type, change in w.pending]
    assert len(lines) == 3 and all(line is lines[0] for line in lines)
    assert lines[0].startswith(b'{"type":"ADDED","object":{"kind":"ConfigMap","apiVersion":"v1","metadata":')


async def test_a_slow_watcher_is_dropped_and_others_go_on():
    store, cached = await cache(lag=3)
    slow, quick = cached.watch(since=0), cached.watch(since=0)
    for i in range(5):
        await store.create(PREFIX + f"a/{i}", value(str(i)))
        quick.pending.clear()
    assert slow.lost and not slow.pending
    assert not quick.lost and cached.watchers == 1


async def test_a_watcher_that_waits_for_something_long_out_of_the_window_is_dropped():
    store, cached = await cache(window=4)
    picky = cached.watch(since=0, matches=lambda d: d.name == "0")
    for i in range(12):
        await store.create(PREFIX + f"a/{i}", value(str(i)))
    assert picky.lost
    assert cached.floor > 0


async def test_the_window_is_bounded_by_what_it_holds_and_slow_watchers_with_it():
    large = json.loads(value("x")) | {"data": {"k": "x" * 10_000}}
    store = MemoryStore()
    cached = WatchCache(store, PREFIX, Codecs(configmap.KIND), budget=WindowBudget(100_000))
    await cached.load()
    first = await store.create(PREFIX + "a/x", encode(large))
    slow = cached.watch(since=first)
    revision = first
    for n in range(40):
        large["data"]["n"] = str(n)
        revision = await store.update(PREFIX + "a/x", encode(large), expected=revision)
    assert cached.floor > first
    assert sum(change.held for change in cached._window) == cached.window_bytes <= 100_000
    assert slow.lost == "the watcher is too slow" and not slow.pending
    recent = cached.watch(since=cached.floor)
    assert [change.revision for _, change in recent.pending] == list(range(cached.floor + 1, revision + 1))


async def test_all_windows_have_one_budget_and_the_largest_gives_way():
    store, budget = MemoryStore(), WindowBudget(100_000)
    busy, quiet = (WatchCache(store, f"/registry/{k}/", Codecs(configmap.KIND), budget=budget) for k in "bq")
    await busy.load()
    await quiet.load()
    first = await store.create("/registry/q/a/x", value("x"))
    await store.update("/registry/q/a/x", value("y"), expected=first)
    revision = await store.create("/registry/b/a/x", value("x"))
    for n in range(500):
        revision = await store.update("/registry/b/a/x", value(str(n)), expected=revision)
    assert budget.held == busy.window_bytes + quiet.window_bytes <= 100_000
    assert busy.floor > first and quiet.floor < first
    assert len(quiet.watch(since=first - 1).pending) == 2
    busy.close()
    assert budget.held == quiet.window_bytes


async def test_what_is_deleted_is_not_held_decoded_for_long(monkeypatch):
    monkeypatch.setattr("dray.server.storage.watchcache._WARM", 2)
    store = MemoryStore()
    cached = WatchCache(store, PREFIX, Codecs(configmap.KIND))
    await cached.load()
    watcher = cached.watch(since=0)
    await store.delete(PREFIX + "a/x", expected=await store.create(PREFIX + "a/x", value("x")))
    change = watcher.take()[-1][1]
    line = change.line(cached.codecs.storage, "DELETED")
    assert change._deleted is not None
    for n in range(3):
        await store.create(PREFIX + f"a/{n}", value(str(n)))
    assert change._deleted is None
    assert change.line(cached.codecs.storage, "DELETED") == line


async def test_what_is_encoded_is_kept_for_few_large_changes_only(monkeypatch):
    monkeypatch.setattr("dray.server.storage.watchcache._WARM_BYTES", 30_000)
    store, cached = await cache()
    for n in range(10):
        large = json.loads(value(str(n))) | {"data": {"k": "x" * 10_000}}
        await store.create(f"{PREFIX}a/{n}", encode(large))
    assert len(cached._warm) == 2


async def test_an_indexed_watcher_hears_only_of_its_value_and_of_leaving_it():
    store, cached = await cache()
    cached.index_fields["l"] = lambda d: d.labels.get("l", "")
    watcher = cached.watch("a", since=0, matches=lambda d: d.labels.get("l") == "1", index=("l", "1"))
    first = await store.create(PREFIX + "a/x", value("x", l="1"))
    await store.update(PREFIX + "a/x", value("x", l="2"), expected=first)
    await store.create(PREFIX + "b/x", value("x", "b", l="1"))
    assert [type for type, _ in watcher.pending] == [ADDED, DELETED]
    watcher.close()
    assert cached.watchers == 0


async def test_a_lost_feed_ends_the_watches_and_is_read_anew():
    store, cached = await cache()
    watcher = cached.watch(since=0)
    cached._lost(StoreError("gap"))
    assert watcher.lost
    await store.create(PREFIX + "a/x", value("x"))
    for _ in range(100):
        if cached.get("a/x") is not None:
            break
        await asyncio.sleep(0)
    assert cached.get("a/x") is not None


async def test_a_watch_that_begins_while_the_feed_is_lost_ends_too():
    """Between the last change that the cache heard of and what it reads now there may have been others."""
    store, cached = await cache()
    reloading = cached._lost(StoreError("gap"))
    early = cached.watch(since=store.revision)
    await store.create(PREFIX + "a/x", value("x"))
    assert reloading is not None
    await reloading
    assert early.lost and not early.pending
    assert not cached.watch(since=store.revision).lost


async def test_a_forgotten_document_reads_the_same_again():
    store, cached = await cache()
    await store.create(PREFIX + "a/x", value("x", l="1"))
    document = cached.get("a/x")
    assert document is not None
    before = document.full(cached.codecs.storage)
    document.forget()
    assert document.full(cached.codecs.storage) == before


@pytest.mark.parametrize(("label", "limit"), [("", 2.5), ("x" * 40_000, 2.5 * 8)])
async def test_of_all_kinds_only_so_many_bytes_are_held_decoded(label, limit):
    """Large ones count for eight: they take more room still."""
    store, size = MemoryStore(), len(value("0", l=label))
    decoded = DecodedDocuments(int(size * limit))
    caches = [WatchCache(store, f"/{k}/", Codecs(configmap.KIND, decoded=decoded)) for k in "ab"]
    for cached in caches:
        await cached.load()
    for i in range(4):
        await store.create(f"/{'ab'[i // 2]}/a/{i}", value(str(i), l=label))
    listed = [d for cached in caches for d in cached]
    assert [d.hub["metadata"]["name"] for d in listed] == ["0", "1", "2", "3"]
    assert [d._hub is None for d in listed] == [True, True, False, False]
    held = listed[0].hub
    assert [d.hub["metadata"]["name"] for d in listed[1:]] == ["1", "2", "3"]
    assert listed[0]._hub is held, "an informer has it, so that nothing would be freed"


async def test_what_was_just_written_reads_as_it_lies_in_the_store():
    store, cached = await cache()
    written = value("x", l="1")
    hub = cached.codecs.read(written, 0)
    del hub["metadata"]["resourceVersion"]
    cached.announce(written, hub)
    await store.create(PREFIX + "a/x", written)
    document, codec = cached.get("a/x"), cached.codecs.storage
    assert document is not None
    shown = json.loads(document.full(codec))
    assert shown == document.object(codec)
    assert shown["metadata"]["resourceVersion"] == str(document.revision)
    document.redefine(cached.codecs)
    assert json.loads(document.full(codec)) == shown


async def test_old_states_are_held_as_they_are_stored_and_still_reach_slow_watchers(monkeypatch):
    monkeypatch.setattr("dray.server.storage.watchcache._WARM", 2)
    store, cached = await cache()
    watcher = cached.watch("a", since=cached.floor)
    revision = await store.create(PREFIX + "a/x", value("x", l="0"))
    for i in range(1, 5):
        revision = await store.update(PREFIX + "a/x", value("x", l=str(i)), expected=revision)
    seen = [change.document(kind).labels["l"] for kind, change in watcher.pending]
    assert seen == ["0", "1", "2", "3", "4"]


async def on_file(path: Path, *, window: int) -> tuple[SqliteStore, WatchCache]:
    store = await SqliteStore.open(path, on_disk="/registry/others/")
    found = WatchCache(store, PREFIX, Codecs(configmap.KIND), window=window)
    await found.load()
    return store, found


async def test_what_was_replaced_is_left_to_the_file_and_still_reaches_slow_watchers(monkeypatch, tmp_path):
    monkeypatch.setattr(watchcache, "_WARM", 2)
    store, cached = await on_file(tmp_path / "s.db", window=100)
    began = revision = await store.create(PREFIX + "a/x", value("x", n="0"))
    lines, watcher = [], cached.watch(since=began)
    codec = cached.codecs.by_version["v1"]
    for number in range(1, 9):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
        lines += [change.line(codec, type) for type, change in watcher.take()]
    await store.delete(PREFIX + "a/x", expected=revision)
    await store.create(PREFIX + "a/y", value("y"))
    await store.create(PREFIX + "a/z", value("z"))
    lines += [change.line(codec, type) for type, change in watcher.take()]
    aside = [change for change in cached._window if change.before is not None and change.before.is_aside]
    assert len(aside) == 9
    assert all(change.before.value is None for change in aside)
    assert cached.window_bytes == sum(change.held for change in cached._window)

    await store.compact(store.revision)  # the window reaches further back
    late = cached.watch(since=began)
    assert [change.line(codec, type) for type, change in late.take()] == lines
    await store.close()


async def test_the_file_forgets_what_has_left_the_window(monkeypatch, tmp_path):
    monkeypatch.setattr(watchcache, "_WARM", 2)
    store, cached = await on_file(tmp_path / "s.db", window=8)
    revision = await store.create(PREFIX + "a/x", value("x"))
    for number in range(40):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
    await store.compact(store.revision)
    assert len(store._kept) <= 8 + 2 and store._kept_discards == store._kept.keys()
    cached.close()
    assert not store._kept and not store._kept_discards
    await store.close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (1,)


async def test_what_a_window_reads_from_the_file_is_no_key_after_a_crash(monkeypatch, tmp_path):
    monkeypatch.setattr(watchcache, "_WARM", 2)
    store, cached = await on_file(tmp_path / "s.db", window=100)
    began = revision = await store.create(PREFIX + "a/x", value("x", n="0"))
    for number in range(4):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
    await store.delete(PREFIX + "a/x", expected=revision)
    assert store._kept  # and what was deleted is not among it: that change is among the newest
    await store.compact(store.revision)
    assert len(cached.watch(since=began).take()) == 5
    await store.close()  # without a word of the cache's

    store, cached = await on_file(tmp_path / "s.db", window=100)
    assert not cached.documents and await store.get(PREFIX + "a/x") is None
    await store.close()
    with closing(sqlite3.connect(tmp_path / "s.db")) as connection:
        assert connection.execute("SELECT count(*) FROM log").fetchone() == (0,)


async def test_what_the_file_may_have_lost_is_held(monkeypatch, tmp_path):
    monkeypatch.setattr(watchcache, "_WARM", 2)
    store, cached = await on_file(tmp_path / "s.db", window=100)
    began = revision = await store.create(PREFIX + "a/x", value("x", n="0"))
    for number in range(1, 3):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
    await store.compact(store.revision)  # while these are among the newest changes
    for number in range(3, 9):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
    await store.compact(store.revision)
    codec = cached.codecs.by_version["v1"]
    lines = [change.line(codec, type) for type, change in cached.watch(since=began).take()]
    assert [json.loads(line)["object"]["metadata"]["labels"]["n"] for line in lines] == list("12345678")
    await store.close()


async def test_selecting_among_earlier_changes_leaves_none_of_them_decoded(monkeypatch, tmp_path):
    monkeypatch.setattr(watchcache, "_WARM", 2)
    store, cached = await on_file(tmp_path / "s.db", window=100)
    began = revision = await store.create(PREFIX + "a/x", value("x", n="0"))
    for number in range(1, 9):
        revision = await store.update(PREFIX + "a/x", value("x", n=str(number)), expected=revision)
    watcher = cached.watch(
        since=began, matches=lambda document: document.hub["metadata"]["labels"]["n"] == "3"
    )
    assert [type for type, _ in watcher.take()] == ["ADDED", "DELETED"]
    replaced = [change.before for change in cached._window if change.before is not None]
    assert all(document._hub is None for document in replaced[:-3])
    await store.close()
