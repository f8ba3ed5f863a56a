"""Both ends of an upgraded connection in one test."""

from __future__ import annotations

import asyncio

from dray.wire import spdy
from dray.wire.duplex import Duplex


class Cable:
    """The wire to a peer in the same test: what is written arrives there, in pieces of any length."""

    congested = closed = False

    def __init__(self, peer: Duplex, *, piece: int = 1 << 20) -> None:
        self.peer = peer
        self.piece = piece
        self.paused = False
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data
        for start in range(0, len(data), self.piece):
            asyncio.get_running_loop().call_soon(self.peer.received, data[start : start + self.piece])

    async def drained(self) -> None:
        return

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.peer.lost)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


def spdy_client(server: Duplex, *, piece: int = 1 << 20) -> tuple[spdy.Connection, Cable]:
    """A client of the server; and the server's way to it."""
    client = spdy.Connection(client=True)
    to_client = Cable(client, piece=piece)
    client.opened(Cable(server, piece=piece))
    server.opened(to_client)
    return client, to_client


async def everything(stream: spdy.Stream) -> bytes:
    return b"".join([piece async for piece in stream.pieces()])
