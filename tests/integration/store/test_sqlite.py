"""SQLite against the worst: killed in the middle of a write load, and a write-ahead log that ends anywhere."""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from dray.store.interface import Compacted, Event, KeyExists
from dray.store.sqlite import SqliteStore

LOAD = """
import asyncio, os, sys
from pathlib import Path
from dray.store.sqlite import SqliteStore

async def main():
    store = await SqliteStore.open(Path(sys.argv[1]))

    async def write(n):
        key, revision = f"/r/{sys.argv[2]}-{n}", 0
        for turn in range(1_000_000):
            value = b"%d " % turn * 200
            if revision:
                revision = await store.update(key, value, expected=revision)
            else:
                revision = await store.create(key, value)
            # One write to the pipe: whole or not at all.
            os.write(1, b"%s %d %d\\n" % (key.encode(), turn, revision))

    await asyncio.gather(*(write(n) for n in range(16)))

asyncio.run(main())
"""


def acknowledged_before_kill(path: Path, name: str, count: int) -> dict[str, tuple[int, int]]:
    """Run the load, kill -9 it after ``count`` answers; the last acknowledged turn and revision of every key."""
    process = subprocess.Popen([sys.executable, "-c", LOAD, str(path), name], stdout=subprocess.PIPE)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(count)]
    process.kill()
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    answers = {}
    for line in lines:
        key, turn, revision = line.split()
        answers[key.decode()] = (int(turn), int(revision))
    return answers


def turn_of(value: bytes) -> int:
    return int(value.split()[0])


async def test_every_acknowledged_write_survives_kill_9(tmp_path):
    path = tmp_path / "store.db"
    watched = 1
    before: list[Event] = []
    for round_number in range(3):
        answers = acknowledged_before_kill(
            path, f"round{round_number}", random.Random(round_number).randint(100, 800)
        )
        newest = max(revision for _, revision in answers.values())
        store = await SqliteStore.open(path)
        for key, (turn, revision) in answers.items():
            entry = await store.get(key)
            assert entry is not None
            # A write may have reached the disk with its answer still on the way; never the other way round.
            assert turn_of(entry.value) >= turn
            assert entry.mod_revision >= revision
        assert await store.current_revision() >= newest
        async with store.watch("/r/", after=watched) as watch:
            since = list(await anext(watch))
        assert [event.revision for event in since] == list(range(watched + 1, store.revision + 1))
        assert not {event.revision for event in before} & {event.revision for event in since}
        before, watched = since, store.revision
        assert await store.create(f"/r/after-{round_number}", b"0") == watched + 1
        await store.close()


async def test_a_torn_write_ahead_log_costs_whole_commits_from_its_end_and_nothing_else(tmp_path):
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    store = await SqliteStore.open(original)
    revisions = [await store.create(f"/r/{n:03}", b"%d " % n * 300) for n in range(40)]
    # As a crash leaves it: the file without its latest pages, and the log that holds them.
    shutil.copy(original, copy)
    log = original.with_name("original.db-wal").read_bytes()
    await store.close()
    torn = copy.with_name("copy.db-wal")
    main = copy.read_bytes()
    survivors = []
    for length in [*range(0, len(log), len(log) // 40), len(log)]:
        copy.write_bytes(main)
        copy.with_name("copy.db-revision").unlink(missing_ok=True)
        torn.write_bytes(log[:length])
        again = await SqliteStore.open(copy)
        entries = (await again.range("/r/")).entries
        assert [entry.mod_revision for entry in entries] == revisions[: len(entries)]
        assert all(turn_of(entry.value) == n for n, entry in enumerate(entries))
        assert await again.create("/r/next", b"") == again.revision == 2 + len(entries)
        await again.close()
        survivors.append(len(entries))
    assert survivors == sorted(survivors)
    assert survivors[-1] == 40


async def test_garbage_at_the_end_of_the_log_is_not_believed(tmp_path):
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    store = await SqliteStore.open(original)
    for n in range(10):
        await store.create(f"/r/{n}", b"x" * 1000)
    shutil.copy(original, copy)
    log = bytearray(original.with_name("original.db-wal").read_bytes())
    await store.close()
    log[-2000:] = random.Random(0).randbytes(2000)
    copy.with_name("copy.db-wal").write_bytes(log)
    again = await SqliteStore.open(copy)
    entries = (await again.range("/r/")).entries
    assert len(entries) == 9
    assert [entry.value for entry in entries] == [b"x" * 1000] * 9
    await again.close()


async def test_what_a_damaged_log_has_lost_is_counted_and_its_revisions_are_not_given_again(tmp_path, caplog):
    original, copy = tmp_path / "original.db", tmp_path / "copy.db"
    store = await SqliteStore.open(original)
    for n in range(40):
        await store.create(f"/r/{n:02}", b"x" * 1000)
    newest = store.revision
    for suffix in ("", "-revision"):
        shutil.copy(tmp_path / f"original.db{suffix}", tmp_path / f"copy.db{suffix}")
    log = bytearray(original.with_name("original.db-wal").read_bytes())
    await store.close()
    log[len(log) // 2] ^= 0xFF
    copy.with_name("copy.db-wal").write_bytes(log)
    again = await SqliteStore.open(copy)
    left = len((await again.range("/r/")).entries)
    assert 0 < left < 40
    [said] = [record.getMessage() for record in caplog.records]
    assert f"its last {40 - left} writes are missing" in said
    assert f"it ends at revision {left + 1}, {newest} was acknowledged" in said
    assert await again.create("/r/next", b"") > newest
    with pytest.raises(Compacted):
        await anext(again.watch("/r/", after=newest))
    await again.close()
    caplog.clear()
    await (await SqliteStore.open(copy)).close()
    assert not caplog.records


async def test_keys_on_disk_are_known_after_a_restart(tmp_path: Path):
    path = tmp_path / "store.db"
    store = await SqliteStore.open(path, on_disk="/events/")
    await store.create("/events/a", b"1", ttl=60)
    await store.close()
    store = await SqliteStore.open(path, on_disk="/events/")
    try:
        with pytest.raises(KeyExists):
            await store.create("/events/a", b"2", ttl=60)
        assert await store.get("/events/b") is None
        await store.create("/events/b", b"1", ttl=60)
        found = await store.get("/events/b")
        assert found is not None and found.value == b"1"
    finally:
        await store.close()
