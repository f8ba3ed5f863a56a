"""Reading container logs in CRI's format: the last lines, from a time on, and as they are written."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, NamedTuple

_BLOCK = 64 * 1024
#: Seconds between looks at a file that is being followed.
_POLL_SECONDS = 0.1


@dataclass(frozen=True, kw_only=True, slots=True)
class LogOptions:
    follow: bool = False
    tail: int | None = None
    since: str = ""  # RFC 3339 in UTC, as the log has it; compares as text
    timestamps: bool = False
    limit_bytes: int | None = None
    stream: str = ""  # stdout, stderr or both


class Line(NamedTuple):
    time: bytes
    stream: bytes
    full: bool
    text: bytes


def parse(raw: bytes) -> Line | None:
    """One line of the file without its end, or None if it is not in the format."""
    parts = raw.split(b" ", 3)
    if len(parts) < 4:
        return Line(parts[0], parts[1], parts[2] == b"F", b"") if len(parts) == 3 else None
    return Line(parts[0], parts[1], not parts[2].startswith(b"P"), parts[3])


async def read(
    path: Path, options: LogOptions, *, ended: Callable[[], bool] = lambda: True
) -> AsyncIterator[bytes]:
    """The text of the log, as ``kubectl logs`` shows it. Follows until ``ended`` says that no more will come."""
    left = options.limit_bytes
    printer = _Printer(options)
    try:
        handle = path.open("rb")
    except FileNotFoundError:
        return
    try:
        if options.tail is not None:
            handle.seek(_start_of_tail(path, options.tail))
        rest = b""
        while True:
            over = ended()  # asked before reading, so that nothing written in between is missed
            newer = _rotated(handle, path)  # likewise
            while block := handle.read(_BLOCK):
                lines = (rest + block).split(b"\n")
                rest = lines.pop()
                out = b"".join(printer.show(lines))
                if left is not None:
                    out = out[:left]
                    left -= len(out)
                if out:
                    yield out
                if left == 0:
                    return
            if not options.follow or (over and not newer):
                return
            if newer:
                handle.close()
                handle = path.open("rb")
                continue
            await asyncio.sleep(_POLL_SECONDS)
    except FileNotFoundError:
        return  # the pod is gone
    finally:
        handle.close()


def _rotated(handle: BinaryIO, path: Path) -> bool:
    """Whether this file grew too large, and another one is written to now."""
    try:
        return path.stat().st_ino != os.fstat(handle.fileno()).st_ino
    except FileNotFoundError:
        return False


class _Printer:
    def __init__(self, options: LogOptions) -> None:
        self._since = options.since.encode()
        self._timestamps = options.timestamps
        self._stream = options.stream.lower().encode()
        self._in_line = False

    def show(self, raw_lines: list[bytes]) -> Iterator[bytes]:
        for raw in raw_lines:
            line = parse(raw)
            if line is None or (self._since and line.time < self._since):
                continue
            if self._stream and line.stream != self._stream:
                continue
            if self._timestamps and not self._in_line:
                yield line.time + b" "
            yield line.text
            if line.full:
                yield b"\n"
            self._in_line = not line.full


def _start_of_tail(path: Path, lines: int) -> int:
    """Where the last ``lines`` full lines begin. A line in parts counts once."""
    size = path.stat().st_size
    if lines <= 0:
        return size
    with path.open("rb") as handle:
        position, tail = size, b""
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            handle.seek(position, os.SEEK_SET)
            tail = handle.read(step) + tail
            offset = _cut(tail, lines, at_start=position == 0)
            if offset is not None:
                return position + offset
    return 0


def _cut(data: bytes, lines: int, *, at_start: bool) -> int | None:
    """The offset of the last ``lines`` lines within the end of a file, or None if more of it is needed."""
    ends = [i for i, byte in enumerate(data) if byte == 10]
    starts = [0, *(i + 1 for i in ends)] if at_start else [i + 1 for i in ends]
    begun = [s for s in starts if s < len(data)]
    seen, first = 0, None
    for start in reversed(begun):
        end = data.find(b"\n", start)
        line = parse(data[start:end] if end >= 0 else data[start:])
        whole_before = line is not None and line.full
        if whole_before or first is None:
            seen += 1
            if seen > lines:
                return first
        first = start
    return first if at_start else None
