"""Sessions over WebSockets."""

from __future__ import annotations

import asyncio
import base64
import json
import struct
from typing import Any

import pytest

from dray.api.errors import InternalError
from dray.node.streaming.channels import Channels
from dray.node.streaming.remotecommand_websocket import WebSocketCommand
from dray.runtimes.interface import Session
from dray.wire.duplex import Throttle
from dray.wire.websocket import BINARY, CLOSE, PING, frame
from tests.support.echo_session import EchoSession


def sent(opcode: int, data: bytes) -> bytes:
    """A client's message."""
    return frame(opcode, data, masked=True)


class Wire:
    congested = closed = False

    def __init__(self) -> None:
        self.data = bytearray()
        self.paused = False
        self.news = asyncio.Event()

    def write(self, data: bytes) -> None:
        self.data += data
        self.news.set()

    async def drained(self) -> None:
        return

    def close(self) -> None:
        self.closed = True

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False

    async def messages(self, number: int) -> list[tuple[int, bytes]]:
        while True:
            found, rest = [], bytes(self.data)
            while len(rest) >= 2:
                length, start = rest[1], 2
                if length == 126:
                    (length,), start = struct.unpack(">H", rest[2:4]), 4
                found.append((rest[0] & 15, rest[start : start + length]))
                rest = rest[start + length :]
            if len(found) >= number:
                return found
            self.news.clear()
            await self.news.wait()


async def test_a_session_carries_input_output_and_exit_code() -> None:
    echo, wire = EchoSession(), Wire()

    async def start() -> Session:
        return echo

    connection = WebSocketCommand(start)
    connection.opened(wire)
    connection.received(sent(BINARY, b"\x00hello"))
    connection.received(sent(BINARY, b"\x00!oops") + sent(BINARY, b'\x04{"Width":80,"Height":24}'))
    connection.received(sent(PING, b"ping") + sent(BINARY, b"\xff\x00"))
    got = await wire.messages(5)
    assert (10, b"ping") in got
    assert (2, b"\x01hello") in got
    assert (2, b"\x02!oops") in got
    [status] = [json.loads(m[1:]) for _, m in got if m[:1] == b"\x03" and m[1:2] == b"{"]
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert got[-1] == (8, struct.pack(">H", 1000))
    assert echo.sizes == [(24, 80)]


async def test_a_session_that_cannot_start_says_why() -> None:
    wire = Wire()

    async def start() -> Session:
        raise InternalError("no such container")

    WebSocketCommand(start).opened(wire)
    got = await wire.messages(2)
    assert json.loads(got[0][1][1:])["message"] == "no such container"


async def test_a_client_that_leaves_ends_the_session() -> None:
    echo, wire = EchoSession(), Wire()
    started = asyncio.Event()

    async def start() -> Any:
        started.set()
        return echo

    connection = WebSocketCommand(start)
    connection.opened(wire)
    await started.wait()
    await asyncio.sleep(0)
    connection.lost()
    while not echo.closed:  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.001)


async def test_clients_that_violate_the_protocol_are_disconnected() -> None:
    echo, wire = EchoSession(), Wire()

    async def start() -> Session:
        return echo

    connection = WebSocketCommand(start)
    connection.opened(wire)
    await asyncio.sleep(0)
    connection.received(b"\x82\x05hello")
    while not echo.closed:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert wire.closed


async def test_the_connection_is_closed_after_the_clients_close_frame() -> None:
    wire = Wire()

    async def start() -> Session:
        raise InternalError("no such container")

    connection = WebSocketCommand(start)
    connection.opened(wire)
    await wire.messages(2)
    assert not wire.closed, "the client may not have read everything yet"
    connection.received(sent(CLOSE, struct.pack(">H", 1000)))
    assert wire.closed


async def test_a_client_that_sends_faster_than_the_command_reads_has_to_wait() -> None:
    wire, reads = Wire(), asyncio.Semaphore(0)

    class Slow(EchoSession):
        async def write(self, data: bytes) -> None:
            await reads.acquire()

    async def start() -> Session:
        return Slow()

    connection = WebSocketCommand(start)
    connection.opened(wire)
    pieces = Throttle.HIGH // 60_000 + 2
    for _ in range(pieces):
        connection.received(sent(BINARY, b"\x00" + bytes(60_000)))
    assert wire.paused
    for _ in range(pieces):
        reads.release()
    while wire.paused:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    connection.lost()


async def test_of_sizes_of_the_terminal_only_the_latest_counts_and_nonsense_does_not() -> None:
    wire, sizes, may_resize = Wire(), [], asyncio.Event()

    class Terminal(EchoSession):
        async def resize(self, *, rows: int, columns: int) -> None:
            await may_resize.wait()
            sizes.append((rows, columns))

    async def start() -> Session:
        return Terminal()

    connection = WebSocketCommand(start)
    connection.opened(wire)
    await asyncio.sleep(0.01)
    for rows in range(5000):
        connection.received(sent(BINARY, b'\x04{"Height": %d, "Width": 80}' % rows))
    for nonsense in (
        b"[" * 500_000,
        b'{"Height": Infinity, "Width": 1}',
        b'{"Height": -1, "Width": 70000}',
        b"7",
    ):
        connection.received(sent(BINARY, b"\x04" + nonsense))
    may_resize.set()
    while sizes[-1:] != [(4999, 80)]:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert len(sizes) <= 2
    assert not wire.closed
    connection.lost()


async def test_pings_of_a_client_that_does_not_read_are_not_answered():
    async def start() -> Session:
        return EchoSession()

    wire, connection = Wire(), WebSocketCommand(start)
    wire.congested = True
    connection.opened(wire)
    for _ in range(1000):
        connection.received(sent(PING, b"x" * 100))
    assert not wire.data
    connection.lost()


@pytest.mark.parametrize(
    "protocol", ["", "channel.k8s.io", "base64.channel.k8s.io", "v4.base64.channel.k8s.io"]
)
async def test_older_subprotocols_write_messages_as_upstream_does(protocol: str) -> None:
    echo, wire = EchoSession(), Wire()
    channels = Channels("base64" in protocol)

    async def start() -> Session:
        return echo

    connection = WebSocketCommand(start, protocol=protocol, streams=("stdin", "stdout"))
    connection.opened(wire)
    text, digit = (1, b"0") if channels.is_base64 else (2, b"\x00")
    connection.received(sent(text, digit + (base64.b64encode(b"hello") if channels.is_base64 else b"hello")))
    connection.received(sent(text, b"4" + base64.b64encode(b"{}") if channels.is_base64 else b"\x04{}"))
    assert await wire.messages(2)
    echo.queue.put_nowait(None)
    got = await wire.messages(4)
    first, second, last = (channels.decode(message) for kind, message in got[:3] if kind == text)
    assert (first, second) == ((1, b""), (1, b"hello")), "the session is open, and then there is output"
    assert last is not None and last[0] == 3
    told = last[1].decode()
    assert told.startswith("command terminated with non-zero exit code") != protocol.startswith("v4"), told
