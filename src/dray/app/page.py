"""A component's own small HTTP page: its metrics, and that it is alive. Plain HTTP, meant for loopback or a sidecar."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = 10.0


@asynccontextmanager
async def page(host: str, port: int, metrics: Callable[[], str]) -> AsyncIterator[int]:
    """Serve ``/metrics``, ``/healthz``, ``/livez`` and ``/readyz`` until the block ends; gives the port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(_reply(head, metrics))
                await writer.drain()
        except (TimeoutError, ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(answer, host, port)
    async with server:
        yield server.sockets[0].getsockname()[1]


def _reply(head: bytes, metrics: Callable[[], str]) -> bytes:
    method, _, rest = head.partition(b" ")
    path = rest.partition(b" ")[0].partition(b"?")[0]
    if method not in (b"GET", b"HEAD"):
        status, body = "405 Method Not Allowed", ""
    elif path == b"/metrics":
        status, body = "200 OK", metrics()
    elif path in (b"/healthz", b"/livez", b"/readyz"):
        status, body = "200 OK", "ok"
    else:
        status, body = "404 Not Found", "404 page not found\n"
    data = body.encode()
    lines = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {_TYPE}",
        f"Content-Length: {len(data)}",
        "Connection: close",
    )
    return "\r\n".join((*lines, "", "")).encode() + (b"" if method == b"HEAD" else data)
