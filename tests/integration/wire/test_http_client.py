"""The HTTP client against the HTTP server, both our own, over real sockets on loopback."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest

from dray.wire import spdy
from dray.wire.client_connection import ClientConnection
from dray.wire.duplex import Chunks, Wire
from dray.wire.errors import ConnectionLost, ProtocolError, TooLarge
from dray.wire.http_client import ConnectionPool, connect, encode, read_all
from dray.wire.http_server import HTTPServer, listening_socket
from dray.wire.messages import Reply, Request
from dray.wire.splice import Splice

UPGRADE = (("Host", "x"), ("Connection", "Upgrade"), ("Upgrade", "echo"))


@asynccontextmanager
async def serving(
    handler: Callable[[Request], Awaitable[Reply]],
) -> AsyncIterator[tuple[HTTPServer[Request], int]]:
    server = HTTPServer(handler, request_type=Request)
    listener = listening_socket("127.0.0.1", 0)
    await server.listen(listener)
    try:
        yield server, listener.getsockname()[1]
    finally:
        await server.drain(1)


async def saying(data: bytes) -> tuple[asyncio.Server, int]:
    """A server that says this to whoever asks, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(data)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    return server, server.sockets[0].getsockname()[1]


async def echo(request: Request) -> Reply:
    if request.receive is not None:
        await request.receive()
    assert isinstance(request.body, bytes)
    return Reply(200, (("X-Method", request.method), ("X-Twice", "a"), ("X-Twice", "b")), request.body)


class Upper:
    """A duplex that says back what it hears, in capitals."""

    wire: Wire | None = None

    def opened(self, wire: Wire) -> None:
        self.wire = wire
        wire.write(b"welcome")

    def received(self, data: bytes) -> None:
        assert self.wire is not None
        self.wire.write(data.upper())

    def lost(self) -> None:
        self.wire = None


async def upgrade(request: Request) -> Reply:
    return Reply(101, UPGRADE[1:], duplex=Upper())


async def test_one_connection_serves_one_request_after_the_other():
    async with serving(echo) as (server, port):
        pool: ConnectionPool[str] = ConnectionPool(1)
        for body in (b"one", b"", b"x" * 300_000):
            connection = pool.take("a") or await connect("127.0.0.1", port)
            connection.send(encode("PUT", "/", [("Host", "x")], body))
            head = await connection.head()
            assert head.status == 200 and head.headers["x-method"] == "PUT"
            assert head.headers["x-twice"] == "a, b"
            assert await read_all(connection) == body
            pool.give("a", connection)
        assert len(server.connections) == 1
        assert pool.take("b") is None
        pool.close()


async def test_a_pool_keeps_no_more_than_it_may_and_forgets_those_that_are_hung_up():
    async with serving(echo) as (_, port):
        pool: ConnectionPool[str] = ConnectionPool(1)
        connections = [await connect("127.0.0.1", port) for _ in range(2)]
        for connection in connections:
            connection.send(encode("GET", "/", [("Host", "x")]))
            await connection.head()
            await read_all(connection)
        for connection in connections:
            pool.give("a", connection)
        assert connections[1].closed
    async with asyncio.timeout(5):
        while not connections[0].closed:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
    assert pool.take("a") is None


async def test_an_answer_beyond_the_limit_is_not_read_to_its_end():
    async with serving(echo) as (_, port):
        connection = await connect("127.0.0.1", port)
        connection.send(encode("PUT", "/", [("Host", "x")], b"12345"))
        with pytest.raises(TooLarge, match="larger than 4 bytes"):
            await read_all(connection, limit=4)
        connection.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Len", ConnectionLost),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", ConnectionLost),
        (b"220 mail.example.com ESMTP\r\n", ProtocolError),
    ],
)
async def test_an_answer_that_is_none_says_why(answer: bytes, error: type[Exception]):
    server, port = await saying(answer)
    connection = await connect("127.0.0.1", port)
    connection.send(encode("GET", "/", [("Host", "x")]))
    with pytest.raises(error):
        await connection.head()
        await read_all(connection)
    server.close()


async def test_a_body_without_a_length_ends_with_the_connection():
    server, port = await saying(b"HTTP/1.1 200 OK\r\n\r\nabc")
    connection = await connect("127.0.0.1", port)
    connection.send(encode("GET", "/", [("Host", "x")]))
    assert await read_all(connection) == b"abc"
    assert not connection.reusable()
    server.close()


