"""Keys whose values stay on disk: those below one prefix that are written in great number, seldom read, and end by
themselves. Nothing of them is held in memory, whatever their number.

They are read from the store's log through connections of their own, beside the writer's, as of a revision: what is
committed and not yet published is left out. What was superseded of other keys is read here as well.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from sys import maxsize
from typing import Final, NamedTuple

from dray.store.interface import KeyValue, StoreUnavailable
from dray.store.keys import prefix_end

_log = logging.getLogger(__name__)

#: Keys after the end of a page that are counted at most.
_MOST_COUNTED: Final = 10_000
#: Bits that tell of keys, a power of two: 64 for each key leave one in a thousand unknown ones to be looked for in vain.
_LEAST_NOTES: Final = 1 << 20
_MOST_NOTES: Final = 1 << 23
_NOTES_PER_KEY: Final = 64
#: There is room for so many times the keys there are, so that they need not be noted anew too often.
_AHEAD: Final = 4
_SECOND: Final = 23
#: How far apart revisions may be that are read together.
_CLOSE: Final = 4
#: What SQLite holds of the file for each connection: nobody reads the same twice in a row.
_CACHE_KIB: Final = 256
#: After so many writes at least the notes are made anew, without the keys that have gone.
RENEWAL: Final = 200_000


class Due(NamedTuple):
    """A write of a key that has come to its end, unless it was written again since."""

    expires: float
    revision: int
    key: str


class Notes:
    """Tells which keys may be in the file: yes for every key that was noted, and seldom for another (a Bloom filter)."""

    def __init__(self, keys: int = 0) -> None:
        wanted = 1 << (max(keys, 1) * _NOTES_PER_KEY - 1).bit_length()
        size = min(max(wanted, _LEAST_NOTES), _MOST_NOTES)
        self._mask = size - 1
        self._bits = bytearray(size // 8)
        self.count = 0  # how often a key was noted

    @property
    def room(self) -> int:
        """For how many keys there are bits enough; as many as you like once there are as many bits as there may be."""
        return (self._mask + 1) // _NOTES_PER_KEY if self._mask + 1 < _MOST_NOTES else maxsize

    def _places(self, key: str) -> tuple[int, int]:
        """Two bits, of which a key that was written has both."""
        hashed = hash(key)
        return hashed & self._mask, hashed >> _SECOND & self._mask

    def add(self, key: str) -> None:
        first, second = self._places(key)
        self._bits[first >> 3] |= 1 << (first & 7)
        self._bits[second >> 3] |= 1 << (second & 7)
        self.count += 1

    def __contains__(self, key: str) -> bool:
        first, second = self._places(key)
        bits = self._bits
        return bool(bits[first >> 3] >> (first & 7) & bits[second >> 3] >> (second & 7) & 1)

    def update(self, others: Notes) -> None:
        both = int.from_bytes(self._bits, "little") | int.from_bytes(others._bits, "little")
        self._bits[:] = both.to_bytes(len(self._bits), "little")
        self.count += others.count


class DiskKeys:
    """See ``prepare``, which must have been called once for the file."""

    def __init__(self, path: Path, prefix: str) -> None:
        self.prefix = prefix
        self._path = path
        self._connection = _connect(path)
        self._notes = Notes()
        self._since: Notes | None = None  # what is noted while the notes are made anew
        self._renew_after = min(RENEWAL, self._notes.room)
        # The bounds are written out: only so does SQLite know that the index has every row that is asked for.
        self._rows = f"log INDEXED BY on_disk WHERE {_within(prefix)}"

    def note(self, key: str) -> None:
        """A key has been written. Nobody need ask the file for a key that was never noted."""
        self._notes.add(key)
        if self._since is not None:
            self._since.add(key)

    def note_all(self) -> None:
        """Note what the file has, and nothing else. It may take long."""
        with closing(_connect(self._path)) as connection:
            ((rows,),) = connection.execute(f"SELECT count(*) FROM {self._rows}")
        self._take(self._read_notes(_AHEAD * rows))

    def _take(self, notes: Notes) -> None:
        self._notes = notes
        self._renew_after = min(RENEWAL + 2 * notes.count, notes.room)

    def _read_notes(self, keys: int) -> Notes:
        """``keys``: for how many there shall be room."""
        notes = Notes(keys)
        with closing(_connect(self._path)) as connection:
            for (key,) in connection.execute(f"SELECT DISTINCT key FROM {self._rows}"):
                notes.add(key)
        return notes

    @property
    def is_crowded(self) -> bool:
        """Whether many of the notes are of keys that may have gone, and nobody makes them anew yet."""
        return self._notes.count > self._renew_after and self._since is None

    async def renew(self) -> None:
        """Forget the keys that have gone, and make room for more, while others go on. A key is in the file before it is
        noted."""
        keys = _AHEAD * self._notes.count
        self._since = Notes(keys)
        try:
            renewed = await asyncio.to_thread(self._read_notes, keys)
        except sqlite3.Error as error:
            _log.warning("the notes of keys on disk could not be made anew: %s", error)
            self._renew_after += RENEWAL
        else:
            renewed.update(self._since)
            self._take(renewed)
        finally:
            self._since = None

    def get(self, key: str, *, at: int) -> KeyValue | None:
        if key not in self._notes:
            return None
        row = self._connection.execute(
            f"SELECT revision, created, value FROM {self._rows} AND key = ? AND revision <= ?"
            " ORDER BY revision DESC LIMIT 1",
            (key, at),
        ).fetchone()
        if row is None or row[2] is None:
            return None
        return KeyValue(key, row[2], row[1], row[0])

    def written(self, revisions: Sequence[int]) -> Mapping[int, tuple[int, bytes | None]]:
        """What was written at these revisions, which ascend, to whatever key, as far as the file still has it: the revision
        at which the key was created, and the value."""
        wanted = frozenset(revisions)
        found: dict[int, tuple[int, bytes | None]] = {}
        execute = self._connection.execute
        try:
            execute("BEGIN")  # so that the file is looked at once, and not for each of them
            try:
                for run in _runs(revisions):
                    for revision, created, value in execute(
                        "SELECT revision, created, value FROM log WHERE revision BETWEEN ? AND ?", run
                    ):
                        if revision in wanted:
                            found[revision] = (created, value)
            finally:
                execute("COMMIT")
        except sqlite3.Error as error:
            raise StoreUnavailable(f"what was superseded cannot be read: {error}") from error
        return found

    def range(self, low: str, high: str | None, *, limit: int = 0, at: int) -> tuple[Sequence[KeyValue], int]:
        """Entries in ``[low, high)`` in order, ``limit`` at most (0: all), and how many follow, as far as it is counted.

        It may take long and may be called in another thread.
        """
        newest = f"FROM {self._rows} AND key >= ? AND key < ? AND revision <= ? GROUP BY key HAVING value IS NOT NULL"
        bounds = (max(low, self.prefix), high or prefix_end(self.prefix), at)
        with closing(_connect(self._path)) as connection:
            rows = connection.execute(
                f"SELECT key, value, created, max(revision) {newest} ORDER BY key LIMIT ?",
                (*bounds, limit or -1),
            )
            entries = [KeyValue(*row) for row in rows]
            if not limit or len(entries) < limit:
                return entries, 0
            ((following,),) = connection.execute(
                f"SELECT count(*) FROM (SELECT value, max(revision) {newest} LIMIT {_MOST_COUNTED})",
                (entries[-1].key + "\x00", *bounds[1:]),
            )
            return entries, following

    def due(self, *, after: Due | None, until: float, at: int, limit: int) -> Sequence[Due]:
        """What ends by ``until`` and comes after ``after``, in order."""
        since, revision = (after.expires, after.revision) if after is not None else (0.0, 0)
        rows = self._connection.execute(
            "SELECT expires, revision, key FROM log INDEXED BY expiry WHERE expires IS NOT NULL"
            f" AND (expires, revision) > (?, ?) AND expires <= ? AND revision <= ? AND {_within(self.prefix)}"
            " ORDER BY expires, revision LIMIT ?",
            (since, revision, until, at, limit),
        )
        return [Due(*row) for row in rows]

    def garbage(self, *, compacted: int) -> list[int]:
        """Rows that nobody can ask for since that compaction. There are some if one was cut short. It may take long."""
        with closing(_connect(self._path)) as connection:
            rows = connection.execute(
                f"SELECT revision FROM log AS old INDEXED BY on_disk WHERE {_within(self.prefix)} AND revision <= ?1"
                " AND (value IS NULL OR EXISTS (SELECT 1 FROM log AS newer INDEXED BY on_disk"
                f" WHERE {_within(self.prefix, 'newer.')} AND newer.key = old.key"
                " AND newer.revision > old.revision AND newer.revision <= ?1))",
                (compacted,),
            )
            return [revision for (revision,) in rows]

    def close(self) -> None:
        self._connection.close()


def prepare(connection: sqlite3.Connection, prefix: str) -> None:
    """Make the indexes by which keys below ``prefix`` are read, and by which those that end are found."""
    connection.execute(f"CREATE INDEX IF NOT EXISTS on_disk ON log (key, revision) WHERE {_within(prefix)}")
    connection.execute("CREATE INDEX IF NOT EXISTS expiry ON log (expires) WHERE expires IS NOT NULL")


def outside(prefix: str) -> str:
    """The condition of rows that are held in memory."""
    return f"NOT ({_within(prefix)})"


def _runs(revisions: Iterable[int]) -> Iterator[tuple[int, int]]:
    """First and last of those that follow each other closely: rows between them are read sooner than looked for one by one."""
    ascending = iter(revisions)
    first = last = next(ascending, 0)
    for revision in ascending:
        if revision - last > _CLOSE:
            yield first, last
            first = revision
        last = revision
    if last:
        yield first, last


def _within(prefix: str, table: str = "") -> str:
    end = prefix_end(prefix)
    assert end is not None and "'" not in prefix
    return f"{table}key >= '{prefix}' AND {table}key < '{end}'"


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None, check_same_thread=False, timeout=5.0)
    connection.execute("PRAGMA query_only = 1")
    connection.execute(f"PRAGMA cache_size = -{_CACHE_KIB}")
    return connection
