"""A server that says exactly what a test wants said."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from dray.client.config import Config
from dray.client.http import HttpTransport


class Request:
    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = [tuple(line.split(": ", 1)) for line in lines if line]
        self.body = body

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")


Handler = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class HttpPeer:
    """Counts connections and requests; ``handle`` writes the answer."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = dict(Request(head, b"").headers).get("Content-Length", "0")
                request = Request(head, await reader.readexactly(int(length)))
                self.requests.append(request)
                await self.handle(request, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def http_peer(handle: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[HttpPeer]:
    server = HttpPeer(handle)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


@asynccontextmanager
async def transport_to(server: HttpPeer, **config: object) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(Config(server=server.url, **config))  # type: ignore[arg-type]
    try:
        yield transport
    finally:
        await transport.close()


def reply(status: int, body: object, *, headers: str = "", content_type: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    )
    return head.encode() + data


def replies(*answers: bytes) -> Handler:
    """Give these answers in turn, the last one again and again."""
    left = list(answers)

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handle


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(event_type: str, **obj: object) -> bytes:
    return json.dumps({"type": event_type, "object": obj}).encode() + b"\n"


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