def test_a_header_with_a_line_break_is_not_sent():
    with pytest.raises(ValueError, match="the value for X has a line break"):
        encode("GET", "/", [("X", "a\r\nY: b")])


async def test_a_streamed_body_arrives_piece_by_piece():
    gate = asyncio.Event()

    async def pieces() -> AsyncIterator[bytes]:
        yield b"one"
        await gate.wait()
        yield b"two"

    async def handler(request: Request) -> Reply:
        return Reply(200, (), stream=Chunks(pieces()))

    async with serving(handler) as (_, port):
        connection = await connect("127.0.0.1", port)
        connection.send(encode("GET", "/", [("Host", "x")]))
        assert await connection.read() == b"one"
        gate.set()
        assert await read_all(connection) == b"two"
        connection.close()


async def test_an_upgraded_connection_is_handed_to_a_duplex():
    class Hearing:
        def __init__(self) -> None:
            self.heard, self.gone = b"", asyncio.Event()

        def opened(self, wire: Wire) -> None:
            wire.write(b"hello")

        def received(self, data: bytes) -> None:
            self.heard += data
            if b"HELLO" in self.heard:
                connection.close()

        def lost(self) -> None:
            self.gone.set()

    async with serving(upgrade) as (_, port):
        connection = await connect("127.0.0.1", port)
        connection.send(encode("POST", "/", UPGRADE))
        assert (await connection.head()).status == 101
        hearing = Hearing()
        connection.switch(hearing)
        async with asyncio.timeout(5):
            await hearing.gone.wait()
        assert hearing.heard == b"welcomeHELLO"


async def opened(port: int) -> ClientConnection:
    connection = await connect("127.0.0.1", port)
    connection.send(encode("POST", "/", UPGRADE))
    assert (await connection.head()).status == 101
    return connection


async def test_a_splice_joins_two_connections_until_one_ends():
    async with serving(upgrade) as (far, far_port):

        async def splice(request: Request) -> Reply:
            return Reply(101, UPGRADE[1:], duplex=Splice(await opened(far_port)))

        async with serving(splice) as (_, port):
            client = await opened(port)
            client.write(b"x" * 200_000)
            got = b""
            while len(got) < 200_007:
                piece = await client.read()
                assert piece is not None
                got += piece
            assert got == b"welcome" + b"X" * 200_000
            client.close()
            async with asyncio.timeout(5):
                while far.connections:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)


async def test_the_end_of_the_far_side_of_a_splice_ends_the_near_one():
    async with serving(upgrade) as (far, far_port):

        async def splice(request: Request) -> Reply:
            return Reply(101, UPGRADE[1:], duplex=Splice(await opened(far_port)))

        async with serving(splice) as (_, port):
            client = await opened(port)
            assert await client.read() == b"welcome"
            for connection in list(far.connections):
                connection.close()
            with pytest.raises(ConnectionLost):
                async with asyncio.timeout(5):
                    await client.read()


async def test_spdy_goes_over_a_connection_of_the_client():
    arrived: asyncio.Queue[spdy.Stream] = asyncio.Queue()

    async def handler(request: Request) -> Reply:
        return Reply(
            101,
            (("Connection", "Upgrade"), ("Upgrade", spdy.UPGRADE)),
            duplex=spdy.Connection(on_stream=arrived.put_nowait),
        )

    async with serving(handler) as (_, port):
        connection = await opened(port)
        client = spdy.Connection(client=True)
        connection.switch(client)
        stream = client.open_stream({"a": "b"})
        await stream.write(b"x" * 3_000_000)
        stream.end()
        there = await arrived.get()
        assert there.headers == {"a": "b"}
        assert len(b"".join([piece async for piece in there.pieces()])) == 3_000_000
        connection.close()


async def test_trailers_of_an_answer_are_no_headers():
    server, port = await saying(
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\nX-Late: 1\r\n\r\n"
    )
    async with server:
        connection = await connect("127.0.0.1", port)
        connection.send(encode("GET", "/", [("Host", "x")]))
        head = await connection.head()
        assert await read_all(connection) == b"x"
        assert "x-late" not in head.headers
