"""One HTTP/1.1 connection: bytes in, requests to the handler in order, replies and streams out.

The connection keeps the server's limits and deadlines. Requests of one connection are served in the order in which they
came, however they were pipelined.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections import deque
from collections.abc import Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import httptools

from dray.wire.duplex import Duplex, Stream
from dray.wire.messages import Headers, Peer, Query, Reply, Request

if TYPE_CHECKING:
    from dray.wire.http_server import HTTPServer

log = logging.getLogger(__name__)


_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_METHOD = re.compile(rb"([A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}) /")
_HEADER_TOO_LARGE = "431 Request Header Fields Too Large"
_BODILESS = frozenset({101, 204, 304})
_names: dict[bytes, str] = {}


class ServerConnection(asyncio.Protocol):
    """One connection of a client. It is the sink of its streamed replies, and the wire of its duplex."""

    def __init__(self, server: HTTPServer[Any]) -> None:
        self.server = server
        self.deadline = time.monotonic() + server.limits.header_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._peer = Peer()
        self._parser = httptools.HttpRequestParser(self)
        self._queue: deque[Request] = deque()
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._duplex: Duplex | None = None
        self._keep_alive = server.keep_alive
        self._chunked = False
        self._refused = False
        self._reading = True
        self._early: bytes | None = None  # what followed a request to upgrade, until the handler has decided
        self._room: asyncio.Event | None = None  # present while the peer is slow
        # the request being parsed
        self._method = ""  # when it is not one of the parser's
        self._url = b""
        self._headers = Headers()
        self._body: list[bytes] = []
        self._size = 0

    # -- connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.limits.connections:
            self.abort()
            return
        address = transport.get_extra_info("peername")
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._peer = Peer(address[0] if address else "", certificate)
        self._transport.set_write_buffer_limits(high=self.server.limits.unsent_bytes)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.left(self)
        self._transport = None
        self._queue.clear()
        if self._room is not None:
            self._room.set()
        if self._duplex is not None:
            self._duplex.lost()
        if self._stream is not None:
            self._stream.close()
        elif self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._room = asyncio.Event()
        if self._stream is None and self._duplex is None:
            self.deadline = time.monotonic() + self.server.limits.stalled_seconds

    def resume_writing(self) -> None:
        if self._room is not None:
            self._room.set()
        self._room = None
        self._rest()

    def expire(self) -> None:
        """Close a connection whose deadline has passed; a client in the middle of a request is told why."""
        if self._task is None and (self._url or self._size) and self._room is None:
            self._refuse(408, "Request Timeout")
        else:
            self.abort()

    def finish(self) -> None:
        """Serve what is running, then close; an idle connection closes at once."""
        self._keep_alive = False
        if self._stream is not None:
            self._stream.close()
        elif self._duplex is not None or self._task is None:
            self.close()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # -- reading

    def data_received(self, data: bytes) -> None:
        if self._duplex is not None:
            self._duplex.received(data)
            return
        if self._refused:
            return
        if self._early is not None:
            self._early += data
            if len(self._early) > self.server.limits.body_bytes:
                self.abort()
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as e:
            # The request itself is plain HTTP and is answered as such. The bytes that follow belong to the new protocol
            # if the handler accepts the upgrade, else to the next request.
            self._early = data[e.args[0] :]
            self._parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserCallbackError as e:
            cause = e.__context__
            if isinstance(cause, _TooLarge):
                self._refuse(cause.code, str(cause))
            else:
                log.error("parsing a request failed", exc_info=cause)
                self._refuse(400, "Bad Request")
        except httptools.HttpParserInvalidMethodError:
            self._odd_method(data)
        except httptools.HttpParserError as e:
            self._refuse(400, f"Bad Request: {e}")

    def _odd_method(self, data: bytes) -> None:
        """Parse a request whose method the parser does not know as a GET; the handler is told the real method."""
        found = _METHOD.match(data)
        if found is None or self._method:
            self._refuse(400, "Bad Request: invalid method")
            return
        self._method = found[1].decode()
        self._parser = httptools.HttpRequestParser(self)
        self.data_received(b"GET" + data[found.end(1) :])

    def eof_received(self) -> bool | None:
        return self._task is not None and self._stream is None

    def on_message_begin(self) -> None:
        self._url = b""
        self._headers = Headers()
        self._body = []
        self._size = 0
        if self._task is None:
            self.deadline = time.monotonic() + self.server.limits.header_seconds

    def on_url(self, url: bytes) -> None:
        self._url += url
        self._size += len(url)
        if self._size > self.server.limits.header_bytes:
            raise _TooLarge(431, _HEADER_TOO_LARGE)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._size += len(name) + len(value) + 4
        if self._size > self.server.limits.header_bytes:
            raise _TooLarge(431, _HEADER_TOO_LARGE)
        text = _names.get(name)
        if text is None:
            text = name.decode("latin-1").lower()
            if len(_names) < 512:
                _names[name] = text
        self._headers.add(text, value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        self._size = 0
        limit = self.server.limits.body_bytes
        length = self._headers.get("content-length")
        if length and int(length) > limit:
            raise _TooLarge(413, f"Request entity too large: limit is {limit}")
        if self._task is None:
            self.deadline = time.monotonic() + self.server.limits.body_seconds
        if self._headers.get("expect").lower() == "100-continue" and self._task is None and not self._queue:
            self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, chunk: bytes) -> None:
        self._size += len(chunk)
        limit = self.server.limits.body_bytes
        if self._size > limit:
            raise _TooLarge(413, f"Request entity too large: limit is {limit}")
        self._body.append(chunk)

    def on_message_complete(self) -> None:
        parser = self._parser
        path, _, query = self._url.decode("latin-1").partition("?")
        if "%" in path:
            path = unquote(path)
        if not path.startswith("/") and "://" in path:  # absolute form, as proxies send it
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        body = self._body
        request = self.server.request_type(
            self._method or parser.get_method().decode("latin-1"),
            path,
            Query(query.partition("#")[0]),
            self._headers,
            b"" if not body else body[0] if len(body) == 1 else b"".join(body),
            self._peer,
        )
        request.upgradable = parser.should_upgrade()
        request.http = (parser.get_http_version(), parser.should_keep_alive() or request.upgradable)
        self._url = b""
        self._method = ""
        self._body = []
        self._size = 0
        self._queue.append(request)
        if self._task is None:
            self._begin()
        elif len(self._queue) >= self.server.limits.pipelined and self._reading:
            self._reading = False
            self._transport.pause_reading()

    def _refuse(self, code: int, message: str) -> None:
        """Answer a request that cannot be parsed, after those before it, and end the connection."""
        self._refused = True
        self._keep_alive = False
        if self._task is None:
            self._send(self.server.refuse(code, message), head_only=False, http="1.1")
            self.close()
        else:
            self._queue.clear()

    # -- answering

    def _begin(self) -> None:
        self.deadline = float("inf")  # from here on the handler keeps the time
        self._task = self._loop.create_task(self._serve(self._queue.popleft()))

    async def _serve(self, request: Request) -> None:
        version, keep_alive = request.http
        try:
            reply = await self.server.handler(request)
        except asyncio.CancelledError:
            self._task = None
            self.abort()
            return
        except Exception:
            log.exception("unhandled error on %s %s", request.method, request.path)
            reply = self.server.refuse(500, "Internal Server Error")
        if self._transport is None:
            if reply.stream is not None:
                reply.stream.close()
            return
        self._keep_alive = self._keep_alive and keep_alive and not self.server.draining
        if reply.duplex is not None:
            self._switch(reply)
            return
        self._send(reply, head_only=request.method == "HEAD", http=version)
        if reply.stream is not None:
            if request.method == "HEAD":
                reply.stream.close()
            else:
                await self._run(reply.stream)
        self._task = None
        if self._transport is None:
            return
        if not self._keep_alive:
            self.close()
            return
        if self._queue:
            self._begin()
        else:
            self._rest()
        if not self._reading and len(self._queue) < self.server.limits.pipelined:
            self._reading = True
            self._transport.resume_reading()
        if request.upgradable and self._early is not None:
            early, self._early = self._early, None
            if early:
                self.data_received(early)

    async def _run(self, stream: Stream) -> None:
        self._stream = stream
        if self._transport is not None and self.server.draining:
            stream.close()
        try:
            await stream.run(self)
        except Exception:
            log.exception("a stream failed")
            self.abort()
        finally:
            self._stream = None
        if self._transport is not None and self._chunked:
            self._transport.write(b"0\r\n\r\n")

    def _rest(self) -> None:
        if self._task is None and self._room is None:
            self.deadline = time.monotonic() + self.server.limits.idle_seconds

    def _send(self, reply: Reply, *, head_only: bool, http: str) -> None:
        parts = [_STATUS_LINES.get(reply.code) or f"HTTP/1.1 {reply.code} Status\r\n".encode()]
        for name, value in reply.headers:
            if "\n" in value or "\r" in value:
                value = value.replace("\r", " ").replace("\n", " ")
            parts.append(f"{name}: {value}\r\n".encode())
        parts.append(self.server.date)
        if not self._keep_alive:
            parts.append(b"Connection: close\r\n")
        elif http == "1.0":
            parts.append(b"Connection: keep-alive\r\n")
        self._chunked = False
        if reply.stream is not None:
            if http == "1.0":
                self._keep_alive = False
            else:
                self._chunked = True
                parts.append(b"Transfer-Encoding: chunked\r\n")
            parts.append(b"\r\n")
            self._transport.write(b"".join(parts))
            return
        body = reply.body
        chunks: Sequence[bytes] = (body,) if isinstance(body, bytes) else body
        if reply.code not in _BODILESS:
            parts.append(b"Content-Length: %d\r\n" % sum(map(len, chunks)))
        parts.append(b"\r\n")
        if not head_only:
            parts.extend(chunks)
        self._transport.write(b"".join(parts))

    def _switch(self, reply: Reply) -> None:
        assert reply.duplex is not None
        parts = [b"HTTP/1.1 101 Switching Protocols\r\n"]
        parts.extend(f"{name}: {value}\r\n".encode("latin-1") for name, value in reply.headers)
        parts.append(b"\r\n")
        self._transport.write(b"".join(parts))
        self._duplex = reply.duplex
        self._task = None
        self._chunked = False
        reply.duplex.opened(self)
        early, self._early = self._early, None
        if early:
            reply.duplex.received(early)

    # -- Sink

    @property
    def congested(self) -> bool:
        return self._room is not None

    @property
    def closed(self) -> bool:
        return self._transport is None or self._transport.is_closing()

    def write(self, data: bytes) -> None:
        if self._transport is None or not data:
            return
        if self._chunked:
            self._transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        else:
            self._transport.write(data)

    def pause(self) -> None:
        if self._transport is not None:
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._transport.resume_reading()

    async def drained(self) -> None:
        while self._room is not None and self._transport is not None:
            await self._room.wait()


class _TooLarge(Exception):
    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
