"""Durability and grouped commits: what only the SQLite store has."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from contextlib import closing
from pathlib import Path

import pytest

from dray.store import sqlite, sqlite_log
from dray.store.interface import KeyExists, KeyValue, Put, RevisionMismatch, StoreUnavailable
from dray.store.sqlite import SqliteStore


class Gate:
    """Holds every commit until it is opened, and can make commits fail."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._commit = sqlite._commit
        self._open = threading.Event()
        self.entered = threading.Event()
        self.error: Exception | None = None
        self.sizes: list[int] = []
        monkeypatch.setattr(sqlite, "_commit", self)

    def __call__(self, connection, batch, *, suspect):
        self.entered.set()
        assert self._open.wait(timeout=20)
        if self.error is not None:
            raise self.error
        self.sizes.append(len(batch.events))
        self._commit(connection, batch, suspect=suspect)

    def open(self) -> None:
        self._open.set()


async def started(gate: Gate, *coroutines) -> list[asyncio.Task]:
    """The writes as tasks, all of them decided, and a commit held back."""
    tasks = [asyncio.create_task(coroutine) for coroutine in coroutines]
    await asyncio.sleep(0)
    assert await asyncio.to_thread(gate.entered.wait, 20)
    return tasks


def query(path: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


async def test_nothing_is_seen_or_answered_before_it_is_durable(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    gate = Gate(monkeypatch)
    seen = []
    store.subscribe("/", seen.extend, after=1)
    (writing,) = await started(gate, store.create("/a", b"1"))
    assert not writing.done()
    assert await store.get("/a") is None
    assert not (await store.range("/")).entries
    assert await store.current_revision() == 1
    assert not seen
    gate.open()
    assert await writing == 2
    assert await store.get("/a") is not None
    assert [event.revision for event in seen] == [2]
    await store.close()


async def test_writers_that_wait_share_one_commit(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    gate = Gate(monkeypatch)
    together = await started(gate, *(store.create(f"/{n}", b"") for n in range(20)))
    meanwhile = await started(gate, *(store.create(f"/{n}", b"") for n in range(20, 50)))
    gate.open()
    assert await asyncio.gather(*together, *meanwhile) == list(range(2, 52))
    assert gate.sizes == [20, 30]
    await store.close()


async def test_who_writes_a_key_under_way_waits_for_its_fate(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    first = await store.create("/a", b"0")
    gate = Gate(monkeypatch)
    tasks = await started(
        gate,
        store.update("/a", b"1", expected=first),
        store.update("/a", b"2", expected=first),
        store.create("/b", b"1"),
        store.create("/b", b"2"),
    )
    assert not any(task.done() for task in tasks)
    gate.open()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [outcomes[0], type(outcomes[1]), outcomes[2], type(outcomes[3])] == [
        3,
        RevisionMismatch,
        4,
        KeyExists,
    ]
    assert outcomes[1].current == await store.get("/a")
    await store.close()


async def test_a_failed_commit_fails_its_writers_and_nobody_else(tmp_path, monkeypatch, caplog):
    store = await SqliteStore.open(tmp_path / "s.db")
    await store.create("/before", b"")
    gate = Gate(monkeypatch)
    gate.error = sqlite3.OperationalError("database or disk is full")
    failing, same_key, other = await started(
        gate, store.create("/a", b"1"), store.create("/a", b"2"), store.create("/b", b"1")
    )
    assert not other.done()
    gate.open()
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await failing
    with pytest.raises(StoreUnavailable, match="disk is full"):
        await other
    gate.error = None
    # The second writer of the key was not part of the failure: it decided anew, and its write came through or failed
    # by itself. Revisions go on without a gap either way.
    await asyncio.wait([same_key])
    after = await store.create("/after", b"")
    assert after == await store.current_revision()
    seen = await anext(store.watch("/", after=1))
    assert [event.revision for event in seen] == list(range(2, after + 1))
    await store.close()
    again = await SqliteStore.open(tmp_path / "s.db")
    assert (await again.range("/")).entries == [event.entry for event in sorted(seen, key=lambda e: e.key)]
    await again.close()


async def test_whether_writing_works_again_is_tried_not_assumed(tmp_path, monkeypatch, caplog):
    store = await SqliteStore.open(tmp_path / "s.db")
    await store.check_writable()
    gate = Gate(monkeypatch)
    gate.open()
    gate.error = sqlite3.OperationalError("database or disk is full")
    with pytest.raises(StoreUnavailable):
        await store.create("/a", b"1")
    for _ in range(2):
        with pytest.raises(StoreUnavailable, match="disk is full"):
            await store.check_writable()
    gate.error = None
    await asyncio.gather(store.check_writable(), store.check_writable(), store.create("/b", b"1"))
    await store.check_writable()
    assert store.revision == 2
    await store.close()


async def test_what_a_failed_commit_left_behind_is_removed_by_the_next(tmp_path, monkeypatch, caplog):
    store = await SqliteStore.open(tmp_path / "s.db")
    commit = sqlite._commit

    def commit_and_fail(connection, batch, *, suspect):
        commit(connection, batch, suspect=suspect)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(sqlite, "_commit", commit_and_fail)
    with pytest.raises(StoreUnavailable):
        await store.create("/ghost", b"")
    monkeypatch.setattr(sqlite, "_commit", commit)
    assert await store.create("/real", b"") == 2
    await store.close()
    again = await SqliteStore.open(tmp_path / "s.db")
    assert [entry.key for entry in (await again.range("/")).entries] == ["/real"]
    await again.close()


async def test_a_writer_that_goes_away_leaves_its_write_and_the_key_usable(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    gate = Gate(monkeypatch)
    gone, waiting = await started(gate, store.create("/a", b"1"), store.create("/a", b"2"))
    gone.cancel()
    await asyncio.wait([gone])
    gate.open()
    with pytest.raises(KeyExists):
        await waiting
    entry = await store.get("/a")
    assert entry is not None and entry.value == b"1"
    await store.close()


async def test_who_waits_for_a_key_may_go_away_without_the_others_noticing(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    gate = Gate(monkeypatch)
    writing, gone, waiting = await started(
        gate, store.create("/a", b"1"), store.create("/a", b"2"), store.create("/a", b"3")
    )
    gone.cancel()
    await asyncio.wait([gone])
    assert not waiting.done()
    gate.open()
    assert await writing == 2
    with pytest.raises(KeyExists):
        await waiting
    await store.close()


async def test_closing_lets_the_writes_under_way_finish(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    gate = Gate(monkeypatch)
    tasks = await started(gate, *(store.create(f"/{n}", b"") for n in range(10)))
    closing = asyncio.create_task(store.close())
    gate.open()
    await closing
    assert await asyncio.gather(*tasks) == list(range(2, 12))
    again = await SqliteStore.open(tmp_path / "s.db")
    assert len((await again.range("/")).entries) == 10
    await again.close()


async def test_a_second_process_cannot_open_the_file(tmp_path, monkeypatch):
    store = await SqliteStore.open(tmp_path / "s.db")
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **k: connect(*a, **{**k, "timeout": 0}))
    with pytest.raises(StoreUnavailable, match="another process has it open"):
        await SqliteStore.open(tmp_path / "s.db")
    await store.close()


async def test_a_file_that_is_no_store_is_left_alone(tmp_path):
    path = tmp_path / "other.db"
    query(path, "CREATE TABLE mine (x)")
    with pytest.raises(StoreUnavailable, match="not a store"):
        await SqliteStore.open(path)
    assert query(path, "SELECT name FROM sqlite_schema") == [("mine",)]
    path.write_bytes(b"hello " * 1000)
    with pytest.raises(StoreUnavailable, match="not a database"):
        await SqliteStore.open(path)


async def test_only_the_owner_can_read_the_file(tmp_path):
    store = await SqliteStore.open(tmp_path / "s.db")
    await store.create("/a", b"")
    assert {path.stat().st_mode & 0o777 for path in tmp_path.iterdir()} == {0o600}
    await store.close()


async def test_compaction_removes_rows_and_is_remembered(tmp_path):
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path)
    revision = await store.create("/a", b"0")
    for n in range(10):
        revision = await store.update("/a", b"%d" % n, expected=revision)
    doomed = await store.create("/b", b"")
    deleted = await store.delete("/b", expected=doomed)
    await store.compact(deleted)
    await store.close()
    assert query(path, "SELECT revision, key FROM log") == [(revision, "/a")]
    again = await SqliteStore.open(path)
    assert await again.current_revision() == deleted
    with pytest.raises(Exception, match="compacted"):
        await again.range("/", revision=deleted - 1)
    assert await again.create("/c", b"") == deleted + 1
    await again.close()


async def test_a_compaction_that_was_cut_short_is_finished_at_the_next_start(tmp_path):
    path = tmp_path / "s.db"
    store = await SqliteStore.open(path)
    first = await store.create("/a", b"0")
    second = await store.update("/a", b"1", expected=first)
    doomed = await store.create("/b", b"")
    deleted = await store.delete("/b", expected=doomed)
    await store.close()
    with closing(sqlite_log.connect(path)) as connection:
        sqlite_log.discard(connection, [], compacted=deleted)
    again = await SqliteStore.open(path)
    assert (await again.range("/")).entries == [KeyValue("/a", b"1", first, second)]
    await again.close()
    assert query(path, "SELECT revision FROM log") == [(second,)]


async def test_large_compactions_are_spread_over_many_commits(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BATCH_DISCARDS", 10)
    store = await SqliteStore.open(tmp_path / "s.db")
    revision = await store.create("/a", b"0")
    for n in range(35):
        revision = await store.update("/a", b"%d" % n, expected=revision)
    await store.compact(revision)
    await store.close()
    assert query(tmp_path / "s.db", "SELECT revision FROM log") == [(revision,)]


async def test_expiry_survives_a_restart(tmp_path):
    now = [1000.0]
    store = await SqliteStore.open(tmp_path / "s.db", clock=lambda: now[0])
    await store.create("/brief", b"", ttl=10)
    kept = await store.create("/kept", b"", ttl=10)
    await store.update("/kept", b"", expected=kept)
    await store.close()
    now[0] += 11
    again = await SqliteStore.open(tmp_path / "s.db", clock=lambda: now[0])
    async with asyncio.timeout(20):
        events = await anext(again.watch("/", after=4))
    assert [(event.key, event.value) for event in events] == [("/brief", None)]
    assert [entry.key for entry in (await again.range("/")).entries] == ["/kept"]
    await again.close()


async def test_more_writes_than_one_statement_takes_are_split(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BATCH_WRITES", 7)
    store = await SqliteStore.open(tmp_path / "s.db")
    revisions = await asyncio.gather(*(store.create(f"/{n:02}", b"") for n in range(40)))
    assert revisions == list(range(2, 42))
    await store.close()


async def test_a_transaction_is_never_split_over_two_commits(tmp_path, monkeypatch):
    monkeypatch.setattr(sqlite, "BATCH_WRITES", 7)
    gate = Gate(monkeypatch)
    gate.open()
    store = await SqliteStore.open(tmp_path / "s.db")
    await asyncio.gather(*(store.transact([Put(f"/{n}/{i}", b"") for i in range(3)]) for n in range(5)))
    assert gate.sizes == [6, 6, 3]
    await store.close()
