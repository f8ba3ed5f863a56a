"""Our own client and server, which speak SPDY as Go's do."""

from __future__ import annotations

import asyncio
import zlib

from hypothesis import given
from hypothesis import strategies as st

from dray.wire import spdy
from dray.wire.duplex import Throttle
from tests.support.cable import everything, spdy_client


def test_the_dictionary_is_the_protocols() -> None:
    assert zlib.adler32(spdy.DICTIONARY) == 0xE3C6A7C2


@given(
    headers=st.dictionaries(st.text("abc-", min_size=1), st.text(max_size=50), max_size=4),
    data=st.binary(max_size=200),
    piece=st.integers(1, 64),
)
def test_streams_arrive_whole_however_they_are_cut(headers: dict[str, str], data: bytes, piece: int) -> None:
    async def play() -> None:
        arrived: list[spdy.Stream] = []
        client, _ = spdy_client(spdy.Connection(on_stream=arrived.append), piece=piece)
        for _ in range(2):  # the second time compression has a memory
            stream = client.open_stream(headers)
            await stream.write(data)
            stream.end()
            await stream.replied.wait()
            got = arrived.pop()
            assert got.headers == headers
            assert await everything(got) == data
            got.end()
            assert await everything(stream) == b""

    asyncio.run(play())


async def test_a_reader_that_does_not_keep_up_makes_the_peer_wait() -> None:
    arrived: list[spdy.Stream] = []
    client, cable = spdy_client(spdy.Connection(on_stream=arrived.append))
    stream = client.open_stream({})
    await stream.write(bytes(Throttle.HIGH + 1))
    stream.end()
    await stream.replied.wait()
    await asyncio.sleep(0)
    assert cable.paused
    assert len(await everything(arrived[0])) == Throttle.HIGH + 1
    assert not cable.paused


async def test_a_peer_that_breaks_the_rules_is_let_go() -> None:
    gone: list[str] = []
    for nonsense in (
        b"\x80\x09\x00\x01\x00\x00\x00\x00",  # another version
        b"\x80\x03\x00\x01\x00\x00\x00\x0e" + b"\x00\x00\x00\x02" + bytes(10),  # a number of ours
        b"\x80\x03\x00\x01\x00\x00\x00\x0e" + b"\x00\x00\x00\x01" + b"\xff" * 10,  # not compressed
        b"\x00\x00\x00\x01\x00\xff\xff\xff",  # too large
    ):
        server = spdy.Connection(on_stream=lambda _: None, on_lost=lambda: gone.append("gone"))
        _, cable = spdy_client(server)
        server.received(nonsense)
        assert cable.closed
    assert len(gone) == 4


async def test_pings_are_answered() -> None:
    server = spdy.Connection()
    _, cable = spdy_client(server)
    ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x05"
    server.received(ping)
    assert cable.written == ping


async def test_pings_of_a_peer_that_does_not_read_are_not_answered() -> None:
    server = spdy.Connection()
    _, cable = spdy_client(server)
    cable.congested = True
    for _ in range(1000):
        server.received(b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x05")
    assert cable.written == b""


async def test_a_peer_that_opens_streams_without_reading_the_answers_is_let_go() -> None:
    """They are refused one by one, so that few are open at a time."""
    server = spdy.Connection(on_stream=lambda stream: stream.reset())
    client, cable = spdy_client(server)
    cable.congested = True
    for _ in range(5000):
        client.open_stream({"port": "80"})
    await asyncio.sleep(0.01)
    assert cable.closed
    assert len(cable.written) < 100_000


async def test_a_peer_cannot_open_streams_without_end() -> None:
    server = spdy.Connection(on_stream=lambda _: None)
    client, cable = spdy_client(server)
    for _ in range(5000):
        client.open_stream({"port": "80"})
    await asyncio.sleep(0.01)
    assert cable.closed
