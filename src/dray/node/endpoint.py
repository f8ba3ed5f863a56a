"""The node agent's own HTTPS endpoint: what an API server on another machine asks a kubelet for.

``/containerLogs``, ``/exec`` and ``/attach`` have the kubelet's paths and parameters; interactive ones are WebSockets.
Who may ask is decided by the client's certificate, which the TLS context must demand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from dray.api.errors import BadRequest, Forbidden, MethodNotAllowed, NotFound, StatusError
from dray.node.channels import ChannelConnection, accept
from dray.node.proxy import LogQuery, NodeProxy
from dray.runtimes.interface import Session

log = logging.getLogger(__name__)

_LONGEST_HEAD = 64 * 1024
_IDLE = 30.0
#: Whose requests are answered: an API server's client certificate, and administrators.
CALLERS = ("kube-apiserver-kubelet-client", "kube-apiserver")
GROUP = "system:masters"


class Request(NamedTuple):
    method: str
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]

    def get(self, name: str) -> str:
        found = self.query.get(name)
        return found[0] if found else ""

    def flag(self, name: str) -> bool:
        return self.get(name).lower() not in ("", "false", "0")


def by_certificate(certificate: Mapping[str, Any] | None) -> bool:
    """Whether a verified client certificate belongs to somebody who may look into containers."""
    subject = [pair for entry in (certificate or {}).get("subject", ()) for pair in entry]
    names = {value for key, value in subject if key == "commonName"}
    groups = {value for key, value in subject if key == "organizationName"}
    return bool(names & set(CALLERS)) or GROUP in groups


class Endpoint:
    """Serves the nodes of this process on one port."""

    def __init__(
        self,
        proxy: NodeProxy,
        *,
        context: ssl.SSLContext | None,
        allowed: Callable[[Mapping[str, Any] | None], bool] = by_certificate,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._allowed = allowed
        self._server: asyncio.Server | None = None

    async def start(self, host: str, port: int) -> int:
        """Listens; returns the port."""
        self._server = await asyncio.start_server(
            self._serve, host, port, ssl=self._context, limit=_LONGEST_HEAD
        )
        number: int = self._server.sockets[0].getsockname()[1]
        return number

    async def stop(self) -> None:
        if self._server:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            request = await _read(reader)
            if request is None:
                return
            try:
                if not self._allowed(writer.get_extra_info("peercert")):
                    raise Forbidden("this certificate does not belong to an API server or administrator")
                await self._answer(request, reader, writer)
            except StatusError as e:
                _write(writer, e.http_code, json.dumps(e.status()).encode(), "application/json")
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, TimeoutError):
            pass  # the other side is gone, or does not speak HTTP
        finally:
            writer.close()
            with contextlib.suppress(OSError, ssl.SSLError):
                await writer.wait_closed()

    async def _answer(
        self, request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        match request.path:
            case ("healthz",):
                _write(writer, 200, b"ok", "text/plain")
            case ("metrics",):
                _write(writer, 200, self._proxy.metrics().encode(), "text/plain; version=0.0.4")
            case ("pods",):
                body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": self._proxy.pods()}
                _write(writer, 200, json.dumps(body).encode(), "application/json")
            case ("containerLogs", namespace, pod, container):
                found = self._proxy.pod(namespace, pod)
                pieces = self._proxy.logs(found, container, LogQuery.of(request.get, now=time.time()))
                await _stream(writer, pieces)
            case ("exec" | "attach" as what, namespace, pod, container):
                await self._interact(what, namespace, pod, container, request, reader, writer)
            case _:
                raise NotFound("404 page not found")

    async def _interact(
        self,
        what: str,
        namespace: str,
        pod: str,
        container: str,
        request: Request,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        found = self._proxy.pod(namespace, pod)
        _, headers = accept(lambda name: request.headers.get(name, ""))
        tty, stdin = request.flag("tty"), request.flag("input") or request.flag("stdin")
        command = request.query.get("command", [])
        if what == "exec" and not command:
            raise BadRequest("you must specify at least 1 command")

        async def start() -> Session:
            if what == "exec":
                return await self._proxy.exec(found, container, command, tty=tty, stdin=stdin)
            return await self._proxy.attach(found, container, tty=tty, stdin=stdin)

        head = "".join(f"{k}: {v}\r\n" for k, v in headers)
        writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())
        connection = ChannelConnection(start)
        connection.opened(_Wire(writer))
        over = asyncio.create_task(connection.finished())
        try:
            while not over.done():
                reading = asyncio.create_task(reader.read(65536))
                await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
                if not reading.done():
                    reading.cancel()
                    break
                if not (data := reading.result()):
                    break
                connection.received(data)
        finally:
            connection.lost()
            await asyncio.gather(over, return_exceptions=True)


class _Wire:
    """A stream writer as the channel connection wants it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drained(self) -> None:
        await self._writer.drain()


async def _read(reader: asyncio.StreamReader) -> Request | None:
    async with asyncio.timeout(_IDLE):
        head = await reader.readuntil(b"\r\n\r\n")
    first, *lines = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if len(words) != 3:
        return None
    method, target, _ = words
    if method not in ("GET", "POST"):
        raise MethodNotAllowed("only GET and POST are allowed")
    parts = urlsplit(target)
    path = tuple(unquote(p) for p in parts.path.split("/") if p)
    pairs = (line.partition(":") for line in lines if line)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return Request(method, path, parse_qs(parts.query, keep_blank_values=True), headers)


def _write(writer: asyncio.StreamWriter, code: int, body: bytes, kind: str) -> None:
    writer.write(
        f"HTTP/1.1 {code} {'OK' if code < 400 else 'Error'}\r\nContent-Type: {kind}\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode()
        + body
    )


async def _stream(writer: asyncio.StreamWriter, pieces: AsyncIterator[bytes]) -> None:
    writer.write(
        b"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"
    )
    async for piece in pieces:
        writer.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
        await writer.drain()
    writer.write(b"0\r\n\r\n")
