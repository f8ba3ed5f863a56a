"""Watches and logs over WebSocket: what would be a streamed body is sent in messages."""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable
from typing import Final

from dray.wire import websocket
from dray.wire.duplex import Sink, Stream, Wire
from dray.wire.errors import WireError
from dray.wire.messages import Headers

#: Of logs; without one, and with the first, messages are binary.
_BINARY: Final = "binary.k8s.io"
_BASE64: Final = "base64.binary.k8s.io"

log = logging.getLogger(__name__)

Frame = Callable[[bytes], bytes]


def is_requested(headers: Headers) -> bool:
    """Whether a request asks to go on as a WebSocket."""
    if "upgrade" not in headers:
        return False
    connection = ",".join(headers.all("connection")).lower()
    return headers.get("upgrade").lower() == "websocket" and "upgrade" in connection


def text_frame(data: bytes) -> bytes:
    return websocket.frame(websocket.TEXT, data)


def binary_frame(data: bytes) -> bytes:
    return websocket.frame(websocket.BINARY, data)


def _base64_frame(data: bytes) -> bytes:
    return websocket.frame(websocket.TEXT, base64.b64encode(data))


def accept(headers: Headers, *, choose: bool = False) -> tuple[tuple[tuple[str, str], ...], Frame]:
    """The headers of the answer, and how a piece of a log becomes a message.

    ``choose`` among the subprotocols of logs. Watches have none: the only one that a client offers is accepted.
    """
    listed = (part.strip() for value in headers.all("sec-websocket-protocol") for part in value.split(","))
    offered = [name for name in listed if name]
    chosen = offered[0] if len(offered) == 1 else ""
    if choose:
        chosen = next((name for name in offered if name in (_BINARY, _BASE64)), "")
    answer = websocket.accept_headers(headers.get("sec-websocket-key"), chosen)
    return answer, _base64_frame if chosen == _BASE64 else binary_frame


class WebSocketStream:
    """A streamed body as messages, to the end of either. ``frame`` makes a message of each piece; None: it is one."""

    def __init__(self, stream: Stream, frame: Frame | None = None) -> None:
        self._stream = stream
        self._frame = frame
        self._wire: Wire | None = None
        self._frames = websocket.FrameReader()
        self._task: asyncio.Task[None] | None = None

    def opened(self, wire: Wire) -> None:
        self._wire = wire
        self._task = asyncio.get_running_loop().create_task(self._run(wire), name="websocket stream")

    def received(self, data: bytes) -> None:
        wire = self._wire
        assert wire is not None
        try:
            messages = self._frames.feed(data)
        except WireError:
            self._hang_up()
            return
        for opcode, message in messages:
            if opcode == websocket.PING:
                websocket.answer_ping(wire, message)
            elif opcode == websocket.CLOSE:
                if not wire.closed:
                    wire.write(websocket.frame(websocket.CLOSE, message[:2]))
                self._hang_up()
                return

    def lost(self) -> None:
        self._stream.close()
        if self._task is not None:
            self._task.cancel()

    async def _run(self, wire: Wire) -> None:
        try:
            await self._stream.run(wire if self._frame is None else _FramingSink(wire, self._frame))
        except Exception:  # without this the client would wait for messages that never come
            log.exception("a stream failed")
            wire.close()
            return
        if not wire.closed:
            wire.write(websocket.frame(websocket.CLOSE, websocket.NORMAL))
            await wire.drained()
        wire.close()

    def _hang_up(self) -> None:
        self.lost()
        if self._wire is not None:
            self._wire.close()


class _FramingSink:
    """A sink each of whose writes is a message."""

    def __init__(self, sink: Sink, frame: Frame) -> None:
        self._sink = sink
        self._frame = frame

    @property
    def congested(self) -> bool:
        return self._sink.congested

    @property
    def closed(self) -> bool:
        return self._sink.closed

    def write(self, data: bytes) -> None:
        if data:
            self._sink.write(self._frame(data))

    async def drained(self) -> None:
        await self._sink.drained()
