"""One HTTP/1.1 connection: bytes in, requests to the handler in order, replies and streams out.

The connection keeps the server's limits and deadlines. The head of a request is collected until it is complete, counted
as it arrives, and parsed once; its body is taken by its length or its chunks. A request that was pipelined is looked at
when the one before it has been answered.
"""

from __future__ import annotations

import asyncio
import logging
import re
import select
import time
from collections.abc import Iterable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote

import httptools

from dray.wire.chunked import ChunkedBody
from dray.wire.duplex import Duplex, Stream
from dray.wire.errors import ProtocolError, TooLarge
from dray.wire.messages import NO_QUERY, Headers, Peer, Query, Reply, Request

if TYPE_CHECKING:
    from dray.wire.http_server import HTTPServer

log = logging.getLogger(__name__)


_STATUS_LINES = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
_METHOD = re.compile(rb"([A-Za-z][A-Za-z0-9!#$%&'*+.^_`|~-]{0,31}) /")
_START: Final = re.compile(rb"[A-Za-z]")
_SPACE: Final = 32
_END_OF_HEAD: Final = b"\r\n\r\n"
#: What poll(2) tells of a peer that sends nothing more; errors come unasked.
_HANGS_UP: Final = getattr(select, "POLLRDHUP", 0)
_BODILESS = frozenset({101, 204, 304})
#: What is sent of a body in one turn of the loop: a tenth of a millisecond in plain text, and a few of them over TLS.
_PIECE: Final = 256 << 10
#: What a client may send ahead while a request of its is being answered, or before its body is asked for.
_UNASKED_BYTES: Final = 64 << 10
_names: dict[bytes, str] = {}
#: A request line that can be read in one way only. Where the fields of its head are those of the head before, nothing
#: is left to parse.
_PLAIN_LINE: Final = re.compile(
    rb"(GET|POST|PUT|PATCH|DELETE) (/[A-Za-z0-9._~%!$&'()*+,;=:@/?-]*) HTTP/1\.1\r\n"
)
#: The one field that differs between requests that are alike, as nearly every client spells it.
_LENGTH: Final = b"\r\nContent-Length: "
_MOST_DIGITS: Final = 18
_LONGEST_KNOWN: Final = 4096
_MOST_BLOCKS: Final = 256
_blocks: dict[tuple[tuple[str, str], ...], bytes] = {}  # header fields of replies, as they are sent

#: Method, version, whether the connection may stay, and whether it may be upgraded.
_Line = tuple[bytes, str, bool, bool]
_NO_LINE: _Line | None = None


