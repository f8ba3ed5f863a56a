"""Forwarded ports: over SPDY a pair of streams for each connection, over a WebSocket a pair of channels for each port."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from dray.api.errors import StatusError
from dray.node.streaming.channels import Channels
from dray.runtimes.interface import PortConnection
from dray.wire import spdy, websocket
from dray.wire.duplex import Throttle, Wire
from dray.wire.errors import WireError
from dray.wire.ports import port_number

PROTOCOL = "portforward.k8s.io"
#: SPDY inside a WebSocket, as kubectl speaks it since 1.31.
TUNNEL = f"{spdy.UPGRADE}+{PROTOCOL}"
#: Seconds that a client has for opening the second stream of a pair.
STREAM_CREATION_TIMEOUT = 30.0

#: Without SPDY: what clients may offer, beside nothing at all.
CHANNEL_PROTOCOLS = ("v4.channel.k8s.io", "v4.base64.channel.k8s.io", PROTOCOL)
_BINARY = Channels()

Connect = Callable[[int], Awaitable[PortConnection]]


async def forward(
    connect: Connect,
    port: int,
    *,
    received: AsyncIterator[bytes],
    send: Callable[[bytes], Awaitable[None]],
) -> str:
    """Carries one connection to its end. Returns what went wrong, if anything did."""
    try:
        target = await connect(port)
    except (StatusError, OSError) as e:
        return str(e)
    outgoing = asyncio.create_task(_copy(received, target))
    try:
        async for data in target.received():
            await send(data)
    except OSError as e:
        return str(e)
    finally:
        outgoing.cancel()
        await asyncio.gather(outgoing, return_exceptions=True)
        await target.close()
    return ""


async def _copy(received: AsyncIterator[bytes], target: PortConnection) -> None:
    async for data in received:
        await target.send(data)
    await target.end()


class SpdyPortForward:
    """Ports of a pod for one client. A connection is a stream for data and one for errors with the same request id."""

    def __init__(self, connect: Connect, *, pod: str, uid: str) -> None:
        self._connect = connect
        self._pod, self._uid = pod, uid
        self._connection = spdy.Connection(on_stream=self._opened_stream, on_lost=self._connection_lost)
        self._halves: dict[str, tuple[spdy.Stream, asyncio.TimerHandle]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def opened(self, wire: Wire) -> None:
        self._connection.opened(wire)

    def received(self, data: bytes) -> None:
        self._connection.received(data)

    def lost(self) -> None:
        self._connection.lost()

    def _connection_lost(self) -> None:
        for _, timer in self._halves.values():
            timer.cancel()
        for task in self._tasks:
            task.cancel()

    def _opened_stream(self, stream: spdy.Stream) -> None:
        kind, port = stream.headers.get("streamtype"), port_number(stream.headers.get("port", ""))
        if kind not in ("error", "data") or port is None:
            stream.reset()
            return
        # Clients of old send no id, but open the two streams one after the other.
        default = str(stream.number if kind == "error" else stream.number - 2)
        request = stream.headers.get("requestid") or default
        if request not in self._halves:
            late = asyncio.get_running_loop().call_later(STREAM_CREATION_TIMEOUT, self._too_late, request)
            self._halves[request] = stream, late
            return
        other, timer = self._halves.pop(request)
        timer.cancel()
        if other.headers.get("streamtype") == kind:
            other.reset()
            stream.reset()
            return
        data, errors = (stream, other) if kind == "data" else (other, stream)
        task = asyncio.get_running_loop().create_task(self._run(port, data, errors), name=f"port {port}")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _too_late(self, request: str) -> None:
        stream, _ = self._halves.pop(request)
        stream.reset()

    async def _run(self, port: int, data: spdy.Stream, errors: spdy.Stream) -> None:
        problem = await forward(self._connect, port, received=data.pieces(), send=data.write)
        if problem:
            text = f"error forwarding port {port} to pod {self._pod}, uid {self._uid}: {problem}"
            await errors.write(text.encode())
            errors.end()
            data.reset()
        data.end()
        errors.end()


class WebSocketPortForward:
    """Ports of a pod over a WebSocket without SPDY: for the n-th port, channel 2n carries data and 2n+1 errors."""

    def __init__(
        self,
        connect: Connect,
        *,
        ports: Sequence[int],
        pod: str,
        uid: str,
        channels: Channels = _BINARY,
    ) -> None:
        self._connect = connect
        self._channels = channels
        self._ports = ports
        self._pod, self._uid = pod, uid
        self._wire: Wire | None = None
        self._frames = websocket.FrameReader()
        self._throttle = Throttle()
        self._inputs: list[asyncio.Queue[bytes]] = [asyncio.Queue() for _ in ports]
        self._task: asyncio.Task[None] | None = None

    def opened(self, wire: Wire) -> None:
        self._wire = self._throttle.wire = wire
        for number, port in enumerate(self._ports):
            for channel in (2 * number, 2 * number + 1):  # each begins with the port it is about
                self._send(channel, struct.pack("<H", port))
        self._task = asyncio.get_running_loop().create_task(self._run(), name="ports")

    def received(self, data: bytes) -> None:
        try:
            messages = self._frames.feed(data)
        except WireError:
            self._hang_up()
            return
        for opcode, message in messages:
            if opcode == websocket.PING and self._wire:
                websocket.answer_ping(self._wire, message)
            elif opcode == websocket.CLOSE:
                self._hang_up()
            elif message and opcode in (websocket.BINARY, websocket.TEXT):
                if (decoded := self._channels.decode(message)) is None:
                    self._hang_up()
                    return
                channel, content = decoded
                if content and channel % 2 == 0 and channel // 2 < len(self._inputs):
                    self._throttle.arrived(len(content))
                    self._inputs[channel // 2].put_nowait(content)

    def lost(self) -> None:
        if self._task:
            self._task.cancel()

    async def _run(self) -> None:
        await asyncio.gather(*(self._port(number, port) for number, port in enumerate(self._ports)))
        if self._wire:
            self._wire.write(websocket.frame(websocket.CLOSE, websocket.NORMAL))
            self._wire.close()

    async def _port(self, number: int, port: int) -> None:
        async def send(data: bytes) -> None:
            self._send(2 * number, data)
            if self._wire:
                await self._wire.drained()

        problem = await forward(self._connect, port, received=self._taken(number), send=send)
        if problem:
            text = f"error forwarding port {port} to pod {self._pod}, uid {self._uid}: {problem}"
            self._send(2 * number + 1, text.encode())

    async def _taken(self, number: int) -> AsyncIterator[bytes]:
        while True:
            data = await self._inputs[number].get()
            self._throttle.taken(len(data))
            yield data

    def _send(self, channel: int, data: bytes) -> None:
        if self._wire and not self._wire.closed:
            self._wire.write(self._channels.encode(channel, data))

    def _hang_up(self) -> None:
        self.lost()
        if self._wire:
            self._wire.close()
