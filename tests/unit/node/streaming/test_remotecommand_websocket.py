"""Sessions over WebSockets."""

from __future__ import annotations

import asyncio
import json
import os
import struct
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.errors import BadRequest, InternalError
from dray.node.streaming import handshake
from dray.node.streaming.remotecommand_websocket import WebSocketCommand
from dray.runtimes.interface import Session
from dray.wire.duplex import Throttle
from dray.wire.websocket import FrameReader
from tests.support.echo_session import EchoSession


def masked(opcode: int, data: bytes, *, final: bool = True) -> bytes:
    mask = os.urandom(4)
    first = (0x80 if final else 0) | opcode
    if len(data) < 126:
        head = struct.pack(">BB", first, 0x80 | len(data))
    else:
        head = struct.pack(">BBH", first, 0x80 | 126, len(data))
    return head + mask + bytes(b ^ mask[i % 4] for i, b in enumerate(data))


def test_the_handshake_answers_as_the_standard_says() -> None:
    headers = {
        "upgrade": "websocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": "v4.channel.k8s.io, v5.channel.k8s.io",
    }

    async def start() -> Session:
        raise AssertionError

    upgrade = handshake.for_command(
        lambda name: [headers[name]] if name in headers else [], start, streams=(), tty=False
    )
    assert ("Sec-WebSocket-Protocol", "v5.channel.k8s.io") in upgrade.headers
    assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in upgrade.headers
    with pytest.raises(BadRequest, match="Upgrade request required"):
        handshake.for_command(lambda name: [], start, streams=(), tty=False)


@given(
    st.lists(st.tuples(st.binary(max_size=300), st.integers(0, 3)), max_size=5),
    st.lists(st.integers(1, 50), max_size=30),
)
def test_messages_arrive_whole_however_they_are_cut(
    messages: list[tuple[bytes, int]], cuts: list[int]
) -> None:
    wire = b""
    for data, extra in messages:
        pieces = [data[i :: extra + 1] for i in range(extra + 1)] if extra else [data]
        whole = b"".join(pieces)
        for i, piece in enumerate(pieces):
            wire += masked(2 if i == 0 else 0, piece, final=i == len(pieces) - 1)
        del whole
    reader, got, position = FrameReader(), [], 0
    for cut in [*cuts, len(wire)]:
        got += reader.feed(wire[position : position + cut])
        position += cut
    expected = [b"".join([d[i :: e + 1] for i in range(e + 1)] if e else [d]) for d, e in messages]
    assert [m for _, m in got] == expected


class Wire:
    closed = False

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


async def test_a_session_flows_both_ways_and_ends_with_its_code() -> None:
    echo, wire = EchoSession(), Wire()

    async def start() -> Session:
        return echo

    connection = WebSocketCommand(start)
    connection.opened(wire)
    connection.received(masked(2, b"\x00hello"))
    connection.received(masked(2, b"\x00!oops") + masked(2, b'\x04{"Width":80,"Height":24}'))
    connection.received(masked(9, b"ping") + masked(2, b"\xff\x00"))
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


async def test_clients_that_break_the_rules_are_let_go() -> None:
    echo, wire = EchoSession(), Wire()

    async def start() -> Session:
        return echo

    connection = WebSocketCommand(start)
    connection.opened(wire)
    await asyncio.sleep(0)
    connection.received(b"\x82\x05hello")
    while not echo.closed:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


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
        connection.received(masked(2, b"\x00" + bytes(60_000)))
    assert wire.paused
    for _ in range(pieces):
        reads.release()
    while wire.paused:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    connection.lost()
