"""A session over a WebSocket, in Kubernetes' channel protocol: the first byte of a message says what it is.

``accept`` answers the handshake; ``ChannelConnection`` is then fed the bytes that arrive and writes those that go out.
It knows nothing of sockets, so any HTTP server that can hand over an upgraded connection can use it.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
import struct
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from dray.api.errors import BadRequest, StatusError
from dray.runtimes.interface import Session

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_ACCEPT = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE_CHANNEL = 0, 1, 2, 3, 4, 255
_CONTINUATION, _TEXT, _BINARY, _CLOSE, _PING, _PONG = 0, 1, 2, 8, 9, 10
#: What a client may send in one message.
_LARGEST = 1 << 20


class Sink(Protocol):
    """Where bytes for the peer go."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...


def accept(header: Callable[[str], str]) -> tuple[str, tuple[tuple[str, str], ...]]:
    """The protocol chosen and the headers of the 101 answer. ``header`` looks up a request header by lower-case name."""
    if header("upgrade").lower() != "websocket":
        raise BadRequest("Upgrade request required")
    offered = [p.strip() for p in header("sec-websocket-protocol").split(",")]
    protocol = next((p for p in PROTOCOLS if p in offered), "")
    if not protocol:
        raise BadRequest(f"none of the protocols {', '.join(offered)} is supported: {', '.join(PROTOCOLS)}")
    key = hashlib.sha1(header("sec-websocket-key").encode() + _ACCEPT).digest()
    return protocol, (
        ("Upgrade", "websocket"),
        ("Connection", "Upgrade"),
        ("Sec-WebSocket-Accept", base64.b64encode(key).decode()),
        ("Sec-WebSocket-Protocol", protocol),
    )


class ChannelConnection:
    """One session for one client. ``start`` opens the session; its failure is told on the error channel."""

    def __init__(self, start: Callable[[], Awaitable[Session]]) -> None:
        self._start = start
        self._sink: Sink | None = None
        self._frames = FrameReader()
        self._input: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    # What the server tells

    def opened(self, sink: Sink) -> None:
        self._sink = sink
        self._task = asyncio.get_running_loop().create_task(self._run(), name="session")

    def received(self, data: bytes) -> None:
        try:
            for opcode, message in self._frames.feed(data):
                self._take(opcode, message)
        except ValueError:
            self.lost()

    def lost(self) -> None:
        """The client is gone."""
        if self._task:
            self._task.cancel()

    async def finished(self) -> None:
        """Waits for the end of the session."""
        if self._task:
            await asyncio.wait([self._task])

    # The session

    async def _run(self) -> None:
        try:
            session = await self._start()
        except StatusError as e:
            self._finish(e.status())
            return
        feeding = asyncio.create_task(self._feed(session))
        try:
            async for piece in session.output():
                channel = _STDERR if piece.stream == "stderr" else _STDOUT
                self._send(_BINARY, bytes([channel]) + piece.data)
                if self._sink:
                    await self._sink.drained()
            self._finish(outcome(await session.wait()))
        finally:
            feeding.cancel()
            await asyncio.gather(feeding, return_exceptions=True)
            await session.close()

    async def _feed(self, session: Session) -> None:
        while True:
            kind, value = await self._input.get()
            if kind == "data":
                await session.write(value)
            elif kind == "end":
                await session.close_input()
            elif kind == "size":
                await session.resize(rows=value[0], columns=value[1])

    def _take(self, opcode: int, message: bytes) -> None:
        if opcode == _PING:
            self._send(_PONG, message)
        elif opcode == _CLOSE:
            self._send(_CLOSE, message[:2])
            self.lost()
        elif opcode in (_BINARY, _TEXT) and message:
            channel, data = message[0], message[1:]
            if channel == _STDIN and data:
                self._input.put_nowait(("data", data))
            elif channel == _CLOSE_CHANNEL and data[:1] == bytes([_STDIN]):
                self._input.put_nowait(("end", None))
            elif channel == _RESIZE:
                with contextlib.suppress(ValueError, KeyError, TypeError):
                    size = json.loads(data)
                    self._input.put_nowait(("size", (int(size["Height"]), int(size["Width"]))))

    def _finish(self, status: dict[str, Any]) -> None:
        self._send(_BINARY, bytes([_ERROR]) + json.dumps(status).encode())
        self._send(_CLOSE, struct.pack(">H", 1000))

    def _send(self, opcode: int, data: bytes) -> None:
        if self._sink and not self._sink.closed:
            self._sink.write(frame(opcode, data))


def outcome(code: int) -> dict[str, Any]:
    """How a command ended, as a Status."""
    if code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


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
            if opcode >= _CLOSE:
                out.append((opcode, payload))
                continue
            self._kind = opcode or self._kind
            self._message += payload
            if len(self._message) > _LARGEST:
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
        if length > _LARGEST:
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
