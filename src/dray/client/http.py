"""The transport over HTTP/1.1: connections that are kept and used again, TLS, and everything mapped to our errors."""

from __future__ import annotations

import asyncio
import logging
import random
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, NamedTuple
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

_log = logging.getLogger(__name__)

DEFAULT_TIMEOUT: Final = 60.0
CONNECT_TIMEOUT: Final = 10.0
#: A watch on which nothing was heard for so long is given up.
WATCH_SILENCE: Final = 150.0
#: Requests under way at once; more wait for their turn. Beyond some tens, new connections cost more than they bring.
#: Watches and other streams have connections of their own.
CONNECTIONS: Final = 32
#: How often a request that the server put off ("come back in n seconds") is sent again.
PUT_OFF_LIMIT: Final = 10


class _Frame(msgspec.Struct):
    type: str
    object: dict[str, Any]


_decode_frame = msgspec.json.Decoder(_Frame).decode


class _Server(NamedTuple):
    url: str
    host: str
    port: int

    @classmethod
    def parse(cls, url: str) -> _Server:
        address = urlsplit(url)
        if address.scheme not in ("http", "https") or not address.hostname:
            raise ConfigError(f"{url!r} is not the address of a server")
        return cls(url, address.hostname, address.port or (443 if address.scheme == "https" else 80))


class HttpTransport:
    """An API server reached as its configuration says."""

    def __init__(self, config: Config, *, timeout: float = DEFAULT_TIMEOUT) -> None:
        address = urlsplit(config.server)
        self.config = config
        self.leads_by = ""
        self._timeout = timeout
        self._servers = [_Server.parse(server) for server in (config.server, *config.other_servers)]
        # Many clients of one cluster spread over its servers; each stays with one as long as that one answers.
        self._current = random.randrange(len(self._servers))
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
        if self.leads_by and method != "GET":
            headers.append(("Dray-Leader", self.leads_by))
        request = self._encode(method, path, list((query or {}).items()), headers, data)
        for attempt in range(PUT_OFF_LIMIT + 1):
            head, answer = await self._exchange(
                request, repeatable=method in ("GET", "HEAD"), timeout=timeout
            )
            if head.status == 503:
                self._fail_over(self._servers[self._current])  # it has lost its store, or is ending
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
        # A server that was asked for bookmarks sends one about every minute, if there is nothing else to tell.
        bookmarks = (query or {}).get("allowWatchBookmarks") == "true"
        async with self._stream(path, query, silence=WATCH_SILENCE if bookmarks else None) as pieces:
            yield _watch_events(pieces)

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(path, query, silence=None)

    @asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str] | None, *, silence: float | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        request = self._encode(
            "GET", path, list((query or {}).items()), [("Accept", "application/json, */*")], b""
        )
        pool = self._pool
        async with self._deadline(self._timeout):
            connection, head = await self._send(request, repeatable=True)
        server = self._servers[self._current]
        heard = _Heard(connection, silence, lambda: self._fail_over(server)) if silence else None
        try:
            if head.status >= 400:
                async with self._deadline(self._timeout):
                    raise _failure(head, await read_all(connection))
            yield _pieces(connection, heard)
        finally:
            if heard is not None:
                heard.close()
            pool.give(None, connection)

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
            pool = self._pool
            connection, head = await self._send(request, repeatable=repeatable)
            try:
                return head, await read_all(connection)
            finally:
                pool.give(None, connection)

    @asynccontextmanager
    async def _deadline(self, seconds: float) -> AsyncIterator[None]:
        server = self._servers[self._current]
        try:
            async with asyncio.timeout(seconds):
                yield
        except TimeoutError as error:
            self._fail_over(server)  # it may be stopped, or cut off
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
        """A new connection, to the server that was used last if it can be reached, else to the next that can."""
        for _ in self._servers[1:]:
            try:
                return await self._connect(self._servers[self._current])
            except Unreachable as error:
                _log.info("%s; trying the next server", error)
                self._fail_over(self._servers[self._current])
        return await self._connect(self._servers[self._current])

    def _fail_over(self, failed: _Server) -> None:
        """Use another server from now on."""
        if failed is self._servers[self._current] and len(self._servers) > 1:
            self._current = (self._current + 1) % len(self._servers)
            self._pool.close()  # also what is given back later: whoever took it from here gives it back here
            self._pool = ConnectionPool(CONNECTIONS)

    async def _connect(self, server: _Server) -> ClientConnection:
        if self._closed:
            raise Unreachable("the client has been closed")
        name = (self.config.server_name or server.host) if self._tls is not None else None
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT):
                return await connect(server.host, server.port, tls=self._tls, server_name=name)
        except TimeoutError as error:
            raise Unreachable(f"{server.url} does not answer") from error
        except ssl.SSLCertVerificationError as error:
            raise Unreachable(f"{server.url} is not trusted: {error.verify_message}") from error
        except OSError as error:
            raise Unreachable(f"{server.url} cannot be reached: {error}") from error


class _Heard:
    """Ends a connection on which nothing has been heard for too long: its server may be stopped, or cut off."""

    def __init__(self, connection: ClientConnection, silence: float, lost: Callable[[], None]) -> None:
        self._connection = connection
        self._silence = silence
        self._lost = lost
        self._loop = asyncio.get_running_loop()
        self.at = self._loop.time()
        self._timer = self._loop.call_later(silence, self._look)

    def now(self) -> None:
        self.at = self._loop.time()

    def _look(self) -> None:
        left = self.at + self._silence - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        else:
            self._lost()
            self._connection.abort()

    def close(self) -> None:
        self._timer.cancel()


async def _pieces(connection: ClientConnection, heard: _Heard | None) -> AsyncIterator[bytes]:
    try:
        while (piece := await connection.read()) is not None:
            if heard is not None:
                heard.now()
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
