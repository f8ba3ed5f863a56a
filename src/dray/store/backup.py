"""Backups: every key of a store that begins with a slash, at one revision, in one file, and back into an empty store.

The file is a line that says what it is, a header, the entries, and a SHA-256 of all before it; header and entries are
length-prefixed MessagePack, compressed as one zlib stream. A backup that was cut short or changed is refused before
anything is written.
"""

from __future__ import annotations

import hashlib
import os
import sqlite3
import zlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Final

import msgspec

from dray.store import sqlite_log
from dray.store.interface import KeyExists, KeyValue, Put, Store, StoreError

MAGIC: Final = b"dray backup 1\n"
_DIGEST: Final = hashlib.sha256
#: Keys that are read from the store at once.
_PAGE: Final = 1000
#: Keys and bytes that are written to etcd in one transaction. Its limits are 128 operations and 1.5 MiB a request.
_TRANSACTION: Final = 100
_TRANSACTION_BYTES: Final = 2**20


class DamagedBackup(StoreError):
    """The file is no backup, or not a whole one."""


class NotEmpty(StoreError):
    """A backup is restored into an empty store only."""


class Header(msgspec.Struct, frozen=True):
    revision: int
    keys: int
    made: float  # epoch seconds


async def pieces(store: Store, *, clock: Callable[[], float]) -> AsyncIterator[bytes]:
    """The bytes of a backup of ``store`` as it is now, a page at a time, while others go on writing."""
    await store.wait_until_fresh()
    page = await store.range("/", limit=_PAGE)
    digest, compress = _DIGEST(), zlib.compressobj(6)

    def packed(data: bytes) -> bytes:
        digest.update(data)
        return data

    header = Header(page.revision, len(page.entries) + page.remaining, clock())
    yield packed(MAGIC)
    yield packed(compress.compress(_frame(header)))
    while True:
        yield packed(compress.compress(b"".join(map(_frame, page.entries))))
        if not page.more:
            break
        start = page.entries[-1].key + "\0"
        page = await store.range("/", start=start, limit=_PAGE, revision=page.revision)
    yield packed(compress.flush())
    yield digest.digest()


def _frame(content: Header | KeyValue) -> bytes:
    if isinstance(content, KeyValue):
        data = msgspec.msgpack.encode(
            (content.key, content.value, content.create_revision, content.mod_revision)
        )
    else:
        data = msgspec.msgpack.encode(content)
    return len(data).to_bytes(4, "big") + data


def read(path: Path) -> tuple[Header, list[KeyValue]]:
    """What a backup holds, or ``DamagedBackup``."""
    data = path.read_bytes()
    if not data.startswith(MAGIC):
        raise DamagedBackup(f"{path} is not a backup of dray's")
    content, digest = data[: -_DIGEST().digest_size], data[-_DIGEST().digest_size :]
    if _DIGEST(content).digest() != digest:
        raise DamagedBackup(f"{path} is damaged or not complete: its checksum does not match")
    try:
        frames = _frames(zlib.decompress(content[len(MAGIC) :]))
        header = msgspec.msgpack.decode(next(frames, b""), type=Header)
        entries = [
            KeyValue(*fields)
            for fields in (msgspec.msgpack.decode(f, type=tuple[str, bytes, int, int]) for f in frames)
        ]
    except (zlib.error, msgspec.DecodeError) as e:
        raise DamagedBackup(f"{path} has a checksum that matches, but is no backup: {e}") from None
    if len(entries) != header.keys:
        raise DamagedBackup(f"{path} has {len(entries)} keys; it should have {header.keys}")
    return header, entries


def _frames(data: bytes) -> Iterator[bytes]:
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        yield data[at + 4 : at + 4 + size]
        at += 4 + size


