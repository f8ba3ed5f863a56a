"""A component's own small HTTP page: its metrics, and that it is alive. Plain HTTP, meant for loopback or a sidecar."""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from dray.wire.http_server import HTTPServer, listening_socket
from dray.wire.messages import Limits, Reply, Request

_HEADERS: Final = (("Content-Type", "text/plain; version=0.0.4; charset=utf-8"),)
_LIMITS: Final = Limits(header_seconds=10.0, body_seconds=10.0, descriptors=0.125)


@asynccontextmanager
async def page(
    host: str, port: int, metrics: Callable[[], str], *, listener: socket.socket | None = None
) -> AsyncIterator[int]:
    """Serve ``/metrics``, ``/healthz``, ``/livez`` and ``/readyz`` until the block ends; gives the port.

    ``listener``: a socket that listens already, in place of one for the host and port.
    """

    async def answer(request: Request) -> Reply:
        if request.method not in ("GET", "HEAD"):
            return Reply(405, _HEADERS)
        match request.path:
            case "/metrics":
                return Reply(200, _HEADERS, metrics().encode())
            case "/healthz" | "/livez" | "/readyz":
                return Reply(200, _HEADERS, b"ok")
        return Reply(404, _HEADERS, b"404 page not found\n")

    server = HTTPServer(answer, request_type=Request, limits=_LIMITS, keep_alive=False)
    listener = listener or listening_socket(host, port)
    await server.listen(listener)
    try:
        yield listener.getsockname()[1]
    finally:
        await server.drain(1.0)
