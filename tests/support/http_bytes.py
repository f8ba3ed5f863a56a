"""A connection of the HTTP server without a socket: bytes go in piece by piece, requests and replies come out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from dray.wire.http_server import HTTPServer
from dray.wire.messages import Limits, Reply, Request
from dray.wire.server_connection import ServerConnection


class FakeTransport:
    def __init__(self) -> None:
        self.sent = bytearray()
        self.paused = False
        self.closing = False

    def get_extra_info(self, name: str) -> Any:
        return None

    def set_write_buffer_limits(self, high: int) -> None:
        pass

    def write(self, data: bytes) -> None:
        self.sent += data

    def close(self) -> None:
        self.closing = True

    abort = close

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        assert not self.paused
        self.paused = True

    def resume_reading(self) -> None:
        assert self.paused
        self.paused = False


class Exchange:
    """A server with one client. ``seen`` has what reached the handler: method, path and body."""

    def __init__(self, limits: Limits | None = None, *, server: HTTPServer[Request] | None = None) -> None:
        self.server = server or HTTPServer(self._answer, request_type=Request, limits=limits)
        self.seen: list[tuple[str, str, bytes]] = []
        self.requests: list[Request] = []
        self.transport = FakeTransport()
        self.connection = ServerConnection(self.server)
        self.connection.connection_made(self.transport)  # type: ignore[arg-type]

    async def _answer(self, request: Request) -> Reply:
        if request.receive is not None:
            await request.receive()
        assert isinstance(request.body, bytes)
        self.requests.append(request)
        self.seen.append((request.method, request.path, request.body))
        return Reply(200)

    async def feed(self, pieces: Iterable[bytes]) -> None:
        for piece in pieces:
            if self.transport.closing:
                break
            self.connection.data_received(piece)
            if self.transport.paused:
                await self.settle()
        await self.settle()

    async def settle(self) -> None:
        """Let the connection answer whatever it can."""
        before = -1
        while before != len(self.transport.sent):
            before = len(self.transport.sent)
            for _ in range(4):
                await asyncio.sleep(0)

    @property
    def codes(self) -> list[int]:
        lines = bytes(self.transport.sent).split(b"HTTP/1.1 ")[1:]
        return [int(line[:3]) for line in lines]

    def lose(self) -> None:
        self.transport.closing = True
        self.connection.connection_lost(None)
