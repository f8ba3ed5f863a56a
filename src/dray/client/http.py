"""The transport over HTTP/1.1: connections that are kept and used again, TLS, and everything mapped to our errors."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final
from urllib.parse import quote, urlencode, urlsplit

import msgspec

from dray import __version__
from dray.api.errors import StatusError
from dray.client.config import CertificateFile, Config, ConfigError, Credentials
from dray.client.transport import Body, Reply, Unreachable, WatchEvent, WatchStream, WebSocket
from dray.wire.client_connection import ClientConnection, Head
from dray.wire.websocket_client import ClientWebSocket, client_handshake

DEFAULT_TIMEOUT: Final = 60.0
CONNECT_TIMEOUT: Final = 10.0
#: Requests under way at once; more wait for their turn. Beyond some tens, new connections cost more than they bring.
#: Watches and other streams have connections of their own.
CONNECTIONS: Final = 32
#: How often a request that the server put off ("come back in n seconds") is sent again.
PUT_OFF_LIMIT: Final = 10


class _Frame(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode_frame = msgspec.json.Decoder(_Frame).decode


class HttpTransport:
    """An API server reached as its configuration says."""

    def __init__(self, config: Config, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        address = urlsplit(config.server)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"{config.server!r} is not the address of a server")
        self.config = config
        self._timeout = timeout
        self._host = address.hostname
        self._port = address.port or (443 if address.scheme == "https" else 80)
        self._prefix = address.path.rstrip("/")
        self._tls = config.ssl_context()
        self._credentials = Credentials(config)
        self._certificate = CertificateFile(config)
        self._common = f"Host: {address.netloc.rpartition('@')[2]}\r\nUser-Agent: dray/{__version__}\r\n"
        self._idle: list[ClientConnection] = []
        self._turns = asyncio.Semaphore(CONNECTIONS)
        self._closed = False

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> Reply:
        data = body if isinstance(body, bytes) else b"" if body is None else msgspec.json.encode(body)
        headers = [("Accept", accept)]
        if data:
            headers.append(("Content-Type", content_type))
        request = self._encode(method, path, list((query or {}).items()), headers, data)
        for attempt in range(PUT_OFF_LIMIT + 1):
            head, answer = await self._exchange(
                request, repeatable=method in ("GET", "HEAD"), timeout=timeout
            )
            pause = head.headers.get("retry-after", "") if head.status == 429 or head.status >= 500 else ""
            if not pause.isdigit() or attempt == PUT_OFF_LIMIT:
                break
            await asyncio.sleep(int(pause))
        if head.status >= 400:
            raise _failure(head, answer)
        return Reply(head.status, head.headers, _document(head, answer))

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[WatchStream[Any]]:
        async with self.stream(path, query=query) as pieces:
            yield _watch_events(pieces)

    @asynccontextmanager
    async def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._encode(
            "GET", path, list((query or {}).items()), [("Accept", "application/json, */*")], b""
        )
        async with self._deadline(self._timeout):
            connection, head = await self._send(request, repeatable=True)
        try:
            if head.status >= 400:
                raise _failure(head, await _read_all(connection))
            yield _pieces(connection)
        finally:
            self._release(connection)

    @asynccontextmanager
    async def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        headers, expected = client_handshake(subprotocols)
        connection = await self._open()
        socket: ClientWebSocket | None = None
        try:
            connection.send(self._encode("GET", path, list(query), headers, b""))
            async with self._deadline(self._timeout):
                head = await connection.head()
                if head.status != 101:
                    raise _failure(head, await _read_all(connection))
            socket = ClientWebSocket(connection, head, expected=expected)
            yield socket
        finally:
            if socket is not None:
                socket.close()
            connection.close()

    async def close(self) -> None:
        self._closed = True
        self._drop_idle()

    # Inside

    def _encode(
        self,
        method: str,
        path: str,
        query: list[tuple[str, str]],
        headers: list[tuple[str, str]],
        body: bytes,
    ) -> bytes:
        target = self._prefix + quote(path, safe="/:@!$&'()*+,;=~-._")
        if query:
            target += "?" + urlencode(query)
        lines = [f"{method} {target} HTTP/1.1\r\n", self._common]
        for name, value in (*headers, *self._credentials.headers()):
            if "\r" in value or "\n" in value:
                raise ConfigError(f"the value for {name} has a line break in it")
            lines.append(f"{name}: {value}\r\n")
        if body or method in ("POST", "PUT", "PATCH"):
            lines.append(f"Content-Length: {len(body)}\r\n")
        lines.append("\r\n")
        return "".join(lines).encode() + body

    async def _exchange(
        self, request: bytes, *, repeatable: bool, timeout: float | None
    ) -> tuple[Head, bytes]:
        async with self._turns, self._deadline(self._timeout if timeout is None else timeout):
            connection, head = await self._send(request, repeatable=repeatable)
            try:
                return head, await _read_all(connection)
            finally:
                self._release(connection)

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise Unreachable(f"the server gave no answer within {seconds:g} s") from error

    async def _send(self, request: bytes, *, repeatable: bool) -> tuple[ClientConnection, Head]:
        """Send on a kept connection, or on a new one. A kept one may turn out to be dead just now."""
        if self._tls is not None and self._certificate.renewed(self._tls):
            self._drop_idle()  # who we are was said when they were opened
        while self._idle:
            connection = self._idle.pop()
            connection.on_idle_close = None
            if not connection.usable:
                continue
            try:
                connection.send(request)
                return connection, await connection.head()
            except Unreachable:
                connection.close()
                if not repeatable:
                    raise
            except BaseException:
                connection.close()
                raise
        connection = await self._open()
        try:
            connection.send(request)
            return connection, await connection.head()
        except BaseException:
            connection.close()
            raise

    async def _open(self) -> ClientConnection:
        if self._closed:
            raise Unreachable("the client has been closed")
        loop = asyncio.get_running_loop()
        name = (self.config.server_name or self._host) if self._tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                _, connection = await loop.create_connection(
                    ClientConnection, self._host, self._port, ssl=self._tls, server_hostname=name
                )
        except TimeoutError as error:
            raise Unreachable(f"{self.config.server} does not answer") from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"{self.config.server} is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise Unreachable(f"{self.config.server} cannot be reached: {error}") from error
        return connection

    def _drop_idle(self) -> None:
        for connection in list(self._idle):
            connection.close()
        self._idle.clear()

    def _release(self, connection: ClientConnection) -> None:
        if self._closed or not connection.reusable() or len(self._idle) >= CONNECTIONS:
            connection.close()
        else:
            connection.on_idle_close = self._forget
            self._idle.append(connection)

    def _forget(self, connection: ClientConnection) -> None:
        if connection in self._idle:
            self._idle.remove(connection)


async def _pieces(connection: ClientConnection) -> AsyncIterator[bytes]:
    while (piece := await connection.read()) is not None:
        yield piece


async def _read_all(connection: ClientConnection) -> bytes:
    return b"".join([piece async for piece in _pieces(connection)])


async def _watch_events(pieces: AsyncIterator[bytes]) -> WatchStream[Any]:
    """One document a line; all complete lines that have arrived are a batch."""
    rest = b""
    async for piece in pieces:
        *lines, rest = (rest + piece).split(b"\n")
        batch: list[WatchEvent[Any]] = []
        for line in lines:
            if not line.strip():
                continue
            try:
                event = _decode_frame(line)
            except msgspec.MsgspecError as error:
                raise Unreachable(f"the server sent a watch event that is none: {error}") from error
            if event.type == "ERROR":
                if batch:
                    yield batch
                raise StatusError.from_status(event.object, event.object.get("code", 500))
            batch.append(WatchEvent(event.type, event.object))
        if batch:
            yield batch


def _document(head: Head, data: bytes) -> Any:
    if not data or "json" not in head.headers.get("content-type", ""):
        return data
    try:
        return msgspec.json.decode(data)
    except msgspec.MsgspecError as error:
        raise Unreachable(f"the server's answer is no JSON: {error}") from error


def _failure(head: Head, data: bytes) -> StatusError:
    """The error behind an answer: the Status it carries, or what can be made of its text."""
    try:
        body = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        body = None
    if isinstance(body, dict) and body.get("kind") == "Status":
        return StatusError.from_status(body, head.status)
    text = data[:1000].decode("utf-8", "replace").strip() or f"the server answered {head.status}"
    return type(StatusError.from_status({}, head.status))(text, code=head.status)
