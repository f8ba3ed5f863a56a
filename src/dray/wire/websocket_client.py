"""The client's side of a WebSocket (RFC 6455): enough for exec, attach and port-forward."""

from __future__ import annotations

import base64
import hashlib
import os
import struct
from collections.abc import Sequence
from typing import Final

from dray.client.transport import Unreachable
from dray.wire.client_connection import ClientConnection, Head

_ACCEPT_SUFFIX: Final = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
MAX_MESSAGE_BYTES: Final = 32 * 2**20


def client_handshake(subprotocols: Sequence[str]) -> tuple[list[tuple[str, str]], str]:
    """The headers of an upgrade request, and the answer that a WebSocket server gives to them."""
    key = base64.b64encode(os.urandom(16))
    expected = base64.b64encode(hashlib.sha1(key + _ACCEPT_SUFFIX).digest()).decode()
    headers = [
        ("Connection", "Upgrade"),
        ("Upgrade", "websocket"),
        ("Sec-WebSocket-Version", "13"),
        ("Sec-WebSocket-Key", key.decode()),
        ("Sec-WebSocket-Protocol", ", ".join(subprotocols)),
    ]
    return headers, expected


class ClientWebSocket:
    """Messages over a connection that has been upgraded."""

    def __init__(self, connection: ClientConnection, head: Head, *, expected: str) -> None:
        if head.headers.get("sec-websocket-accept") != expected:
            raise Unreachable("the server upgraded to something that is no WebSocket")
        self._connection = connection
        self._buffer = bytearray()
        self._subprotocol = head.headers.get("sec-websocket-protocol", "")

    @property
    def subprotocol(self) -> str:
        return self._subprotocol

    async def send(self, message: bytes) -> None:
        self._connection.write(frame(_BINARY, message))
        await self._connection.drain()

    async def receive(self) -> bytes | None:
        message = bytearray()
        while True:
            received = await self._frame()
            if received is None:
                return None
            final, opcode, payload = received
            if opcode == _PING:
                self._connection.write(frame(_PONG, payload))
            elif opcode == _CLOSE:
                self._connection.write(frame(_CLOSE, payload[:2]))
                return None
            elif opcode in (_CONTINUATION, _TEXT, _BINARY):
                message += payload
                if len(message) > MAX_MESSAGE_BYTES:
                    raise Unreachable("the server sent a message beyond all bounds")
                if final:
                    return bytes(message)

    def close(self) -> None:
        if self._connection.usable:
            self._connection.write(frame(_CLOSE, struct.pack(">H", 1000)))

    async def _frame(self) -> tuple[bool, int, bytes] | None:
        header = await self._take(2)
        if header is None:
            return None
        final, opcode, length = bool(header[0] & 0x80), header[0] & 0x0F, header[1] & 0x7F
        if length >= 126:
            size = 2 if length == 126 else 8
            extended = await self._take(size)
            if extended is None:
                return None
            length = int.from_bytes(extended, "big")
        if length > MAX_MESSAGE_BYTES:
            raise Unreachable("the server sent a message beyond all bounds")
        mask = await self._take(4) if header[1] & 0x80 else b""
        payload = await self._take(length)
        if mask is None or payload is None:
            return None
        return final, opcode, _mask(payload, mask) if mask else payload

    async def _take(self, count: int) -> bytes | None:
        """Exactly ``count`` bytes; None when the server is gone."""
        while len(self._buffer) < count:
            try:
                data = await self._connection.read()
            except Unreachable:
                data = None
            if data is None:
                return None
            self._buffer += data
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def frame(opcode: int, payload: bytes) -> bytes:
    """One whole message from a client, masked as the protocol demands."""
    length = len(payload)
    if length < 126:
        header = struct.pack(">BB", 0x80 | opcode, 0x80 | length)
    elif length < 2**16:
        header = struct.pack(">BBH", 0x80 | opcode, 0x80 | 126, length)
    else:
        header = struct.pack(">BBQ", 0x80 | opcode, 0x80 | 127, length)
    mask = os.urandom(4)
    return header + mask + _mask(payload, mask)


def _mask(payload: bytes, mask: bytes) -> bytes:
    if not payload:
        return b""
    # One big exclusive-or is far quicker than one for each byte.
    repeated = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload, "big") ^ int.from_bytes(repeated, "big")).to_bytes(len(payload), "big")
