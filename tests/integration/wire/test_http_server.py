"""The HTTP protocol over real sockets on loopback."""

from __future__ import annotations

import asyncio
import errno
import resource
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from dray.wire.duplex import Sink
from dray.wire.http_server import HTTPServer
from dray.wire.messages import Limits, Reply, Request
from tests.support.wait import wait_for

LIMITS = Limits(body_bytes=1000, header_bytes=2000)


async def echo(request: Request) -> Reply:
    if request.receive is not None:
        await request.receive()
    assert isinstance(request.body, bytes)
    text = f"{request.method} {request.path} {request.query.raw} ".encode() + request.body
    return Reply(200, (("Content-Type", "text/plain"),), text)


class Peer:
    """A client that speaks bytes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    def send(self, text: str | bytes) -> None:
        self.writer.write(text if isinstance(text, bytes) else text.replace("\n", "\r\n").encode())

    async def answer(self) -> tuple[int, dict[str, str], bytes]:
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode()
        status, *lines = head.strip().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        body = await self.reader.readexactly(int(headers.get("content-length", 0)))
        return int(status.split()[1]), headers, body

    async def closed(self) -> bool:
        return await self.reader.read() == b""


@asynccontextmanager
async def serving(handler=echo, limits: Limits = LIMITS) -> AsyncIterator[tuple[HTTPServer[Request], Peer]]:
    server = HTTPServer(handler, request_type=Request, limits=limits)
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    await server.listen(listener)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    try:
        yield server, Peer(reader, writer)
    finally:
        writer.close()
        await server.drain(1)


async def test_requests_of_one_connection_are_answered_in_order_though_sent_at_once():
    slow = asyncio.Event()

    async def handler(request: Request) -> Reply:
        if request.path == "/slow":
            await slow.wait()
        return Reply(200, (), request.path.encode())

    async with serving(handler) as (_, peer):
        peer.send("GET /slow HTTP/1.1\nHost: x\n\nGET /b HTTP/1.1\nHost: x\n\nGET /c HTTP/1.1\nHost: x\n\n")
        await asyncio.sleep(0)
        slow.set()
        assert [(await peer.answer())[2] for _ in range(3)] == [b"/slow", b"/b", b"/c"]


async def test_a_chunked_body_is_put_together():
    async with serving() as (_, peer):
        peer.send("POST /x?q=1 HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n3\nabc\n2\nde\n0\n\n")
        assert (await peer.answer())[2] == b"POST /x q=1 abcde"


async def test_an_escaped_path_is_decoded_and_a_query_is_not():
    async with serving() as (_, peer):
        peer.send("GET /a%20b?c=%41 HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[2] == b"GET /a b c=%41 "


@pytest.mark.parametrize(
    "request_",
    [
        "POST / HTTP/1.1\nHost: x\nContent-Length: 3\nTransfer-Encoding: chunked\n\n3\nabc\n0\n\n",
        "POST / HTTP/1.1\nHost: x\nContent-Length: 3\nContent-Length: 4\n\nabcd",
        "GET / HTTP/1.1\nHost: x\nBad Header: 1\n\n",
        "POST / HTTP/1.1\nHost: x\nContent-Length: -1\n\n",
        "POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\nzz\n",
        "\x00\x01\x02\n\n",
    ],
)
async def test_an_ambiguous_or_broken_request_is_refused_and_the_connection_ends(request_):
    async with serving() as (_, peer):
        peer.send(request_)
        assert (await peer.answer())[0] == 400
        assert await peer.closed()


async def test_a_body_beyond_the_limit_is_refused_before_it_is_read():
    async with serving() as (_, peer):
        peer.send("POST / HTTP/1.1\nHost: x\nContent-Length: 1001\n\n")
        code, _, body = await peer.answer()
        assert code == 413 and b"limit is 1000" in body
        assert await peer.closed()


async def test_a_chunked_body_cannot_hide_its_size():
    async with serving() as (_, peer):
        peer.send("POST / HTTP/1.1\nHost: x\nTransfer-Encoding: chunked\n\n")
        peer.send(b"3e8\r\n" + b"x" * 1000 + b"\r\n1\r\nx\r\n")
        assert (await peer.answer())[0] == 413


async def test_endless_headers_are_refused():
    async with serving() as (_, peer):
        peer.send("GET / HTTP/1.1\nHost: x\n")
        for i in range(100):
            peer.send(f"H{i}: {'x' * 50}\n")
        assert (await peer.answer())[0] == 431


async def test_a_client_that_waits_for_permission_gets_it():
    async with serving() as (_, peer):
        peer.send("POST / HTTP/1.1\nHost: x\nContent-Length: 2\nExpect: 100-continue\n\n")
        assert (await peer.answer())[0] == 100
        peer.send("hi")
        assert (await peer.answer())[2] == b"POST /  hi"


async def test_an_unheard_of_method_reaches_the_handler():
    async with serving() as (_, peer):
        peer.send("FOO /x HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[2] == b"FOO /x  "
        peer.send("GET /y HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[2] == b"GET /y  "


async def test_an_offer_to_upgrade_can_be_ignored():
    async with serving() as (_, peer):
        peer.send(
            "GET /x HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: h2c\n\nGET /y HTTP/1.1\nHost: x\n\n"
        )
        assert (await peer.answer())[2] == b"GET /x  "
        assert (await peer.answer())[2] == b"GET /y  "


async def test_head_has_no_body():
    async with serving() as (_, peer):
        peer.send("HEAD /x HTTP/1.1\nHost: x\n\nGET /y HTTP/1.1\nHost: x\n\n")
        head = (await peer.reader.readuntil(b"\r\n\r\n")).decode()
        assert "Content-Length: 9" in head
        assert (await peer.answer())[2] == b"GET /y  "


async def test_old_clients_and_those_who_say_close_are_let_go():
    for request in ("GET / HTTP/1.0\n\n", "GET / HTTP/1.1\nHost: x\nConnection: close\n\n"):
        async with serving() as (_, peer):
            peer.send(request)
            code, headers, _ = await peer.answer()
            assert code == 200 and headers["connection"] == "close"
            assert await peer.closed()


async def test_a_failing_handler_is_a_500_and_the_connection_goes_on():
    async def handler(request: Request) -> Reply:
        if request.path == "/bad":
            raise RuntimeError("no")
        return Reply(200, (), b"ok")

    async with serving(handler) as (_, peer):
        peer.send("GET /bad HTTP/1.1\nHost: x\n\nGET /good HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[0] == 500
        assert (await peer.answer())[2] == b"ok"


class Ticker:
    """A stream that writes when told to."""

    def __init__(self) -> None:
        self.lines: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.ended = asyncio.Event()

    async def run(self, sink: Sink) -> None:
        while (line := await self.lines.get()) is not None:
            sink.write(line)
            if sink.congested:
                await sink.drained()
        self.ended.set()

    def close(self) -> None:
        self.lines.put_nowait(None)


async def test_a_stream_is_sent_in_chunks_and_the_connection_is_used_again():
    ticker = Ticker()

    async def handler(request: Request) -> Reply:
        return Reply(200, (), stream=ticker) if request.path == "/watch" else await echo(request)

    async with serving(handler) as (_, peer):
        peer.send("GET /watch HTTP/1.1\nHost: x\n\n")
        head = await peer.reader.readuntil(b"\r\n\r\n")
        assert b"Transfer-Encoding: chunked" in head
        ticker.lines.put_nowait(b"one")
        assert await peer.reader.readexactly(8) == b"3\r\none\r\n"
        ticker.close()
        assert await peer.reader.readexactly(5) == b"0\r\n\r\n"
        peer.send("GET /y HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[2] == b"GET /y  "


async def test_a_stream_ends_when_its_client_goes():
    ticker = Ticker()

    async def handler(request: Request) -> Reply:
        return Reply(200, (), stream=ticker)

    async with serving(handler) as (_, peer):
        peer.send("GET / HTTP/1.1\nHost: x\n\n")
        await peer.reader.readuntil(b"\r\n\r\n")
        peer.writer.close()
        await asyncio.wait_for(ticker.ended.wait(), 5)


async def test_draining_finishes_what_runs_ends_streams_and_accepts_nothing_new():
    begun, go = asyncio.Event(), asyncio.Event()
    ticker = Ticker()

    async def handler(request: Request) -> Reply:
        if request.path == "/watch":
            return Reply(200, (), stream=ticker)
        begun.set()
        await go.wait()
        return Reply(200, (), b"done")

    async with serving(handler) as (server, peer):
        host, port = peer.writer.get_extra_info("peername")
        reader, writer = await asyncio.open_connection(host, port)
        watcher = Peer(reader, writer)
        watcher.send("GET /watch HTTP/1.1\nHost: x\n\n")
        await watcher.reader.readuntil(b"\r\n\r\n")
        peer.send("GET / HTTP/1.1\nHost: x\n\n")
        await begun.wait()
        draining = asyncio.create_task(server.drain(5))
        assert await watcher.reader.read() == b"0\r\n\r\n"
        go.set()
        code, headers, body = await peer.answer()
        assert (code, body, headers["connection"]) == (200, b"done", "close")
        await draining
        with pytest.raises(OSError):
            await asyncio.open_connection(host, port)
        writer.close()


async def test_a_client_that_never_finishes_its_request_is_sent_away():
    async with serving(limits=replace(LIMITS, header_seconds=0.05)) as (_, peer):
        peer.send("GET / HTTP/1.1\nHost:")
        assert (await peer.answer())[0] == 408
        assert await peer.closed()


async def test_an_idle_connection_is_closed():
    async with serving(limits=replace(LIMITS, header_seconds=0.1, idle_seconds=0.05)) as (_, peer):
        peer.send("GET / HTTP/1.1\nHost: x\n\n")
        await peer.answer()
        assert await peer.closed()


class Shout:
    """An upgraded connection that answers in capitals."""

    def opened(self, sink: Sink) -> None:
        self.sink = sink

    def received(self, data: bytes) -> None:
        self.sink.write(data.upper())

    def lost(self) -> None:
        pass


async def test_a_handler_may_take_the_connection_over():
    async def handler(request: Request) -> Reply:
        assert request.upgradable
        return Reply(101, (("Upgrade", "shout"), ("Connection", "Upgrade")), duplex=Shout())

    async with serving(handler) as (_, peer):
        peer.send("GET / HTTP/1.1\nHost: x\nConnection: Upgrade\nUpgrade: shout\n\nearly")
        assert (await peer.answer())[0] == 101
        peer.send("hello")
        assert await peer.reader.readexactly(10) == b"EARLYHELLO"


async def test_a_header_cannot_be_split_by_what_it_says():
    async def handler(request: Request) -> Reply:
        return Reply(200, (("Warning", '299 - "a\r\nSet-Cookie: b"'),), b"")

    async with serving(handler) as (_, peer):
        peer.send("GET / HTTP/1.1\nHost: x\n\n")
        _, headers, _ = await peer.answer()
        assert "set-cookie" not in headers


async def test_a_stream_nobody_asked_to_see_is_closed():
    ticker = Ticker()

    async def handler(request: Request) -> Reply:
        return Reply(200, (), stream=ticker)

    async with serving(handler) as (_, peer):
        peer.send("HEAD / HTTP/1.1\nHost: x\n\n")
        assert await ticker.lines.get() is None


async def test_idle_connections_leave_file_descriptors_for_others(monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (20, 20))
    async with serving() as (_, peer):
        peer.send("GET /first HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[0] == 200
        address = peer.writer.get_extra_info("peername")
        idle = [await asyncio.open_connection(*address) for _ in range(15)]
        closed = [asyncio.create_task(reader.read()) for reader, _ in idle]
        # Ten connections may be open. The client that has said something stays, the silent ones that came first go.
        await wait_for("six silent clients to be closed", lambda: sum(task.done() for task in closed) >= 6)
        await asyncio.sleep(0.05)
        assert [task.done() for task in closed] == [True] * 6 + [False] * 9
        peer.send("GET /x HTTP/1.1\nHost: x\n\n")
        assert (await peer.answer())[2] == b"GET /x  "
        for task, (_, writer) in zip(closed, idle, strict=True):
            task.cancel()
            writer.close()


class Exhausted:
    """A listener of a process that has no file descriptors left."""

    asked = 0

    def fileno(self) -> int:
        return 0

    def accept(self) -> None:
        self.asked += 1
        raise OSError(errno.EMFILE, "Too many open files")


async def test_a_server_without_file_descriptors_waits_before_it_accepts_again(monkeypatch):
    loop = asyncio.get_running_loop()
    calls = []
    monkeypatch.setattr(loop, "remove_reader", lambda fd: calls.append("remove"))
    monkeypatch.setattr(loop, "add_reader", lambda fd, *_: calls.append("add"))
    monkeypatch.setattr("dray.wire.http_server._ACCEPT_PAUSE", 0.01)
    server, listener = HTTPServer(echo, request_type=Request), Exhausted()
    server._accept(listener)
    assert (listener.asked, calls) == (1, ["remove"])
    await asyncio.sleep(0.1)
    assert calls == ["remove", "add"]
