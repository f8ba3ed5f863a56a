"""A client that sends what it likes to a dray process, over as many connections as it likes."""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator
from typing import Any

from tests.support.process import DrayProcess


class Wire:
    """One TLS connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def send(self, data: bytes) -> bool:
        """Send as much as the server takes; whether it took everything."""
        try:
            for start in range(0, len(data), 1 << 18):
                self.writer.write(data[start : start + (1 << 18)])
                await self.writer.drain()
        except OSError:
            return False
        return True

    async def answer(self) -> tuple[int, bytes]:
        """The next answer; 0 if the server closed the connection instead."""
        try:
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
            return int(head.split()[1]), await self.reader.readexactly(int(length or 0))
        except (OSError, asyncio.IncompleteReadError):
            return 0, b""

    def close(self) -> None:
        self.writer.transport.abort()


class Attacker:
    def __init__(self, server: DrayProcess, token: str = "") -> None:
        host, _, port = server.url.removeprefix("https://").rpartition(":")
        self._address = host, int(port)
        self._authorization = f"Authorization: Bearer {token}\r\n" if token else ""
        self._tls = ssl._create_unverified_context()

    @contextlib.asynccontextmanager
    async def wire(self, *, limit: int = 1 << 24) -> AsyncIterator[Wire]:
        wire = await self.connect(limit=limit)
        try:
            yield wire
        finally:
            wire.close()

    async def connect(self, *, limit: int = 1 << 24) -> Wire:
        return Wire(*await asyncio.open_connection(*self._address, ssl=self._tls, limit=limit))

    def head(self, method: str, path: str, *lines: str) -> bytes:
        rest = "".join(f"{line}\r\n" for line in lines)
        return f"{method} {path} HTTP/1.1\r\nHost: x\r\n{self._authorization}{rest}\r\n".encode()

    def request(
        self, method: str, path: str, body: Any = b"", kind: str = "application/json", *lines: str
    ) -> bytes:
        data = body if isinstance(body, bytes) else json.dumps(body).encode()
        sized = (f"Content-Length: {len(data)}", f"Content-Type: {kind}") if data else ()
        return self.head(method, path, *sized, *lines) + data

    async def call(
        self, method: str, path: str, body: Any = b"", kind: str = "application/json"
    ) -> tuple[int, bytes]:
        """One request over a connection of its own."""
        async with self.wire() as wire:
            await wire.send(self.request(method, path, body, kind))
            return await wire.answer()
