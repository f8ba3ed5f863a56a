"""A durable store in one SQLite file: a log whose row id is the revision, written by one thread in grouped commits.

The event loop decides writes and queues them. What is decided in one turn of the loop, or while the writer thread
waits for a commit's fsync, is one batch, so a single fsync serves everybody who waits. Revisions are given when a
batch goes to the writer. Only when it is on disk does the batch enter the state, reach the watchers, and are its
writers answered, in that order.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import Final, Unpack

import msgspec

from dray.store import disk_keys, sqlite_log
from dray.store.embedded import Decided, EmbeddedOptions, EmbeddedStore
from dray.store.interface import Event, KeyValue, Past, StoreUnavailable
from dray.store.state import State

_log = logging.getLogger(__name__)

#: Writes in one commit at most; SQLite takes 32,766 parameters in a statement and a row has five.
BATCH_WRITES: Final = 4096
#: Rows that one commit removes for a compaction at most: writers that wait for the same commit should not notice.
BATCH_DISCARDS: Final = 1000


@dataclass(slots=True)
class _Batch:
    """What one commit makes durable."""

    durable: int  # the revision before
    compacted: int | None  # where there is something to compact
    events: list[Event]
    expiries: list[float | None]
    answers: list[asyncio.Future[int] | None]
    discards: list[int] = field(default_factory=list)
    probes: list[asyncio.Future[None]] = field(default_factory=list)  # of those who ask whether writing works


class _Waiting(msgspec.Struct):
    """A write that waits for its turn: what it replaces, when it expires (epoch seconds), and the writer's future.

    Of the writes of a transaction, the last one has the future.
    """

    key: str
    value: bytes | None
    previous: KeyValue | None
    expires: float | None
    answer: asyncio.Future[int] | None


class SqliteStore(EmbeddedStore):
    """See ``open``."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        state: State,
        record: sqlite_log.RevisionRecord,
        **options: Unpack[EmbeddedOptions],
    ) -> None:
        super().__init__(state, **options)
        self._connection = connection
        self._record = record
        self._probes: list[asyncio.Future[None]] = []
        self._last_commit_failed = False
        self._waiting: list[_Waiting] = []
        # Rows to remove, in the order of events: of a key's rows an older one must not outlast the deletion. Negative: the
        # row is set apart, because a cache may read it.
        self._discards: deque[int] = deque()
        self._kept: dict[int, int] = {}  # rows that caches may read, by how many of them
        #: those of them that are compacted, and stay until they are released
        self._kept_discards: set[int] = set()
        self._compacted_on_disk = state.compacted
        self._committing = False  # the writer is at work
        self._sweeping: asyncio.Task[None] | None = None
        self._batches: SimpleQueue[_Batch | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write_batches, name="store-writer", daemon=True)
        self._thread.start()

    @classmethod
    async def open(cls, path: Path, *, on_disk: str = "", **options: Unpack[EmbeddedOptions]) -> SqliteStore:
        """Open or create the store in the file ``path``, which no other process may have open.

        What is below the prefix ``on_disk`` is not held in memory.
        """
        try:
            connection, loaded, record = await asyncio.to_thread(_open_and_load, path, on_disk)
        except (sqlite3.Error, OSError) as error:
            hint = "another process has it open" if "locked" in str(error) else str(error)
            raise StoreUnavailable(f"cannot open {path}: {hint}") from error
        store = cls(connection, loaded.state, record, **options)
        for expires, entry in loaded.expiries:
            store._expire_at(expires, entry.key, entry.mod_revision)
        store._discard(loaded.garbage)
        if (disk := loaded.state.disk) is not None:
            store._sweeping = asyncio.create_task(store._sweep(disk))
        return store

    async def _sweep(self, disk: disk_keys.DiskKeys) -> None:
        """Find what a compaction that was cut short has left among the keys on disk, while others go on."""
        self._discard(await asyncio.to_thread(disk.garbage, compacted=self._state.compacted))

    # In the event loop

    async def check_writable(self) -> None:
        self._check_open()
        if self._last_commit_failed:
            probe: asyncio.Future[None] = self._loop.create_future()
            self._probes.append(probe)
            self._hand_over()
            await probe

    def _submit(
        self, key: str, value: bytes | None, previous: KeyValue | None, expires: float | None
    ) -> asyncio.Future[int]:
        answer: asyncio.Future[int] = self._loop.create_future()
        self._in_flight.add(key)
        self._waiting.append(_Waiting(key, value, previous, expires, answer))
        if len(self._waiting) == 1 and not self._committing:
            self._loop.call_soon(self._hand_over)  # with whatever else is decided in this turn of the loop
        return answer

    def _submit_all(self, writes: Sequence[Decided]) -> asyncio.Future[int]:
        *others, last = writes
        if not self._waiting and not self._committing:
            self._loop.call_soon(self._hand_over)
        for key, value, previous in others:
            self._in_flight.add(key)
            self._waiting.append(_Waiting(key, value, previous, None, None))
        answer: asyncio.Future[int] = self._loop.create_future()
        self._in_flight.add(last.key)
        self._waiting.append(_Waiting(*last, None, answer))
        return answer

    def _discard(self, revisions: list[int]) -> None:
        if kept := self._kept:
            self._kept_discards.update([revision for revision in revisions if revision in kept])
            revisions = [-revision if revision in kept else revision for revision in revisions]
        self._discards.extend(revisions)
        self._hand_over()

    # What caches need not hold

    @property
    def past(self) -> Past | None:
        return None if self._state.disk is None else self

    def keep(self, revision: int, *, until: int) -> bool:
        if until <= self._state.compacted:
            return False
        self._kept[revision] = self._kept.get(revision, 0) + 1
        return True

    def release(self, revisions: Iterable[int]) -> None:
        kept, waiting = self._kept, self._kept_discards
        before = len(self._discards)
        for revision in revisions:
            if (others := kept[revision] - 1) > 0:
                kept[revision] = others
                continue
            del kept[revision]
            if revision in waiting:
                waiting.remove(revision)
                self._discards.append(revision)
        if len(self._discards) > before and not self._closed:
            self._hand_over()

    def value(self, revision: int) -> bytes | None:
        disk = self._state.disk
        assert disk is not None
        return disk.written((revision,)).get(revision, (0, None))[1]

    def _hand_over(self) -> None:
        """Give the writer everything that waits, unless it is at work."""
        compacted = self._state.compacted
        compacting = bool(self._discards) or compacted != self._compacted_on_disk
        if self._committing or not (self._waiting or compacting or self._probes):
            return
        self._committing = True
        durable = self._state.revision
        cut = BATCH_WRITES
        while cut < len(self._waiting) and self._waiting[cut - 1].answer is None:
            cut -= 1  # a transaction is not split
        writes, self._waiting = self._waiting[:cut], self._waiting[cut:]
        batch = _Batch(
            durable,
            compacted if compacting else None,
            [
                Event(revision, write.key, write.value, write.previous)
                for revision, write in enumerate(writes, durable + 1)
            ],
            [write.expires for write in writes],
            [write.answer for write in writes],
        )
        while self._discards and len(batch.discards) < BATCH_DISCARDS:
            batch.discards.append(self._discards.popleft())
        batch.probes, self._probes = self._probes, []
        self._batches.put(batch)

    def _settle(self, batch: _Batch, error: Exception | None) -> None:
        """A batch is durable or has failed: answer its writers, and commit what has gathered meanwhile."""
        self._committing = False
        self._last_commit_failed = error is not None
        self._in_flight.difference_update([event.key for event in batch.events])
        if error is None:
            self._compacted_on_disk = batch.compacted or self._compacted_on_disk
            if batch.events:
                self._publish(batch.events, batch.expiries)
            for event, answer in zip(batch.events, batch.answers, strict=True):
                if answer is not None and not answer.done():
                    answer.set_result(event.revision)
            for probe in batch.probes:
                if not probe.done():
                    probe.set_result(None)
        else:
            if batch.events:
                _log.error("a commit of %d writes failed: %s", len(batch.events), error)
            self._discards.extendleft(reversed(batch.discards))
            failed: list[asyncio.Future[int] | asyncio.Future[None] | None] = [*batch.answers, *batch.probes]
            for waiting in failed:
                if waiting is not None and not waiting.done():
                    waiting.set_exception(StoreUnavailable(f"the write could not be made durable: {error}"))
        self._tell_settlement()
        if self._waiting or self._probes:
            self._loop.call_soon(self._hand_over)  # who has just been answered may have the next write ready
        elif error is None:
            # After a failure, what is left to discard comes with the next write: trying at once might never end.
            self._hand_over()

    async def _drain(self) -> None:
        if self._sweeping is not None:
            await asyncio.wait((self._sweeping,))
        while self._waiting or self._committing:
            await self._settlement()
        self._batches.put(None)
        await asyncio.to_thread(self._thread.join)
        if self._state.disk is not None:
            self._state.disk.close()

    # In the writer thread

    def _write_batches(self) -> None:
        suspect = False  # the last commit failed, and SQLite may or may not have kept some of it
        while (batch := self._batches.get()) is not None:
            failure: Exception | None = None
            try:
                _commit(self._connection, batch, suspect=suspect)
                if batch.events:
                    self._record.write(batch.events[-1].revision)
            except Exception as error:
                failure = error
            suspect = failure is not None
            with contextlib.suppress(
                RuntimeError
            ):  # the loop has been closed: there is no writer left to answer
                self._loop.call_soon_threadsafe(self._settle, batch, failure)
        self._connection.close()
        self._record.close()


