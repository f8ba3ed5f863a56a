"""Addresses of unix sockets. The kernel allows 107 bytes; data directories may be longer than that.

A long path is shortened through ``/proc/self/fd``: this process holds the directory open and names the socket relative
to it. The file has the path that others expect.
"""

from __future__ import annotations

import os
from pathlib import Path
from types import TracebackType
from typing import Self

#: The longest path that fits into a socket address, without the final zero byte.
MAX_PATH_BYTES = 107


class SocketPath:
    """A unix socket's path in a form the kernel takes. Keep it open for as long as the socket is listened on or
    connected to: a client that reconnects needs the directory again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._directory: int | None = None
        self.short = os.fspath(path)
        if len(os.fsencode(self.short)) > MAX_PATH_BYTES:
            self._directory = os.open(path.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            self.short = f"/proc/self/fd/{self._directory}/{path.name}"
            if len(os.fsencode(self.short)) > MAX_PATH_BYTES:
                self.close()
                raise ValueError(f"the name of the socket {path} is too long")

    @property
    def grpc(self) -> str:
        return f"unix:{self.short}"

    def close(self) -> None:
        if self._directory is not None:
            os.close(self._directory)
            self._directory = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None
    ) -> None:
        self.close()
