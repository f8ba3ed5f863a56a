"""SPDY/3.1, as far as Kubernetes uses it: many streams over one connection, each with headers, data and two ends.

Commands, attached containers and forwarded ports travel this way between kubectl, API server, kubelet and container
runtime. None of them sends or obeys window updates, so a slow reader of one stream holds up the whole connection.
"""

from __future__ import annotations

import asyncio
import struct
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from enum import IntEnum

from dray.wire.duplex import Throttle, Wire
from dray.wire.errors import ProtocolError

#: What an HTTP request asks for when it wants to be upgraded.
UPGRADE = "SPDY/3.1"
_VERSION = 3
_FIN = 1
_MAX_FRAME_BYTES = 4 << 20
_MAX_HEADER_BYTES = 8 << 10
_CHUNK = 32 << 10

_WORDS = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language accept-ranges age allow "
    "authorization cache-control connection content-base content-encoding content-language content-length "
    "content-location content-md5 content-range content-type date etag expect expires from host if-match "
    "if-modified-since if-none-match if-range if-unmodified-since last-modified location max-forwards pragma "
    "proxy-authenticate proxy-authorization range referer retry-after server te trailer transfer-encoding upgrade "
    "user-agent vary via warning www-authenticate method get status 200_OK version HTTP/1.1 url public set-cookie "
    "keep-alive origin"
)
_TAIL = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request401 Unauthorized403 Forbidden"
    "404 Not Found500 Internal Server Error501 Not Implemented503 Service Unavailable"
    "Jan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMT"
    "chunked,text/html,image/png,image/jpg,image/gif,application/xml,application/xhtml+xml,text/plain,text/javascript,"
    "publicprivatemax-age=gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
#: Both sides' compression of headers begins with the protocol's own dictionary.
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.replace("_", " ").encode() for word in _WORDS.split())
    + _TAIL.encode()
)


