"""WebSocket frames: those of clients are read, those of servers written; and SPDY carried in them."""

from __future__ import annotations

import base64
import hashlib
import struct

from dray.wire.duplex import Duplex, Wire

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
NORMAL = struct.pack(">H", 1000)
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
#: What a client may send in one message.
_MAX_MESSAGE_BYTES = 1 << 20


def accept_headers(key: str, protocol: str) -> tuple[tuple[str, str], ...]:
    """The headers of the answer to a handshake."""
    digest = hashlib.sha1(key.encode() + _ACCEPT).digest()
    return (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(digest).decode()),
        ("Sec-WebSocket-Protocol", protocol),
    )


def frame(opcode: int, data: bytes) -> bytes:
    """A frame from server to client."""
    if len(data) < 126:
        return struct.pack(">BB", 0x80 | opcode, len(data)) + data
    if len(data) < 65536:
        return struct.pack(">BBH", 0x80 | opcode, 126, len(data)) + data
    return struct.pack(">BBQ", 0x80 | opcode, 127, len(data)) + data


class FrameReader:
    """Messages out of a client's bytes. ValueError if the client breaks the rules."""

    def __init__(self) -> None:
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
            if len(self._message) > _MAX_MESSAGE_BYTES:
                raise ValueError("message too large")
            if final:
                out.append((self._kind, bytes(self._message)))
                self._message.clear()
        return out

    def _next(self) -> tuple[bool, int, bytes] | None:
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        length, position = buffer[1] & 0x7F, 2
        if not buffer[1] & 0x80:
            raise ValueError("clients must mask their frames")
        for marker, form, size in ((126, ">H", 2), (127, ">Q", 8)):
            if buffer[1] & 0x7F == marker:
                if len(buffer) < 2 + size:
                    return None
                (length,) = struct.unpack_from(form, buffer, 2)
                position += size
        if length > _MAX_MESSAGE_BYTES:
            raise ValueError("frame too large")
        if len(buffer) < position + 4 + length:
            return None
        mask = bytes(buffer[position : position + 4])
        masked = bytes(buffer[position + 4 : position + 4 + length])
        final, opcode = bool(buffer[0] & 0x80), buffer[0] & 0x0F
        del buffer[: position + 4 + length]
        stream = (mask * (length // 4 + 1))[:length]
        payload = (int.from_bytes(masked, "big") ^ int.from_bytes(stream, "big")).to_bytes(length, "big")
        return final, opcode, payload


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
        except ValueError:
            self.close()
            return
        for opcode, message in messages:
            if opcode == BINARY:
                self._inner.received(message)
            elif opcode == PING and self._wire:
                self._wire.write(frame(PONG, message))
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
