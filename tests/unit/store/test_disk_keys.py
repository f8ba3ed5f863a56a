"""Which keys are looked for in the file."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path

import pytest

from dray.store import disk_keys
from dray.store.disk_keys import DiskKeys, Notes
from dray.store.sqlite import SqliteStore

NOW = 2**62  # later than every revision


@asynccontextmanager
async def opened(directory: Path) -> AsyncIterator[SqliteStore]:
    store = await SqliteStore.open(directory / "store.db", on_disk="/events/")
    try:
        yield store
    finally:
        await store.close()


class Reader(DiskKeys):
    """Tells whether the file was asked."""

    def asks_for(self, key: str) -> bool:
        asked: list[str] = []
        self._connection.set_trace_callback(asked.append)
        self.get(key, at=NOW)
        self._connection.set_trace_callback(None)
        return bool(asked)


def test_notes_tell_of_every_key_that_was_noted_and_of_few_others():
    notes, more = Notes(), Notes()
    for number in range(1000):
        (notes if number % 2 else more).add(f"/events/{number}")
    notes.update(more)
    assert all(f"/events/{number}" in notes for number in range(1000))
    assert sum(f"/events/{number}" in notes for number in range(1000, 11_000)) < 10
    assert notes.count == 1000


async def test_keys_that_have_gone_are_no_longer_looked_for(tmp_path: Path):
    async with opened(tmp_path) as store:
        with closing(Reader(tmp_path / "store.db", "/events/")) as disk:
            for name in ("gone", "stays"):
                await store.create(f"/events/{name}", b"1")
                disk.note(f"/events/{name}")
            gone = await store.get("/events/gone")
            assert gone is not None
            await store.compact(await store.delete(gone.key, expected=gone.mod_revision))
            # The commit of the first write takes what was compacted from the file, or that of the second one does.
            for name in ("first", "second"):
                await store.create(f"/events/{name}", b"1")
            assert disk.asks_for("/events/gone")
            renewal = asyncio.create_task(disk.renew())
            await asyncio.sleep(0)
            disk.note("/events/meanwhile")
            await renewal
            assert not disk.asks_for("/events/gone")
            assert disk.asks_for("/events/stays") and disk.asks_for("/events/meanwhile")


async def test_notes_are_made_anew_after_many_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(disk_keys, "RENEWAL", 10)
    async with opened(tmp_path):
        with closing(Reader(tmp_path / "store.db", "/events/")) as disk:
            for number in range(11):
                assert not disk.is_crowded
                disk.note(f"/events/{number}")
            assert disk.is_crowded
            await disk.renew()
            assert not disk.is_crowded and not disk.asks_for("/events/3")


async def test_notes_stay_as_they_are_when_the_file_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def locked(path: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database is locked")

    async with opened(tmp_path) as store:
        with closing(Reader(tmp_path / "store.db", "/events/")) as disk:
            await store.create("/events/a", b"1")
            disk.note("/events/a")
            monkeypatch.setattr(disk_keys, "_connect", locked)
            await disk.renew()
            found = disk.get("/events/a", at=NOW)
            assert found is not None and found.value == b"1"


async def test_a_store_makes_the_notes_anew_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    renewed = asyncio.Event()
    renew = DiskKeys.renew

    async def told(self: DiskKeys) -> None:
        await renew(self)
        renewed.set()

    monkeypatch.setattr(disk_keys, "RENEWAL", 10)
    monkeypatch.setattr(DiskKeys, "renew", told)
    async with opened(tmp_path) as store:
        for number in range(12):
            await store.create(f"/events/{number}", b"1", ttl=60)
        await asyncio.wait_for(renewed.wait(), 30)
        assert len((await store.range("/events/")).entries) == 12
        assert await store.get("/events/11") is not None and await store.get("/events/12") is None