class Kind(IntEnum):
    """Control frames."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


_CANCEL = 5
#: Streams that are open at a time: two for each connection to a forwarded port, a handful for a session. As many may be
#: opened and refused while the peer does not read the answers.
_MAX_STREAMS = 1024


class Stream:
    """One stream of a connection. Each side ends its own direction."""

    def __init__(self, connection: Connection, number: int, headers: Mapping[str, str]) -> None:
        self.number = number
        self.headers = headers
        self.replied = asyncio.Event()
        self._connection = connection
        self._pieces: asyncio.Queue[bytes] = asyncio.Queue()
        self._received_all = False
        self._ended = False

    async def read(self) -> bytes:
        """The next bytes; none once the peer has ended its direction."""
        piece = await self._pieces.get()
        if piece:
            self._connection.throttle.taken(len(piece))
        else:
            self._pieces.put_nowait(b"")  # the end stays the end
        return piece

    async def pieces(self) -> AsyncIterator[bytes]:
        while piece := await self.read():
            yield piece

    async def write(self, data: bytes) -> None:
        for start in range(0, len(data), _CHUNK):
            if self._ended:
                return
            self._connection.send_data(self.number, data[start : start + _CHUNK], end=False)
            await self._connection.drained()

    def end(self) -> None:
        """Tell the peer that nothing more will be written."""
        if not self._ended:
            self._ended = True
            self._connection.send_data(self.number, b"", end=True)
            self._forget_if_over()

    def reset(self) -> None:
        """Give the stream up in both directions."""
        if not (self._ended and self._received_all):
            self._connection.send_control(Kind.RST_STREAM, struct.pack(">II", self.number, _CANCEL))
            self.over()

    # What the connection calls

    def received(self, data: bytes, *, end: bool) -> None:
        if self._received_all:
            return
        if data:
            self._connection.throttle.arrived(len(data))
            self._pieces.put_nowait(data)
        if end:
            self._received_all = True
            self._pieces.put_nowait(b"")
            self._forget_if_over()

    def over(self) -> None:
        self._ended = True
        self.replied.set()
        self.received(b"", end=True)
        self._forget_if_over()

    def _forget_if_over(self) -> None:
        if self._received_all and self._ended:
            self._connection.forget(self)


class Connection:
    """Either side of a connection. It is fed what arrives and writes to the wire; it knows nothing of sockets."""

    def __init__(
        self,
        *,
        client: bool = False,
        on_stream: Callable[[Stream], None] | None = None,
        on_lost: Callable[[], None] | None = None,
    ) -> None:
        """``on_stream`` is told of the streams that the peer opens; without it they are refused."""
        self.throttle = Throttle()
        self._wire: Wire | None = None
        self._on_stream = on_stream
        self._on_lost = on_lost
        self._streams: dict[int, Stream] = {}
        self._next = 1 if client else 2
        self._last_peer_stream = 0  # the number of the last stream that they opened
        self._unread_answers = 0  # to streams that they opened and did not read about
        self._parity = 0 if client else 1  # of their streams' numbers
        self._compress = zlib.compressobj(zdict=DICTIONARY)
        self._decompress = zlib.decompressobj(zdict=DICTIONARY)
        self._buffer = bytearray()

    # What the connection below calls

    def opened(self, wire: Wire) -> None:
        self._wire = self.throttle.wire = wire

    def received(self, data: bytes) -> None:
        self._buffer += data
        try:
            while self._take_frame():
                pass
        except (ProtocolError, zlib.error, struct.error, UnicodeDecodeError):
            self.close()
            self.lost()

    def lost(self) -> None:
        """The peer is gone: all streams are over."""
        if self._wire is None:
            return
        self._wire = self.throttle.wire = None
        for stream in list(self._streams.values()):
            stream.over()
        if self._on_lost:
            self._on_lost()

    # What the user of the streams calls

    def open_stream(self, headers: Mapping[str, str]) -> Stream:
        number, self._next = self._next, self._next + 2
        stream = self._streams[number] = Stream(self, number, headers)
        self.send_control(Kind.SYN_STREAM, struct.pack(">IIH", number, 0, 0) + self._packed(headers))
        return stream

    def close(self) -> None:
        if self._wire:
            self.send_control(Kind.GOAWAY, struct.pack(">II", self._last_peer_stream, 0))
            self._wire.close()

    async def drained(self) -> None:
        if self._wire:
            await self._wire.drained()

    def send_data(self, number: int, data: bytes, *, end: bool) -> None:
        flags = _FIN if end else 0
        self._write(struct.pack(">II", number, flags << 24 | len(data)) + data)

    def send_control(self, kind: Kind, data: bytes) -> None:
        self._write(struct.pack(">HHI", 0x8000 | _VERSION, kind, len(data)) + data)

    def forget(self, stream: Stream) -> None:
        self._streams.pop(stream.number, None)

    def _write(self, data: bytes) -> None:
        if self._wire and not self._wire.closed:
            self._wire.write(data)

    # Frames

    def _take_frame(self) -> bool:
        buffer = self._buffer
        if len(buffer) < 8:
            return False
        first, second = struct.unpack_from(">II", buffer)
        flags, length = second >> 24, second & 0xFFFFFF
        if length > _MAX_FRAME_BYTES:
            raise ProtocolError(f"a frame of {length} bytes")
        if len(buffer) < 8 + length:
            return False
        body = bytes(buffer[8 : 8 + length])
        del buffer[: 8 + length]
        if not first & 0x80000000:
            if stream := self._streams.get(first):
                stream.received(body, end=bool(flags & _FIN))
        elif first >> 16 != 0x8000 | _VERSION:
            raise ProtocolError(f"version {first >> 16 & 0x7FFF}")
        else:
            self._take_control(first & 0xFFFF, body, end=bool(flags & _FIN))
        return True

    def _take_control(self, kind: int, body: bytes, *, end: bool) -> None:
        match kind:
            case Kind.SYN_STREAM:
                number, _, _ = struct.unpack_from(">IIH", body)
                self._take_stream(number, self._unpacked(body[10:]), end=end)
            case Kind.SYN_REPLY | Kind.HEADERS:
                (number,) = struct.unpack_from(">I", body)
                self._unpacked(body[4:])  # even if the stream is gone, to keep the state of the decompression
                if stream := self._streams.get(number):
                    stream.replied.set()
                    stream.received(b"", end=end)
            case Kind.RST_STREAM:
                number, _ = struct.unpack(">II", body)
                if stream := self._streams.get(number):
                    stream.over()
            case Kind.PING:
                (number,) = struct.unpack(">I", body)
                # Answers for a peer that does not read would gather here without end.
                if number % 2 == self._parity and not (self._wire and self._wire.congested):
                    self.send_control(Kind.PING, body)

    def _take_stream(self, number: int, headers: Mapping[str, str], *, end: bool) -> None:
        if number % 2 != self._parity or number <= self._last_peer_stream:
            raise ProtocolError(f"stream {number} after {self._last_peer_stream}")
        if len(self._streams) >= _MAX_STREAMS:
            raise ProtocolError("too many streams")
        self._last_peer_stream = number
        self._unread_answers = self._unread_answers + 1 if self._wire and self._wire.congested else 0
        if self._unread_answers > _MAX_STREAMS:
            raise ProtocolError("streams are opened, but answers are not read")
        if self._on_stream is None:
            self.send_control(Kind.RST_STREAM, struct.pack(">II", number, _CANCEL))
            return
        stream = self._streams[number] = Stream(self, number, headers)
        self.send_control(Kind.SYN_REPLY, struct.pack(">I", number) + self._packed({}))
        stream.replied.set()
        stream.received(b"", end=end)
        self._on_stream(stream)

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        plain = struct.pack(">I", len(headers))
        for text in (t.encode() for name, value in headers.items() for t in (name.lower(), value)):
            plain += struct.pack(">I", len(text)) + text
        return self._compress.compress(plain) + self._compress.flush(zlib.Z_SYNC_FLUSH)

    def _unpacked(self, data: bytes) -> dict[str, str]:
        plain = self._decompress.decompress(data, _MAX_HEADER_BYTES)
        if len(plain) == _MAX_HEADER_BYTES:
            raise ProtocolError("headers are too large")
        (pairs,), at = struct.unpack_from(">I", plain), 4
        texts = []
        for _ in range(2 * min(pairs, len(plain))):
            (length,) = struct.unpack_from(">I", plain, at)
            texts.append(plain[at + 4 : at + 4 + length].decode())
            at += 4 + length
        return dict(zip(texts[::2], texts[1::2], strict=True))
