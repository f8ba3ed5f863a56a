"""One HTTP/1.1 connection of a client: a request goes out, an answer comes in, piece by piece, until it leaves HTTP."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple, cast

import httptools

from dray.wire.duplex import Duplex
from dray.wire.errors import ConnectionLost, ProtocolError, WireError

#: Bytes received and not yet read, above which the server is made to wait.
HIGH_WATER: Final = 4 * 2**20
#: What a piece takes beside its bytes: a server may send a body byte by byte.
_PIECE_BYTES: Final = 64
#: Bytes of headers, trailers and the like that an answer may have in a row.
MAX_HEAD_BYTES: Final = 256 * 2**10


class Head(NamedTuple):
    status: int
    headers: dict[str, str]  # names in lower case; values of a repeated header are joined by commas


class ClientConnection(asyncio.Protocol):
    """A connection carries one exchange at a time: ``send``, ``head``, then ``read`` until it gives None.

    Once an answer's status is 101 the connection has left HTTP: its user either goes on with ``read`` and ``write``, or
    hands it to a duplex with ``switch``, to which it is the ``Wire``.
    """

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._repeated: dict[str, list[str]] = {}
        self._head: Head | None = None
        self._pieces: deque[bytes] = deque()
        self._high_water = HIGH_WATER
        self._size = 0
        self._head_bytes = 0  # received since the parser told of a head, a piece of a body or an end
        self._complete = False
        self._keep_alive = False
        self._upgraded = False
        self._duplex: Duplex | None = None
        self._error: WireError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._drained: asyncio.Event = asyncio.Event()
        self._drained.set()
        self.on_idle_close: Callable[[ClientConnection], None] | None = None

    # What the user of the connection calls

    def send(self, data: bytes) -> None:
        """Begin an exchange."""
        if self._error is not None:
            raise self._error
        self._parser = httptools.HttpResponseParser(self)
        self._headers, self._head, self._complete, self._head_bytes = {}, None, False, 0
        self.write(data)

    async def head(self) -> Head:
        while self._head is None:
            if self._error is not None:
                raise self._error
            await self._wait()
        return self._head

    async def read(self) -> bytes | None:
        """The next piece of the body (or of what follows an upgrade); None at its end."""
        while not self._pieces:
            if self._complete:
                return None
            if self._error is not None:
                raise self._error
            await self._wait()
        # Everything that has arrived is returned in one piece: a reader that was away has less to do then.
        data = self._pieces.popleft() if len(self._pieces) == 1 else b"".join(self._pieces)
        self._pieces.clear()
        self._size = 0
        self.resume()
        return data

    def reusable(self) -> bool:
        """Whether the answer ended in a way that leaves the connection good for the next request."""
        read_to_the_end = self._complete and not self._pieces and not self._upgraded
        return not self.closed and read_to_the_end and self._keep_alive

    def switch(self, duplex: Duplex) -> None:
        """Leave HTTP: the duplex is given what has arrived already, and everything that arrives from now on."""
        self._duplex = duplex
        duplex.opened(self)
        if self._pieces:
            data = b"".join(self._pieces)
            self._pieces.clear()
            self._size = 0
            self.resume()
            duplex.received(data)
        if self._error is not None:
            duplex.lost()

    # What makes it a wire

    @property
    def congested(self) -> bool:
        return not self._drained.is_set()

    @property
    def closed(self) -> bool:
        """Whether either side has hung up."""
        return self._error is not None or self._transport is None or self._transport.is_closing()

    @property
    def peer_certificate(self) -> bytes | None:
        """The server's certificate (DER), verified or not; None without TLS."""
        found = self._transport.get_extra_info("ssl_object") if self._transport is not None else None
        return found.getpeercert(binary_form=True) if found is not None else None

    def write(self, data: bytes) -> None:
        if self._error is None and self._transport is not None:
            self._transport.write(data)

    async def drained(self) -> None:
        await self._drained.wait()

    async def drain(self) -> None:
        """Wait while the server is slow; raises the error if the connection is lost."""
        await self._drained.wait()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        if self._head is not None and not self._complete and not self._upgraded:
            self.abort()  # to say goodbye in TLS, one would have to read the rest of an answer that may be endless
        elif self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Close without waiting for a peer that may never answer again."""
        if self._transport is not None:
            self._transport.abort()

    def hold_at_most(self, size: int) -> None:
        """Let the server wait when so much of an answer has not been read. For servers that may send without end."""
        self._high_water = size
        raw = self._transport.get_extra_info("socket") if self._transport is not None else None
        if raw is not None:
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def pause(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    async def _wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        try:
            await self._waiter
        finally:
            self._waiter = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _fail(self, error: WireError) -> None:
        if self._error is None:
            self._error = error
        self._drained.set()
        self._wake()

    # What the event loop calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        raw = transport.get_extra_info("socket")
        if raw is not None and raw.family != socket.AF_UNIX:
            raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # A watch can be silent for minutes: let the kernel find out whether the server is still there.
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for option, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3)):
                if hasattr(socket, option):
                    raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)

    def connection_lost(self, error: Exception | None) -> None:
        if not self._complete and self._head is not None and not self._upgraded and error is None:
            # A body without a length ends with the connection.
            length = self._headers.get("content-length") or self._headers.get("transfer-encoding")
            if length is None:
                self._complete = True
        lost = f"the connection was lost: {error}" if error else "the server closed the connection"
        self._fail(ConnectionLost(lost, error))
        if self._duplex is not None:
            self._duplex.lost()
        if self.on_idle_close is not None:
            self.on_idle_close(self)

    def pause_writing(self) -> None:
        self._drained.clear()

    def resume_writing(self) -> None:
        self._drained.set()

    def data_received(self, data: bytes) -> None:
        if self._upgraded:
            if self._duplex is not None:
                self._duplex.received(data)
            else:
                self.on_body(data)
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded, self._complete = True, False
            if rest := data[upgrade.args[0] :]:
                self.on_body(rest)
        except httptools.HttpParserError as error:
            self._fail(ProtocolError(f"the server does not speak HTTP: {error}", error))
            self.close()
        if self._head_bytes > MAX_HEAD_BYTES:
            self._fail(ProtocolError(f"the headers of the answer are larger than {MAX_HEAD_BYTES} bytes"))
            self.abort()

    # What the parser calls

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._head is not None:
            return  # trailers are no headers
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        if key in self._headers:
            self._repeated.setdefault(key, [self._headers[key]]).append(text)
        else:
            self._headers[key] = text

    def on_headers_complete(self) -> None:
        self._head_bytes = 0
        for key, values in self._repeated.items():
            self._headers[key] = ", ".join(values)
        self._repeated = {}
        status = self._parser.get_status_code()
        if status >= 200 or status == 101:
            self._head = Head(status, self._headers)
            self._wake()
        else:
            self._headers = {}

    def on_body(self, data: bytes) -> None:
        self._head_bytes = 0
        self._pieces.append(data)
        self._size += len(data) + _PIECE_BYTES
        if self._size > self._high_water and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        if self._head is not None:
            self._complete = True
            self._keep_alive = self._parser.should_keep_alive()  # later on the parser has forgotten
            self._wake()
