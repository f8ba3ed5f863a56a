"""The SQLite file behind the store: one table whose row id is the revision, and the SQL that touches it.

A row without a value is a deletion. Rows are only ever appended; compaction removes those that can no longer be asked
for. There is no index beside the row id: the state is read once, at start, and kept in memory.

SQLite recovers a damaged write-ahead log by cutting it off, without a word. A record of the newest revision, in a file of
its own, tells how much was cut.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from pathlib import Path
from typing import Final

from dray.store.disk_keys import DiskKeys, outside
from dray.store.interface import Event, KeyValue
from dray.store.state import FIRST_REVISION, State

_APPLICATION_ID: Final = 0x64726179  # "dray"
_FORMAT: Final = 1
_COLUMNS: Final = 5
#: The key of rows that are compacted, and that caches of this process may still read.
_SET_APART: Final = ""
_REMOVE: Final = "DELETE FROM log WHERE revision = ?"
_TAKE_KEY: Final = f"UPDATE log SET key = '{_SET_APART}' WHERE revision = ?"
#: What SQLite holds of the file: rows are appended, and hardly ever read again.
_CACHE_KIB: Final = 512

_SCHEMA: Final = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    key      TEXT NOT NULL,
    created  INTEGER NOT NULL,
    expires  REAL,
    value    BLOB
);
CREATE TABLE compaction (revision INTEGER NOT NULL);
INSERT INTO compaction VALUES (0);
"""


class WrongFile(sqlite3.DatabaseError):
    """A SQLite file, but not one of this store's, or of a format this release does not know."""


def connect(path: Path, *, exclusive: bool = True) -> sqlite3.Connection:
    """Open the file, by default for this connection alone, with a commit that returns after its fsync."""
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=1.0)
    try:
        # Exclusive before WAL: the index of the log then lives on our heap, and a second process is kept out.
        if exclusive:
            connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
        connection.execute("PRAGMA wal_autocheckpoint = 4000")
        connection.execute(f"PRAGMA journal_size_limit = {64 * 2**20}")
        with transaction(connection):
            _create_or_check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _create_or_check(connection: sqlite3.Connection) -> None:
    ((application,),) = connection.execute("PRAGMA application_id")
    ((file_format,),) = connection.execute("PRAGMA user_version")
    ((tables,),) = connection.execute("SELECT count(*) FROM sqlite_schema")
    if tables == 0:
        for statement in _SCHEMA.split(";"):
            connection.execute(statement)
        connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
        connection.execute(f"PRAGMA user_version = {_FORMAT}")
    elif application != _APPLICATION_ID:
        raise WrongFile("it is a SQLite file, but not a store of dray's")
    elif file_format != _FORMAT:
        raise WrongFile(f"its format is {file_format}, this release knows format {_FORMAT}")


@dataclass(frozen=True, slots=True)
class Loaded:
    state: State
    expiries: Sequence[tuple[float, KeyValue]]
    garbage: list[int]  # rows left over from a compaction that was cut short


def load(connection: sqlite3.Connection, disk: DiskKeys | None = None) -> Loaded:
    """State and history as of the last commit that reached the disk. Of keys that stay there, only the history is read."""
    held = "" if disk is None else f" AND {outside(disk.prefix)}"
    ((compacted,),) = connection.execute("SELECT revision FROM compaction")
    base: dict[str, KeyValue] = {}
    garbage: list[int] = []
    expires_by_key: dict[str, float] = {}
    rows = connection.execute(
        f"SELECT revision, key, created, expires, value FROM log WHERE revision <= ?{held} ORDER BY revision",
        (compacted,),
    )
    for revision, key, created, expires, value in rows:
        if key == _SET_APART:
            garbage.append(revision)
            continue
        superseded = base.pop(key, None)
        if superseded is not None:
            garbage.append(superseded.mod_revision)
        if value is None:
            garbage.append(revision)
        else:
            base[key] = KeyValue(key, value, created, revision)
        _note_expiry(expires_by_key, key, expires)
    state = State(base.values(), revision=max(compacted, FIRST_REVISION), compacted=compacted, disk=disk)
    rows = connection.execute(
        "SELECT revision, key, created, expires, value FROM log WHERE revision > ? ORDER BY revision",
        (compacted,),
    )
    for revision, key, created, expires, value in rows:
        if disk is None or not key.startswith(disk.prefix):
            state.apply((Event(revision, key, value, state.get(key)),))
            _note_expiry(expires_by_key, key, expires)
        else:  # which is slower to read, and not needed for the first write of a key
            previous = state.get(key) if created < revision else None
            state.apply((Event(revision, key, value, previous),))
    expiries = [(at, entry) for key, at in expires_by_key.items() if (entry := state.get(key)) is not None]
    return Loaded(state, expiries, garbage)


