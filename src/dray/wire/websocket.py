"""WebSockets (RFC 6455) at both ends: handshake, frames, a client's messages, and another protocol carried in messages."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections import deque
from collections.abc import Sequence
from typing import Final

from dray.wire.client_connection import ClientConnection, Head
from dray.wire.duplex import Duplex, Sink, Wire
from dray.wire.errors import ProtocolError, TooLarge, WireError

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL: Final = struct.pack(">H", 1000)
#: What a client may send in one message, and what a server may.
CLIENT_MESSAGE_BYTES: Final = 1 << 20
SERVER_MESSAGE_BYTES: Final = 32 << 20
_CONTROL_BYTES: Final = 125
_ACCEPT: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"


def client_handshake(subprotocols: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """The headers of an upgrade request, and the ``Sec-WebSocket-Accept`` that a WebSocket server answers with."""
    key = base64.b64encode(os.urandom(16)).decode()
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key),
        ("Sec-WebSocket-Protocol", ", ".join(subprotocols)),
    ]
    return headers, _accept(key)


def accept_headers(key: str, protocol: str) -> tuple[tuple[str, str], ...]:
    """The headers of the answer to a handshake; a client that offered no subprotocol is not answered with one."""
    chosen = (("Sec-WebSocket-Protocol", protocol),) if protocol else ()
    return (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", _accept(key)),
        *chosen,
    )


def _accept(key: str) -> str:
    return base64.b64encode(hashlib.sha1(key.encode() + _ACCEPT).digest()).decode()


def frame(opcode: int, data: bytes, *, masked: bool = False) -> bytes:
    """One whole message. Clients must mask theirs, servers must not."""
    mark, length = 0x80 if masked else 0, len(data)
    if length < 126:
        head = struct.pack(">BB", 0x80 | opcode, mark | length)
    elif length < 65536:
        head = struct.pack(">BBH", 0x80 | opcode, mark | 126, length)
    else:
        head = struct.pack(">BBQ", 0x80 | opcode, mark | 127, length)
    if not masked:
        return head + data
    mask = os.urandom(4)
    return head + mask + _mask(data, mask)


def answer_ping(sink: Sink, message: bytes) -> None:
    """Answer a ping, unless the peer does not read: its answers would gather here without end. The peer learns that the
    connection is alive from what it has not read yet."""
    if not sink.congested and not sink.closed:
        sink.write(frame(PONG, message))


def _mask(data: bytes, mask: bytes) -> bytes:
    # One big exclusive-or is far quicker than one for each byte.
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(data), "big")


class FrameReader:
    """Messages out of the peer's bytes. WireError if the peer breaks the rules."""

    def __init__(self, *, expects_masked: bool = True, limit: int = CLIENT_MESSAGE_BYTES) -> None:
        """The defaults are for a server, which reads what a client sent."""
        self._expects_masked = expects_masked
        self._limit = limit
        self._buffer = bytearray()
        self._message = bytearray()
        self._kind = 0

    def feed(self, data: bytes) -> list[tuple[int, bytes]]:
        self._buffer += data
        out = []
        while (parsed := self._next()) is not None:
            final, opcode, payload = parsed
            if opcode >= CLOSE:
                out.append((opcode, payload))
                continue
            self._kind = opcode or self._kind
            self._message += payload
            if len(self._message) > self._limit:
                raise TooLarge("message too large")
            if final:
                out.append((self._kind, bytes(self._message)))
                self._message.clear()
        return out

    def _next(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        masked, length, position = bool(buffer[1] & 0x80), buffer[1] & 0x7F, 2
        if self._expects_masked and not masked:
            raise ProtocolError("clients must mask their frames")
        for marker, form, size in ((126, ">H", 2), (127, ">Q", 8)):
            if buffer[1] & 0x7F == marker:
                if len(buffer) < 2 + size:
                    return None
                (length,) = struct.unpack_from(form, buffer, 2)
                position += size
        if buffer[0] & 0x0F >= CLOSE and length > _CONTROL_BYTES:
            raise ProtocolError("control frames are small")
        if length > self._limit:
            raise TooLarge("frame too large")
        start = position + 4 if masked else position
        if len(buffer) < start + length:
            return None
        payload = bytes(buffer[start : start + length])
        if masked:
            payload = _mask(payload, bytes(buffer[position:start]))
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[: start + length]
        return final, opcode, payload


class ClientWebSocket:
    """A client's messages over a connection that the server has upgraded."""

    def __init__(self, connection: ClientConnection, head: Head, *, expected: str) -> None:
        if head.headers.get("sec-websocket-accept") != expected:
            raise ProtocolError("the server upgraded to something that is no WebSocket")
        self._connection = connection
        self._frames = FrameReader(expects_masked=False, limit=SERVER_MESSAGE_BYTES)
        self._messages: deque[tuple[int, bytes]] = deque()
        self._subprotocol = head.headers.get("sec-websocket-protocol", "")

    @property
    def subprotocol(self) -> str:
        return self._subprotocol

    async def send(self, message: bytes) -> None:
        self._write(BINARY, message)
        await self._connection.drain()

    async def receive(self) -> bytes | None:
        """The next message; None once the server has closed, or is gone."""
        while True:
            while not self._messages:
                if not await self._read():
                    return None
            opcode, payload = self._messages.popleft()
            if opcode == PING:
                if not self._connection.congested:
                    self._write(PONG, payload)
            elif opcode == CLOSE:
                self._write(CLOSE, payload[:2])
                return None
            elif opcode in (TEXT, BINARY):
                return payload

    def close(self) -> None:
        if not self._connection.closed:
            self._write(CLOSE, NORMAL)

    async def _read(self) -> bool:
        try:
            data = await self._connection.read()
        except WireError:
            return False
        if data is None:
            return False
        try:
            self._messages += self._frames.feed(data)
        except TooLarge:
            raise TooLarge("the server sent a message beyond all bounds") from None
        return True

    def _write(self, opcode: int, data: bytes) -> None:
        self._connection.write(frame(opcode, data, masked=True))


class Tunnel:
    """Another protocol's bytes, carried in binary messages."""

    def __init__(self, inner: Duplex) -> None:
        self._inner = inner
        self._frames = FrameReader()
        self._wire: Wire | None = None

    def opened(self, wire: Wire) -> None:
        self._wire = wire
        self._inner.opened(self)

    def received(self, data: bytes) -> None:
        try:
            messages = self._frames.feed(data)
        except WireError:
            self.close()
            return
        for opcode, message in messages:
            if opcode == BINARY:
                self._inner.received(message)
            elif opcode == PING and self._wire:
                answer_ping(self._wire, message)
            elif opcode == CLOSE:
                self.close()

    def lost(self) -> None:
        self._wire = None
        self._inner.lost()

    # The wire of the inner protocol

    @property
    def congested(self) -> bool:
        return self._wire is not None and self._wire.congested

    @property
    def closed(self) -> bool:
        return self._wire is None or self._wire.closed

    def write(self, data: bytes) -> None:
        if self._wire:
            self._wire.write(frame(BINARY, data))

    async def drained(self) -> None:
        if self._wire:
            await self._wire.drained()

    def close(self) -> None:
        if self._wire and not self._wire.closed:
            self._wire.write(frame(CLOSE, NORMAL))
            self._wire.close()

    def pause(self) -> None:
        if self._wire:
            self._wire.pause()

    def resume(self) -> None:
        if self._wire:
            self._wire.resume()
