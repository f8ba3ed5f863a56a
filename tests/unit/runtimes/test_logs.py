"""Reading CRI logs."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.runtimes import logs
from dray.runtimes.logs import LogOptions, read
from dray.runtimes.process import logfile

LOG = b"""\
2026-01-01T00:00:01.000000000Z stdout F one
2026-01-01T00:00:02.000000000Z stderr F two
2026-01-01T00:00:03.000000000Z stdout P thr
2026-01-01T00:00:03.500000000Z stdout F ee
2026-01-01T00:00:04.000000000Z stdout F \n\
2026-01-01T00:00:05.000000000Z stdout F last
"""


async def _collect(path: Path, options: LogOptions) -> bytes:
    return b"".join([piece async for piece in read(path, options)])


def collect(path: Path, **options: object) -> bytes:
    return asyncio.run(_collect(path, LogOptions(**options)))  # type: ignore[arg-type]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "c.log"
    path.write_bytes(LOG)
    return path


def test_lines_in_parts_are_joined(log: Path) -> None:
    assert collect(log) == b"one\ntwo\nthree\n\nlast\n"


def test_tail_counts_whole_lines(log: Path) -> None:
    assert collect(log, tail=3) == b"three\n\nlast\n"
    assert collect(log, tail=0) == b""
    assert collect(log, tail=99) == b"one\ntwo\nthree\n\nlast\n"


def test_since_leaves_out_what_is_older(log: Path) -> None:
    assert collect(log, since="2026-01-01T00:00:04Z") == b"last\n"
    assert collect(log, since="2026-01-01T00:00:04.000000000Z") == b"\nlast\n"


def test_timestamps_stand_before_each_line_once(log: Path) -> None:
    assert collect(log, timestamps=True, tail=3).splitlines()[0] == b"2026-01-01T00:00:03.000000000Z three"


def test_one_stream_can_be_chosen(log: Path) -> None:
    assert collect(log, stream="Stderr") == b"two\n"


def test_no_more_than_the_limit_is_shown(log: Path) -> None:
    assert collect(log, limit_bytes=5) == b"one\nt"


def test_a_container_that_wrote_nothing_has_an_empty_log(tmp_path: Path) -> None:
    assert collect(tmp_path / "missing.log") == b""


def test_following_ends_when_the_container_has(tmp_path: Path) -> None:
    path = tmp_path / "c.log"
    path.write_bytes(b"2026-01-01T00:00:01.0Z stdout F one\n")
    looks = 0

    def ended() -> bool:
        nonlocal looks
        looks += 1
        if looks == 2:
            with path.open("ab") as more:
                more.write(b"2026-01-01T00:00:02.0Z stdout F two\n")
        return looks == 2

    async def scene() -> bytes:
        return b"".join([piece async for piece in read(path, LogOptions(follow=True), ended=ended)])

    assert asyncio.run(scene()) == b"one\ntwo\n"


@given(
    st.lists(st.tuples(st.text(alphabet="ab ", max_size=40), st.integers(1, 3)), max_size=30),
    st.integers(0, 35),
    st.sampled_from([1, 7, 50, 300, 64 << 10]),
)
def test_tail_is_the_end_of_everything(lines: list[tuple[str, int]], tail: int, block: int) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setattr(logs, "_BLOCK", block)
        path = Path(directory) / "c.log"
        with path.open("wb") as out:
            for text, parts in lines:
                for part in range(parts):
                    tag = b"F" if part == parts - 1 else b"P"
                    out.write(b"2026-01-01T00:00:01.0Z stdout " + tag + b" " + text.encode() + b"\n")
        whole = collect(path).splitlines(keepends=True)
        assert collect(path, tail=tail) == b"".join(
            whole[len(whole) - tail :] if tail <= len(whole) else whole
        )


@pytest.mark.parametrize("options", [{"tail": 10**9}, {"since": "2050-01-01T00:00:00Z"}])
async def test_the_loop_gets_its_turn_for_each_block_of_a_long_log(
    log: Path, monkeypatch: pytest.MonkeyPatch, options: Any
) -> None:
    """Whatever is asked for: a block is looked at once, and then others have their turn."""
    log.write_bytes(LOG * 200)
    monkeypatch.setattr(logs, "_BLOCK", len(LOG))
    turns, seen = 0, []

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    real = logs.parse
    monkeypatch.setattr(logs, "parse", lambda raw: seen.append(1) or real(raw))  # type: ignore[func-returns-value]
    task = asyncio.create_task(others())
    await _collect(log, LogOptions(**options))
    task.cancel()
    assert turns > 150
    assert len(seen) <= 2 * 200 * LOG.count(b"\n")  # once to find the start, once to print


def test_a_log_that_grows_too_large_is_begun_anew_and_followed_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logfile, "MAX_FILE_BYTES", 100)
    path = tmp_path / "0.log"

    async def play() -> bytes:
        log, over = logfile.LogFile(str(path)), False
        pieces = read(path, LogOptions(follow=True), ended=lambda: over)
        log.write("stdout", b"first\n")
        text = await anext(pieces)
        for number in range(6):
            log.write("stdout", b"%d\n" % number)
            text += await anext(pieces)
        log.close()
        over = True
        return text + b"".join([piece async for piece in pieces])

    assert asyncio.run(play()) == b"first\n0\n1\n2\n3\n4\n5\n"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["0.log", "0.log" + logfile.ROTATED_SUFFIX]
    assert max(p.stat().st_size for p in tmp_path.iterdir()) < 200