def skip_revisions(connection: sqlite3.Connection, *, after: int) -> None:
    """Go on after revisions that were given once and are lost: nobody may get them again for something else, and who
    watches from one of them must be told to read anew."""
    with transaction(connection):
        discard(connection, (), compacted=after + 1)


class RevisionRecord:
    """The newest revision that is on disk, in 21 bytes that are overwritten after each commit. They are not synced: after
    a loss of power the record may be too old, but it is never too new."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def lock(self) -> None:
        """Keep other processes out of a store that several connections of this one have open."""
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise sqlite3.OperationalError("database is locked") from error

    def read(self) -> int:
        text = os.pread(self._descriptor, 21, 0)
        return int(text) if text.strip().isdigit() else 0

    def write(self, revision: int) -> None:
        with contextlib.suppress(OSError):  # the commit itself has succeeded
            os.pwrite(self._descriptor, b"%020d\n" % revision, 0)

    def close(self) -> None:
        os.close(self._descriptor)


def _note_expiry(expires_by_key: dict[str, float], key: str, expires: float | None) -> None:
    if expires is not None:
        expires_by_key[key] = expires
    else:
        expires_by_key.pop(key, None)


def append(connection: sqlite3.Connection, events: Sequence[Event], expiries: Sequence[float | None]) -> None:
    """Add rows; returns when they are on disk. If it raises, nothing has happened, or ``truncate`` makes it so.

    One statement for the whole batch, its own transaction outside ``transaction``: the interpreter lock is given up
    and taken back once, not once a row, which matters when the event loop is busy. The statement has places for a power
    of two of rows, so that there are few statements for SQLite to prepare and to hold; what is left over is null.
    """
    row: list[str | int | float | bytes | None] = []
    for event, expires in zip(events, expiries, strict=True):
        created = event.revision if event.previous is None else event.previous.create_revision
        row += (event.revision, event.key, created, expires, event.value)
    places = 1 << (len(events) - 1).bit_length()
    row += [None] * (_COLUMNS * (places - len(events)))
    connection.execute(_append_statement(places), row)


@cache
def _append_statement(places: int) -> str:
    rows = ",".join(["(?,?,?,?,?)"] * places)
    return f"INSERT INTO log SELECT * FROM (VALUES {rows}) WHERE column1 IS NOT NULL"


def truncate(connection: sqlite3.Connection, *, after: int) -> None:
    """Remove whatever a commit that was reported as failed may have left behind."""
    connection.execute("DELETE FROM log WHERE revision > ?", (after,))


def discard(connection: sqlite3.Connection, revisions: Iterable[int], *, compacted: int) -> None:
    """Remove rows of a compaction up to ``compacted``, which is noted first of all. A negative revision is a row that is set
    apart: its value can be read by its revision, and no key has it any more, so that a start takes it for garbage."""
    connection.execute("UPDATE compaction SET revision = ?1 WHERE revision <> ?1", (compacted,))
    for is_removed, group in groupby(revisions, key=lambda revision: revision > 0):
        statement = _REMOVE if is_removed else _TAKE_KEY
        connection.executemany(statement, ((abs(revision),) for revision in group))


def probe(connection: sqlite3.Connection) -> None:
    """Write something that changes nothing; raises if nothing can be written."""
    connection.execute("UPDATE compaction SET revision = revision")


@contextmanager
def transaction(connection: sqlite3.Connection) -> Iterator[None]:
    """Everything inside is durable together when the block ends, or has not happened."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
