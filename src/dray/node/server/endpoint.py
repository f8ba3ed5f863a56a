"""The node agent's own HTTPS endpoint: what an API server on another machine asks a kubelet for.

``/containerLogs``, ``/exec``, ``/attach`` and ``/portForward`` have the kubelet's paths and parameters.
Who may ask is decided by the client's certificate, which the TLS context must demand.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import parse_qs, unquote, urlsplit

from dray.api.errors import BadRequest, Forbidden, MethodNotAllowed, NotFound, StatusError
from dray.node.server.host import NodeHost, PodLogOptions
from dray.node.streaming import handshake
from dray.node.streaming.handshake import Upgrade
from dray.runtimes.interface import PortConnection, Session
from dray.wire.duplex import StreamWire

if TYPE_CHECKING:
    from dray.api.types.core import Pod

log = logging.getLogger(__name__)

_MAX_HEAD_BYTES = 64 * 1024
_IDLE_SECONDS = 30.0
#: Streams, and what a kubelet calls them in a query.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error"}
#: Whose requests are answered: an API server's client certificate, and administrators.
ALLOWED_USERS = ("kube-apiserver-kubelet-client", "kube-apiserver")
ALLOWED_GROUP = "system:masters"


class Request(NamedTuple):
    method: str
    path: tuple[str, ...]
    query: Mapping[str, list[str]]
    headers: Mapping[str, str]

    def get(self, name: str) -> str:
        found = self.query.get(name)
        return found[0] if found else ""

    def all(self, name: str) -> list[str]:
        """Every value of a header."""
        value = self.headers.get(name)
        return [value] if value is not None else []

    def flag(self, name: str) -> bool:
        return self.get(name).lower() not in ("", "false", "0")


def allowed_by_certificate(certificate: Mapping[str, Any] | None) -> bool:
    """Whether a verified client certificate belongs to somebody who may look into containers."""
    subject = [pair for entry in (certificate or {}).get("subject", ()) for pair in entry]
    names = {value for key, value in subject if key == "commonName"}
    groups = {value for key, value in subject if key == "organizationName"}
    return bool(names & set(ALLOWED_USERS)) or ALLOWED_GROUP in groups


class Listener(NamedTuple):
    """A port that is open already, and the TLS that is spoken there."""

    listener: socket.socket
    context: ssl.SSLContext | None


class Endpoint:
    """Serves the nodes of this process on one port."""

    def __init__(
        self,
        proxy: NodeHost,
        *,
        context: ssl.SSLContext | None,
        allowed: Callable[[Mapping[str, Any] | None], bool] = allowed_by_certificate,
    ) -> None:
        self._proxy = proxy
        self._context = context
        self._allowed = allowed
        self._server: asyncio.Server | None = None

    async def start(self, listener: socket.socket) -> None:
        self._server = await asyncio.start_server(
            self._serve, sock=listener, ssl=self._context, limit=_MAX_HEAD_BYTES
        )

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
                pieces = self._proxy.logs(found, container, PodLogOptions.of(request.get, now=time.time()))
                await _stream(writer, pieces)
            case ("exec" | "attach" as what, namespace, pod, container):
                upgrade = self._command(what, self._proxy.pod(namespace, pod), container, request)
                await _converse(upgrade, reader, writer)
            case ("portForward", namespace, pod):
                await _converse(self._ports(self._proxy.pod(namespace, pod), request), reader, writer)
            case _:
                raise NotFound("404 page not found")

    def _command(self, what: str, pod: Pod, container: str, request: Request) -> Upgrade:
        tty, command = request.flag("tty"), request.query.get("command", [])
        streams = [s for s, name in _STREAMS.items() if request.flag(name) or request.flag(s)]
        if what == "exec" and not command:
            raise BadRequest("you must specify at least 1 command")

        async def start() -> Session:
            if what == "exec":
                return await self._proxy.exec(pod, container, command, tty=tty, stdin="stdin" in streams)
            return await self._proxy.attach(pod, container, tty=tty, stdin="stdin" in streams)

        self._proxy.check_running(pod, container)
        return handshake.for_command(request.all, start, streams=streams, tty=tty)

    def _ports(self, pod: Pod, request: Request) -> Upgrade:
        async def connect(port: int) -> PortConnection:
            return await self._proxy.port_forward(pod, port)

        self._proxy.check_running(pod)
        asked = [int(p) for p in request.query.get("port", []) if p.isdigit()]
        metadata = pod["metadata"]
        return handshake.for_ports(
            request.all, connect, asked=asked, pod=metadata["name"], uid=metadata["uid"]
        )


async def _converse(upgrade: Upgrade, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Leaves HTTP, and carries the session until one side has had enough."""
    head = "".join(f"{k}: {v}\r\n" for k, v in upgrade.headers)
    writer.write(f"HTTP/1.1 101 Switching Protocols\r\n{head}\r\n".encode())
    wire = StreamWire(reader, writer)
    upgrade.duplex.opened(wire)
    over = asyncio.create_task(upgrade.session.finished())
    try:
        while not over.done():
            reading = asyncio.create_task(wire.read())
            await asyncio.wait({reading, over}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                reading.cancel()
                break
            if not (data := reading.result()):
                break
            upgrade.duplex.received(data)
    finally:
        upgrade.duplex.lost()
        await asyncio.gather(over, return_exceptions=True)


async def _read(reader: asyncio.StreamReader) -> Request | None:
    async with asyncio.timeout(_IDLE_SECONDS):
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
    headers: dict[str, str] = {}
    for name, _, value in (line.partition(":") for line in lines if line):
        key = name.strip().lower()
        headers[key] = f"{headers[key]}, {value.strip()}" if key in headers else value.strip()
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
