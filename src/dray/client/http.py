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
from dray.wire.errors import WireError
from dray.wire.http_client import ConnectionPool, connect, encode, read_all
from dray.wire.websocket import ClientWebSocket, client_handshake

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
        self._common = (
            ("Host", address.netloc.rpartition("@")[2]),
            ("User-Agent", f"dray/{__version__}"),
        )
        self._pool: ConnectionPool[None] = ConnectionPool(CONNECTIONS)
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
                async with self._deadline(self._timeout):
                    raise _failure(head, await read_all(connection))
            yield _pieces(connection)
        finally:
            self._pool.give(None, connection)

    @asynccontextmanager
    async def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> AsyncIterator[WebSocket]:
        headers, expected = client_handshake(subprotocols)
        connection = await self._open()
        socket: _WebSocket | None = None
        try:
            async with self._deadline(self._timeout):
                connection.send(self._encode("GET", path, list(query), headers, b""))
                head = await connection.head()
                if head.status != 101:
                    raise _failure(head, await read_all(connection))
                socket = _WebSocket(connection, head, expected=expected)
            yield socket
        finally:
            if socket is not None:
                socket.close()
            connection.close()

    async def close(self) -> None:
        self._closed = True
        self._pool.close()

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
        lines = (*self._common, *headers, *self._credentials.headers())
        try:
            return encode(method, target, lines, body)
        except ValueError as error:
            raise ConfigError(str(error)) from error

    async def _exchange(
        self, request: bytes, *, repeatable: bool, timeout: float | None
    ) -> tuple[Head, bytes]:
        async with self._turns, self._deadline(self._timeout if timeout is None else timeout):
            connection, head = await self._send(request, repeatable=repeatable)
            try:
                return head, await read_all(connection)
            finally:
                self._pool.give(None, connection)

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncIterator[None]:
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            raise Unreachable(f"the server gave no answer within {seconds:g} s") from error
        except WireError as error:
            raise Unreachable(str(error)) from error

    async def _send(self, request: bytes, *, repeatable: bool) -> tuple[ClientConnection, Head]:
        """Send on a kept connection, or on a new one. A kept one may turn out to be dead just now."""
        if self._tls is not None and self._certificate.renewed(self._tls):
            self._pool.drop()  # their servers were told the old certificate
        while (connection := self._pool.take(None)) is not None:
            try:
                connection.send(request)
                return connection, await connection.head()
            except WireError:
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
        name = (self.config.server_name or self._host) if self._tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await connect(self._host, self._port, tls=self._tls, server_name=name)
        except TimeoutError as error:
            raise Unreachable(f"{self.config.server} does not answer") from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"{self.config.server} is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise Unreachable(f"{self.config.server} cannot be reached: {error}") from error


async def _pieces(connection: ClientConnection) -> AsyncIterator[bytes]:
    try:
        while (piece := await connection.read()) is not None:
            yield piece
    except WireError as error:
        raise Unreachable(str(error)) from error


class _WebSocket(ClientWebSocket):
    """A WebSocket whose failures are the transport's."""

    async def send(self, message: bytes) -> None:
        try:
            await super().send(message)
        except WireError as error:
            raise Unreachable(str(error)) from error

    async def receive(self) -> bytes | None:
        try:
            return await super().receive()
        except WireError as error:
            raise Unreachable(str(error)) from error


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
