"""A session over a WebSocket, in Kubernetes' channel protocol: the first byte of a message says what it is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterable

from dray.node.streaming.channels import Channels
from dray.node.streaming.remotecommand import Start, TerminalSize, parse_terminal_size, run_session
from dray.wire import websocket
from dray.wire.duplex import Throttle, Wire
from dray.wire.errors import WireError

#: Newest first. The last ones, and a client that names none, say how a session ended only when it failed, in words.
PROTOCOLS = (
    "v5.channel.k8s.io",
    "v4.channel.k8s.io",
    "v4.base64.channel.k8s.io",
    "channel.k8s.io",
    "base64.channel.k8s.io",
)
#: Seconds that a client has for hanging up after the end of its session.
_CLOSE_TIMEOUT = 10.0
_OUTPUTS = {1: "stdout", 2: "stderr"}
_STDIN, _STDOUT, _STDERR, _ERROR, _RESIZE, _CLOSE_CHANNEL = 0, 1, 2, 3, 4, 255


class WebSocketCommand:
    """One session for one client. ``start`` opens the session; its failure is told on the error channel."""

    def __init__(
        self, start: Start, *, protocol: str = PROTOCOLS[0], streams: Iterable[str] | None = None
    ) -> None:
        """``streams``: those that the client asked for; None if it need not be told that the session is open."""
        self._start = start
        self._channels = Channels("base64" in protocol)
        self._tells_status = protocol.startswith("v")
        self._streams = None if streams is None else frozenset(streams)
        self._wire: Wire | None = None
        self._frames = websocket.FrameReader()
        self._throttle = Throttle()
        self._input: asyncio.Queue[bytes] = asyncio.Queue()
        self._sizes: asyncio.Queue[TerminalSize] = asyncio.Queue()
        self._task: asyncio.Task[None] | None = None

    # What the server tells

    def opened(self, wire: Wire) -> None:
        self._wire = self._throttle.wire = wire
        if self._streams is not None:
            # An empty message on the first channel that is written shows the client that the session is open.
            first = next((n for n, name in _OUTPUTS.items() if name in self._streams), _ERROR)
            self._send_on(first, b"")
        self._task = asyncio.get_running_loop().create_task(self._run(), name="session")

    def received(self, data: bytes) -> None:
        try:
            for opcode, message in self._frames.feed(data):
                self._handle_message(opcode, message)
        except WireError:
            self._hang_up()

    def lost(self) -> None:
        """The client is gone."""
        if self._task:
            self._task.cancel()

    # The session

    async def _run(self) -> None:
        status = await run_session(
            self._start, stdin=self._stdin(), sizes=self._resizes(), send_output=self._send_output
        )
        if self._tells_status:
            self._send_on(_ERROR, json.dumps(status).encode())
        elif status.get("status") != "Success":
            self._send_on(_ERROR, status.get("message", "").encode())
        self._send(websocket.CLOSE, websocket.NORMAL)
        # The client answers with a CLOSE frame or hangs up; hanging up first could cost it what it has not read yet.
        await asyncio.sleep(_CLOSE_TIMEOUT)
        self._hang_up()

    async def _stdin(self) -> AsyncIterator[bytes]:
        while data := await self._input.get():
            self._throttle.taken(len(data))
            yield data

    async def _resizes(self) -> AsyncIterator[TerminalSize]:
        while True:
            yield await self._sizes.get()

    async def _send_output(self, stream: str, data: bytes) -> None:
        channel = _STDERR if stream == "stderr" else _STDOUT
        self._send_on(channel, data)
        if self._wire:
            await self._wire.drained()

    def _handle_message(self, opcode: int, message: bytes) -> None:
        if opcode == websocket.PING and self._wire:
            websocket.answer_ping(self._wire, message)
        elif opcode == websocket.CLOSE:
            self._send(websocket.CLOSE, message[:2])
            self._hang_up()
        elif opcode in (websocket.BINARY, websocket.TEXT) and message:
            if (decoded := self._channels.decode(message)) is None:
                self._hang_up()
                return
            channel, data = decoded
            if channel == _STDIN and data:
                self._throttle.arrived(len(data))
                self._input.put_nowait(data)
            elif channel == _CLOSE_CHANNEL and data[:1] == bytes([_STDIN]):
                self._input.put_nowait(b"")
            elif channel == _RESIZE and (size := parse_terminal_size(data)):
                while not self._sizes.empty():
                    self._sizes.get_nowait()  # only the latest counts
                self._sizes.put_nowait(size)

    def _send_on(self, channel: int, data: bytes) -> None:
        if self._wire and not self._wire.closed:
            self._wire.write(self._channels.encode(channel, data))

    def _send(self, opcode: int, data: bytes) -> None:
        if self._wire and not self._wire.closed:
            self._wire.write(websocket.frame(opcode, data))

    def _hang_up(self) -> None:
        self.lost()
        if self._wire:
            self._wire.close()
