"""Connections to ports of pods that can be reached over the network."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Self

from dray.runtimes.interface import RuntimeFailure

_CHUNK = 32 << 10


class TcpConnection:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    @classmethod
    async def open(cls, host: str, port: int) -> Self:
        try:
            return cls(*await asyncio.open_connection(host, port))
        except OSError as e:
            raise RuntimeFailure(
                "PortForwardError", f"failed to connect to {host}:{port}: {e.strerror}"
            ) from e

    async def received(self) -> AsyncIterator[bytes]:
        while data := await self._reader.read(_CHUNK):
            yield data

    async def send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        if self._writer.can_write_eof():
            self._writer.write_eof()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()