def _commit(connection: sqlite3.Connection, batch: _Batch, *, suspect: bool) -> None:
    if not suspect and batch.compacted is None and not batch.probes:
        sqlite_log.append(connection, batch.events, batch.expiries)
        return
    with sqlite_log.transaction(connection):
        if suspect:
            sqlite_log.truncate(connection, after=batch.durable)
        if batch.compacted is not None:
            sqlite_log.discard(connection, batch.discards, compacted=batch.compacted)
        if batch.events:
            sqlite_log.append(connection, batch.events, batch.expiries)
        elif batch.probes:
            sqlite_log.probe(connection)


def _open_and_load(
    path: Path, on_disk: str
) -> tuple[sqlite3.Connection, sqlite_log.Loaded, sqlite_log.RevisionRecord]:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # The file holds secrets; SQLite gives its write-ahead log the same permissions.
    os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    connection = sqlite_log.connect(path, exclusive=not on_disk)
    record, disk = None, None
    try:
        record = sqlite_log.RevisionRecord(path.with_name(f"{path.name}-revision"))
        if on_disk:
            record.lock()
            disk_keys.prepare(connection, on_disk)
            disk = disk_keys.DiskKeys(path, on_disk)
            disk.note_all()
        loaded = sqlite_log.load(connection, disk)
        newest, recorded = loaded.state.revision, record.read()
        if newest < recorded:
            _log.error(
                "%s is damaged: its last %d writes are missing (it ends at revision %d, %d was acknowledged); "
                "restore a copy, or go on without them",
                path, recorded - newest, newest, recorded,
            )  # fmt: skip
            sqlite_log.skip_revisions(connection, after=recorded)
            loaded = sqlite_log.load(connection, disk)
        record.write(loaded.state.revision)
        return connection, loaded, record
    except BaseException:
        connection.close()
        if disk is not None:
            disk.close()
        if record is not None:
            record.close()
        raise