def restore_sqlite(
    path: Path,
    header: Header,
    entries: Sequence[KeyValue],
    *,
    expiries: Mapping[str, float],
) -> int:
    """Write a new SQLite store, and return its revision. ``expiries``: when keys below a prefix end (epoch seconds).

    Entries keep their revisions, so that clients go on where they were. Whoever watches from before the backup is told
    to read anew. A backup of etcd may have several keys at one revision: its keys get new revisions, after the old.
    """
    if path.exists():
        raise NotEmpty(f"{path} is there already: move it away, or restore elsewhere")
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    ordered = sorted(entries, key=lambda entry: (entry.mod_revision, entry.key))
    revisions = [entry.mod_revision for entry in ordered]
    newest = header.revision
    if len(set(revisions)) < len(revisions):
        revisions = list(range(newest + 1, newest + 1 + len(ordered)))
        newest += len(ordered)
    aside = path.with_name(f"{path.name}.restoring")
    aside.unlink(missing_ok=True)
    os.close(os.open(aside, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with closing(sqlite_log.connect(aside)) as connection:
        with sqlite_log.transaction(connection):
            connection.executemany(
                "INSERT INTO log VALUES (?,?,?,?,?)",
                (
                    (
                        revision,
                        entry.key,
                        min(entry.create_revision, revision),
                        _expiry(entry, expiries),
                        entry.value,
                    )
                    for revision, entry in zip(revisions, ordered, strict=True)
                ),
            )
            sqlite_log.discard(connection, (), compacted=newest)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        _verify(connection, entries)
    aside.replace(path)
    _sync_directory(path.parent)
    return newest


def _expiry(entry: KeyValue, expiries: Mapping[str, float]) -> float | None:
    return next((ends for prefix, ends in expiries.items() if entry.key.startswith(prefix)), None)


def _verify(connection: sqlite3.Connection, entries: Sequence[KeyValue]) -> None:
    ((result,),) = connection.execute("PRAGMA integrity_check(1)")
    if result != "ok":
        raise StoreError(f"the restored file is damaged: {result}")
    state = sqlite_log.load(connection).state
    _compare(entries, (state.get(entry.key) for entry in entries))


async def restore_store(store: Store, entries: Sequence[KeyValue], *, lives: Mapping[str, float]) -> int:
    """Write the keys into an empty store, in the order of their revisions. ``lives``: seconds that keys below a prefix
    have left."""
    if (await store.range("/", limit=1)).entries:
        raise NotEmpty("the store is not empty: a backup is restored into an empty one")
    ordered = sorted(entries, key=lambda entry: (entry.mod_revision, entry.key))
    brief = [entry for entry in ordered if _expiry(entry, lives) is not None]
    lasting = [entry for entry in ordered if _expiry(entry, lives) is None]
    try:
        for some in _transactions(lasting):
            await store.transact([Put(e.key, e.value) for e in some])
        for entry in brief:
            await store.create(entry.key, entry.value, ttl=_expiry(entry, lives))
    except KeyExists as e:
        raise NotEmpty(f"somebody else writes to the store: {e}") from e
    found = {entry.key: entry for entry in (await store.range("/")).entries}
    _compare(entries, (found.get(entry.key) for entry in entries))
    return await store.current_revision()


def _transactions(entries: Iterable[KeyValue]) -> Iterator[list[KeyValue]]:
    """The entries in pieces that etcd takes. What is larger by itself goes alone."""
    some: list[KeyValue] = []
    size = 0
    for entry in entries:
        more = len(entry.key) + len(entry.value)
        if some and (len(some) == _TRANSACTION or size + more > _TRANSACTION_BYTES):
            yield some
            some, size = [], 0
        some.append(entry)
        size += more
    if some:
        yield some


def _compare(wanted: Iterable[KeyValue], found: Iterable[KeyValue | None]) -> None:
    for entry, stored in zip(wanted, found, strict=True):
        if stored is None or stored.value != entry.value:
            raise StoreError(f"{entry.key} was not restored as it was")


def _sync_directory(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
