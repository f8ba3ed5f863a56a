"""Container logs in the form that CRI prescribes."""

# The supervisor starts faster and stays smaller without pathlib:
# ruff: noqa: PTH103, PTH105, PTH120

from __future__ import annotations

import os
import time

#: A log line longer than this is written in parts.
_MAX_LINE_BYTES = 16 * 1024
#: A log that has grown to this size, the kubelet's, is put aside and begun anew; the one before it goes.
MAX_FILE_BYTES = 10 << 20
ROTATED_SUFFIX = ".1"


class LogFile:
    """One container's log in the form that CRI prescribes: time, stream, full or partial, text."""

    def __init__(self, path: str) -> None:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        self._path = path
        self._open()
        self._rest = {"stdout": b"", "stderr": b""}

    def _open(self) -> None:
        self._handle = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o640)
        self._size = os.fstat(self._handle).st_size

    def write(self, stream: str, data: bytes) -> None:
        data = self._rest[stream] + data
        lines = data.split(b"\n")
        self._rest[stream] = rest = lines.pop()
        entries = [(b"F", line) for line in lines]
        while len(rest) >= _MAX_LINE_BYTES:
            entries.append((b"P", rest[:_MAX_LINE_BYTES]))
            rest = rest[_MAX_LINE_BYTES:]
        self._rest[stream] = rest
        self._put(stream, entries)

    def close(self) -> None:
        for stream, rest in self._rest.items():
            if rest:
                self._put(stream, [(b"P", rest)])
        os.close(self._handle)

    def _put(self, stream: str, entries: list[tuple[bytes, bytes]]) -> None:
        if not entries:
            return
        prefix = f"{timestamp()} {stream} ".encode()
        if self._size >= MAX_FILE_BYTES:
            os.replace(self._path, self._path + ROTATED_SUFFIX)
            os.close(self._handle)
            self._open()
        data = b"".join(prefix + tag + b" " + line + b"\n" for tag, line in entries)
        os.write(self._handle, data)
        self._size += len(data)


def timestamp() -> str:
    now = time.time_ns()
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now // 10**9)) + f".{now % 10**9:09d}Z"
