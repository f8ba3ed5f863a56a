"""HTTP/1.1 for clients: requests as bytes, connections, answers read to their end, and connections kept for later."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from dray.wire.client_connection import ClientConnection
from dray.wire.errors import TooLarge

_WITH_BODY = ("POST", "PUT", "PATCH")

K = TypeVar("K", bound=Hashable)


def encode(method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b"") -> bytes:
    """A request. The length of the body is added to the headers; ``Host`` is the caller's. ValueError if a header's
    value has a line break."""
    lines = [f"{method} {target} HTTP/1.1\r\n"]
    for name, value in headers:
        if "\r" in value or "\n" in value:
            raise ValueError(f"the value for {name} has a line break in it")
        lines.append(f"{name}: {value}\r\n")
    if body or method in _WITH_BODY:
        lines.append(f"Content-Length: {len(body)}\r\n")
    lines.append("\r\n")
    return "".join(lines).encode() + body


async def connect(
    host: str, port: int, *, tls: ssl.SSLContext | None = None, server_name: str | None = None
) -> ClientConnection:
    """A new connection. ``server_name`` is whom the certificate must name, if not ``host``."""
    _, connection = await asyncio.get_running_loop().create_connection(
        ClientConnection, host, port, ssl=tls, server_hostname=server_name
    )
    return connection


async def read_all(connection: ClientConnection, *, limit: int | None = None) -> bytes:
    """The rest of an answer's body. TooLarge if it has more than ``limit`` bytes."""
    pieces: list[bytes] = []
    size = 0
    while (piece := await connection.read()) is not None:
        pieces.append(piece)
        size += len(piece)
        if limit is not None and size > limit:
            raise TooLarge(f"the response is larger than {limit} bytes")
    return b"".join(pieces)


class ConnectionPool(Generic[K]):
    """Connections that wait for the next request, at most ``limit`` for each key."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._idle: dict[K, list[ClientConnection]] = {}
        self._closed = False

    def take(self, key: K) -> ClientConnection | None:
        """The connection that was used last, if one is left. It may turn out to be dead when it is used."""
        idle = self._idle.get(key)
        while idle:
            connection = idle.pop()
            connection.on_idle_close = None
            if not connection.closed:
                return connection
        return None

    def give(self, key: K, connection: ClientConnection) -> None:
        """Keep a connection whose answer was read to the end; close it if it cannot be used again."""
        idle = self._idle.setdefault(key, [])
        if self._closed or len(idle) >= self._limit or not connection.reusable():
            connection.close()
        else:
            connection.on_idle_close = self._forget
            idle.append(connection)

    def drop(self) -> None:
        """Close all that wait."""
        for connection in [c for idle in self._idle.values() for c in idle]:
            connection.close()
        self._idle.clear()

    def close(self) -> None:
        """Close all that wait, and whatever is given back later."""
        self._closed = True
        self.drop()

    def _forget(self, connection: ClientConnection) -> None:
        for idle in self._idle.values():
            if connection in idle:
                idle.remove(connection)
