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
            handle.seek(await _start_of_tail(path, options.tail))
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
                else:  # a long log of which nothing is shown
                    await asyncio.sleep(0)
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


async def _start_of_tail(path: Path, lines: int) -> int:
    """Where the last ``lines`` full lines begin. A line in parts counts once."""
    end = position = path.stat().st_size
    if lines <= 0:
        return end
    seen, first, rest = 0, end, b""
    with path.open("rb") as handle:
        while position > 0:
            step = min(_BLOCK, position)
            position -= step
            handle.seek(position)
            data = handle.read(step) + rest
            # The first entry of a block may begin in the block before it.
            begin = data.find(b"\n") + 1 if position > 0 else 0
            rest, stop = data[:begin], len(data)
            if position > 0 and not begin:
                rest = data
                continue
            while stop > begin:
                start = data.rfind(b"\n", begin, stop - 1) + 1 or begin
                line = parse(data[start:stop].removesuffix(b"\n"))
                if (line is not None and line.full) or first == end:
                    seen += 1
                    if seen > lines:
                        return first
                first, stop = position + start, start
            await asyncio.sleep(0)
    return 0