class ServerConnection(asyncio.Protocol):
    """One connection of a client. It is the sink of its streamed replies, and the wire of its duplex."""

    def __init__(self, server: HTTPServer[Any]) -> None:
        self.server = server
        self.deadline = time.monotonic() + server.limits.header_seconds
        self._loop = asyncio.get_running_loop()
        self._transport: Any = None
        self._peer = Peer()
        self._parser = httptools.HttpRequestParser(self)
        self._task: asyncio.Task[None] | None = None
        self._stream: Stream | None = None
        self._duplex: Duplex | None = None
        self._keep_alive = server.keep_alive
        self._chunked = False
        self._refusal: Reply | None = None  # after it nothing is read any more
        self._reading = True
        self._waits_its_turn = False  # enough is read of bodies for now
        self._ended = False  # the client sends nothing more
        self._room: asyncio.Event | None = None  # present while the peer is slow
        self._pending = bytearray()  # received, and neither a request nor a body yet
        self._scanned = 0  # how far the end of a head was looked for
        self._held = 0  # what the server was told last
        # the head that is being parsed
        self._url = b""
        self._headers = Headers()
        self._line = _NO_LINE
        # the fields of an earlier head, as they came and parsed: most clients send the same with every request, but for
        # the length of a body
        self._known_fields = b""
        self._known_headers = self._headers
        self._fields_known = False
        # the request whose body has not arrived yet
        self._request: Request | None = None
        self._left = 0
        self._chunks: ChunkedBody | None = None
        self._discards = False  # the request has been answered without its body
        self._arrival: asyncio.Future[None] | None = None  # the handler waits for the body

    # -- connection

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport
        self.server.connections.add(self)
        if len(self.server.connections) > self.server.max_connections:
            self.abort()
            return
        address = transport.get_extra_info("peername")
        tls = transport.get_extra_info("ssl_object")
        certificate = tls.getpeercert(binary_form=True) if tls is not None else None
        self._peer = Peer(address[0] if address else "", certificate)
        self._transport.set_write_buffer_limits(high=self.server.limits.unsent_bytes)
        if tls is not None:  # what is kept of a connection that is not read from
            self._transport.set_read_buffer_limits(high=_UNASKED_BYTES)

    def connection_lost(self, exc: Exception | None) -> None:
        self.server.left(self)
        self._transport = None
        self._pending.clear()
        self._chunks = self._request = None
        self._account()
        del self._parser  # it refers to this connection
        if self._room is not None:
            self._room.set()
        if self._duplex is not None:
            self._duplex.lost()
            self._duplex = None
        if self._stream is not None:
            self._stream.close()
        elif self._task is not None:
            self._task.cancel()

    def pause_writing(self) -> None:
        self._room = asyncio.Event()
        if self._stream is None and self._duplex is None:
            # All of a reply has this time, though the client may be slow more than once while it is sent.
            stalled = time.monotonic() + self.server.limits.stalled_seconds
            self.deadline = min(self.deadline, stalled)

    def resume_writing(self) -> None:
        if self._room is not None:
            self._room.set()
        self._room = None
        self._rest()
        self._next()

    def expire(self) -> None:
        """Close a connection whose deadline has passed; a client in the middle of a request is told why."""
        receiving = self._pending if self._task is None else self._arrival
        if receiving and not self._discards and self._room is None:
            self._refuse(408, "Request Timeout")
        else:
            self.abort()

    def shed(self) -> None:
        """Give up what has arrived of an unfinished request."""
        self._refuse(503, "The server holds too many unfinished requests, try again later.")

    @property
    def unused(self) -> bool:
        """Whether no request of this client is being answered and no stream is open."""
        return self._task is None and self._stream is None and self._duplex is None and self._room is None

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
        if self._refusal is not None:
            return
        pending = self._pending
        if self._task is None and self._request is None and self._room is None and not pending:
            # Most heads come in one piece, and most of them without a body.
            end = data.find(_END_OF_HEAD) + 4
            if 4 <= end <= self.server.limits.header_bytes and data[0] > _SPACE:
                if end == len(data):
                    self._parse(data)
                    return
                pending += data[end:]
                self._parse(data[:end])
                if pending:
                    self._advance()
                return
            self.deadline = time.monotonic() + self.server.limits.header_seconds
        pending += data
        self._advance()
        waits = self._request is None or self._waits_its_turn
        if not waits and self.server.has_read_enough(self, len(data)):
            self._waits_its_turn = True
            self._account()

    def read_on(self) -> None:
        """It is the turn of this body again."""
        self._waits_its_turn = False
        self._account()

    def _advance(self) -> None:
        """Make what can be made of the bytes that have arrived: the rest of a body, or the next request once the one
        before it has been answered and the client has read enough of its answers."""
        pending = self._pending
        while pending and self._refusal is None:
            if self._request is not None:
                if not self._take_body(self._request):
                    break
            elif self._task is None and self._room is None:
                if not self._take_head():
                    break
            else:
                break
        if pending or self._held:
            self._account()

    def _take_head(self) -> bool:
        """Parse the head of a request if all of it has arrived."""
        pending, limit = self._pending, self.server.limits.header_bytes
        if pending[0] <= _SPACE:  # empty lines before a request are ignored
            pending[:] = pending.lstrip(b"\r\n")
            if not pending:
                return False
        end = pending.find(_END_OF_HEAD, self._scanned) + 4
        if end > limit or (end < 4 and len(pending) > limit):
            self._refuse(431, "431 Request Header Fields Too Large")
            return False
        if end < 4:
            if not _START.match(pending) or pending.find(b"\n\n", self._scanned) >= 0:
                self._refuse(400, "Bad Request")
            self._scanned = max(0, len(pending) - 3)
            return False
        head = bytes(pending[:end])
        del pending[:end]
        self._scanned = 0
        self._parse(head)
        return True

    def _parse(self, head: bytes) -> None:
        """Parse the head of one request, and begin to answer it."""
        end = head.find(b"\n") + 1
        fields, length = _fields_and_length(head, end)
        if (
            fields == self._known_fields
            and (length is None or (length.isdigit() and len(length) <= _MOST_DIGITS))
            and (line := _PLAIN_LINE.fullmatch(head, 0, end)) is not None
        ):
            self._fields_known = True
            self._headers = self._known_headers
            if length is not None:
                self._headers = self._headers.with_length(length.decode())
            self._arrived(line[1].decode(), line[2], "1.1", keep_alive=True, upgradable=False)
            return
        self._url, self._line = b"", _NO_LINE
        self._fields_known = False
        self._headers = Headers()
        method = ""
        try:
            try:
                self._parser.feed_data(head)
            except httptools.HttpParserInvalidMethodError:
                # A request whose method the parser does not know is parsed as a GET; the handler is told the method.
                found = _METHOD.match(head)
                if found is None:
                    raise
                method = found[1].decode()
                self._parser = httptools.HttpRequestParser(self)
                self._parser.feed_data(b"GET" + head[found.end(1) :])
        except httptools.HttpParserUpgrade:
            # The request itself is plain HTTP and is answered as such. The bytes that follow belong to the new protocol
            # if the handler accepts the upgrade, else to the next request.
            self._parser = httptools.HttpRequestParser(self)
        except httptools.HttpParserError as e:
            self._refuse(400, f"Bad Request: {e}")
            return
        if self._line is None:
            self._refuse(400, "Bad Request")
            return
        known_method, version, keep_alive, upgradable = self._line
        if keep_alive and not upgradable and len(head) - end <= _LONGEST_KNOWN:
            self._known_fields, self._known_headers = fields, self._headers
        self._arrived(
            method or known_method.decode("latin-1"),
            self._url,
            version,
            keep_alive=keep_alive,
            upgradable=upgradable,
        )

    def _arrived(self, method: str, url: bytes, version: str, *, keep_alive: bool, upgradable: bool) -> None:
        """Begin to answer the request whose head has been read."""
        path, _, query = url.decode("latin-1").partition("?")
        if "%" in path:
            path = unquote(path)
        if not path.startswith("/") and "://" in path:  # absolute form, as proxies send it
            path = "/" + path.split("://", 1)[1].partition("/")[2]
        request = self.server.request_type(
            method,
            path,
            Query(query.partition("#")[0]) if query else NO_QUERY,
            self._headers,
            b"",
            self._peer,
        )
        request.upgradable = upgradable
        request.http = (version, keep_alive or upgradable)
        headers = self._headers
        if "transfer-encoding" in headers or headers.get("content-length", "0") != "0":
            self._expect_body(request)
        else:
            self._begin(request)

    def _expect_body(self, request: Request) -> None:
        """Begin a request whose body is still to be taken from what arrives."""
        headers, limit = request.headers, self.server.limits.body_bytes
        if coding := headers.get("transfer-encoding"):
            if coding.strip().lower() != "chunked":
                self._refuse(501, "Unsupported transfer encoding")
                return
            self._chunks = ChunkedBody(limit)
        else:
            self._left = left = int(headers.get("content-length"))
            if left > limit:
                self._refuse(413, f"Request entity too large: limit is {limit}")
                return
            if left <= len(self._pending) and not request.upgradable:
                request.body = body = bytes(self._pending[:left])
                del self._pending[:left]
                if not self._fields_known:  # else the parser was not told that there is a body
                    self._parser.feed_data(body)
                self._begin(request)
                return
        self._parser = httptools.HttpRequestParser(self)  # the body does not pass through it
        self._request = request
        if self._pending and self._take_body(request):
            return
        if self._refusal is None:
            # The handler decides whether it wants the rest at all: most refusals need no body.
            request.receive = self._receive
            self._begin(request)

    def _take_body(self, request: Request) -> bool:
        """Take what has arrived of a body; whether it is complete."""
        pending, chunks = self._pending, self._chunks
        if chunks is not None:
            try:
                if not chunks.take(pending):
                    return False
            except TooLarge as e:
                self._refuse(413, f"Request entity too large: {e}")
                return False
            except ProtocolError as e:
                self._refuse(400, f"Bad Request: {e}")
                return False
            request.body = bytes(chunks.content)
        elif self._discards:
            taken = min(self._left, len(pending))
            del pending[:taken]
            self._left -= taken
            if self._left:
                return False
        else:
            if len(pending) < self._left:
                return False
            request.body = bytes(pending[: self._left])
            del pending[: self._left]
        begun = request.receive is not None
        request.receive = self._request = self._chunks = None
        self._discards = False
        if not begun:
            self._begin(request)
        elif self._arrival is not None:
            self.deadline = float("inf")
            if not self._arrival.done():
                self._arrival.set_result(None)
        elif self._task is None:
            self._rest()
        return True

    async def _receive(self) -> None:
        """Wait for the rest of the body, which the handler asks for once it knows that it wants it."""
        if self._request is None:
            return
        self._arrival = arrival = self._loop.create_future()
        if self._refusal is not None or self._ended:
            arrival.cancel()
        elif self._transport is not None:
            self.deadline = time.monotonic() + self.server.limits.body_seconds
            if self._request.headers.get("expect").lower() == "100-continue":
                self._transport.write(b"HTTP/1.1 100 Continue\r\n\r\n")
            self._account()
        try:
            await arrival
        finally:
            self._arrival = None

    def _account(self) -> None:
        """Tell the server how much waits here to become a request, and let the client wait if that is enough for now."""
        held = len(self._pending) + (len(self._chunks.content) if self._chunks is not None else 0)
        change, self._held = held - self._held, held
        if change:
            self.server.hold(self, held, change)
        if self._transport is None or self._duplex is not None:
            return
        waits = self._room is not None or (self._task is not None and self._arrival is None)
        full = self._waits_its_turn or (waits and len(self._pending) > _UNASKED_BYTES)
        if full is self._reading:
            (self.pause if full else self.resume)()

    def eof_received(self) -> bool | None:
        self._ended = True
        if self._transport is None or self._transport.get_extra_info("ssl_object") is not None:
            return None  # TLS has no half-closed connections, and the loop warns of whoever asks for one
        return self._task is not None and self._stream is None and self._arrival is None

    # What the parser calls

    def on_url(self, url: bytes) -> None:
        self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        text = _names.get(name)
        if text is None:
            text = name.decode("latin-1").lower()
            if len(_names) < 512 and len(name) <= 40:
                _names[name] = text
        self._headers.add(text, value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        if self._line is not None:
            raise ProtocolError("more than one head")
        parser = self._parser
        self._line = (
            parser.get_method(),
            parser.get_http_version(),
            parser.should_keep_alive(),
            parser.should_upgrade(),
        )

    def _refuse(self, code: int, message: str) -> None:
        """Answer a request that cannot be taken, and end the connection."""
        self._refusal = self.server.refuse(code, message)
        self._keep_alive = False
        self._pending.clear()
        if self._chunks is not None:
            self._chunks.content.clear()
        self._account()
        if self._discards:
            self.close()  # the request has its answer already
        elif self._task is None:
            self._send(self._refusal, head_only=False, http="1.1")
            self.close()
        elif self._arrival is not None:
            self._arrival.cancel()  # the handler ends, and the refusal is sent in its place

    # -- answering

    def _begin(self, request: Request) -> None:
        self.deadline = float("inf")  # from here on the handler keeps the time
        self._task = self._loop.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        version, keep_alive = request.http
        try:
            reply = await self.server.handler(request)
        except asyncio.CancelledError:
            self._task = None
            if self._refusal is not None and self._transport is not None:
                self._send(self._refusal, head_only=False, http="1.1")
                self.close()
            else:
                self.abort()
            return
        except Exception:
            log.exception("unhandled error on %s %s", request.method, request.path)
            reply = self.server.refuse(500, "Internal Server Error")
        if self._transport is None:
            self._task = None
            if reply.stream is not None:
                reply.stream.close()
            return
        self._keep_alive = self._keep_alive and keep_alive and not self.server.draining
        if request.receive is not None and "expect" in request.headers:
            self._keep_alive = False  # whether the body will come is unknown
        if reply.duplex is not None:
            self._switch(reply)
            return
        self._send(reply, head_only=request.method == "HEAD", http=version)
        if reply.stream is not None:
            if request.method == "HEAD":
                reply.stream.close()
            else:
                await self._run(reply.stream)
        elif len(reply.body) > _PIECE and request.method != "HEAD":
            await self._send_rest(reply.body)
        self._task = None
        if self._transport is None:
            return
        if not self._keep_alive:
            self.close()
            return
        self._rest()
        if request.receive is not None:
            self._discard()
        self._next()

    def _next(self) -> None:
        """Go on with what has arrived; without it, end a connection whose client sends nothing more."""
        if self._pending:
            self._advance()
        if self._ended and self._task is None and self._room is None:
            self.close()

    def _discard(self) -> None:
        """Let the rest of a body pass that was not needed for the answer, so that the connection can go on."""
        self._discards = True
        self.deadline = time.monotonic() + self.server.limits.body_seconds
        if self._chunks is not None:
            self._chunks.keeps = False
            self._chunks.content.clear()

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
        headers = reply.headers
        parts.append(_block(headers) if isinstance(headers, tuple) else _written(headers))
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
        if reply.code not in _BODILESS:
            parts.append(b"Content-Length: %d\r\n" % len(body))
        parts.append(b"\r\n")
        if not head_only:
            parts.append(body if len(body) <= _PIECE else body[:_PIECE])
        self._transport.write(b"".join(parts))

    async def _send_rest(self, body: bytes) -> None:
        """Send what follows the first piece. A piece is encrypted when it is sent, and the loop turns in between."""
        rest = memoryview(body)
        for start in range(_PIECE, len(body), _PIECE):
            await asyncio.sleep(0)
            await self.drained()
            if self._transport is None:
                return
            self._transport.write(rest[start : start + _PIECE])

    def _switch(self, reply: Reply) -> None:
        assert reply.duplex is not None
        parts = [b"HTTP/1.1 101 Switching Protocols\r\n"]
        parts.extend(f"{name}: {value}\r\n".encode("latin-1") for name, value in reply.headers)
        parts.append(b"\r\n")
        self._transport.write(b"".join(parts))
        self._duplex = reply.duplex
        self._task = None
        self._chunked = False
        if not self._reading:
            self.resume()
        reply.duplex.opened(self)
        early = bytes(self._pending)
        self._pending.clear()
        self._request = self._chunks = None
        self._account()
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
            self._reading = False
            self.server.paused.add(self)
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None:
            self._reading = True
            self.server.paused.discard(self)
            self._transport.resume_reading()

    def has_left(self) -> bool:
        """Whether the client of a connection that is not read from is gone: nothing else would tell."""
        socket = self._transport and self._transport.get_extra_info("socket")
        if not socket or socket.fileno() < 0:
            return False
        events = select.poll()
        events.register(socket.fileno(), _HANGS_UP)
        return bool(events.poll(0))

    async def drained(self) -> None:
        while self._room is not None and self._transport is not None:
            await self._room.wait()


def _fields_and_length(head: bytes, end: int) -> tuple[bytes, bytes | None]:
    """The fields of a head whose first line ends at ``end``, without what Content-Length says, and what it says."""
    at = head.find(_LENGTH, end - 2)
    if at < 0:
        return head[end:], None
    start = at + len(_LENGTH)
    stop = head.find(b"\r\n", start)
    return head[end:start] + head[stop:], head[start:stop]


def _written(headers: Iterable[tuple[str, str]]) -> bytes:
    return b"".join(
        [
            f"{name}: {value.replace(chr(13), ' ').replace(chr(10), ' ')}\r\n".encode()
            for name, value in headers
        ]
    )


def _block(headers: tuple[tuple[str, str], ...]) -> bytes:
    """The same, remembered: a tuple is most likely a constant."""
    found = _blocks.get(headers)
    if found is None:
        if len(_blocks) >= _MOST_BLOCKS:
            _blocks.clear()
        found = _blocks[headers] = _written(headers)
    return found
