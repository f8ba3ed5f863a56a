"""What one connection makes of bytes that were meant to harm it."""

from __future__ import annotations

import asyncio
import gc
import itertools
import socket
import ssl
import time
import weakref

import pytest

from dray.wire import server_connection
from dray.wire.duplex import Wire
from dray.wire.http_server import HTTPServer
from dray.wire.messages import Limits, Reply, Request
from tests.support.http_bytes import Exchange
from tests.support.wait import wait_for

GET = b"GET /%d HTTP/1.1\r\nHost: x\r\n\r\n"


async def test_an_unknown_method_behind_pipelined_requests_is_answered_in_its_turn_and_in_time():
    exchange = Exchange()
    many = b"".join(GET % i for i in range(900)) + b"FOO /odd HTTP/1.1\r\nHost: x\r\n\r\n"
    began = time.process_time()
    await exchange.feed([many])
    assert time.process_time() - began < 1
    assert [path for _, path, _ in exchange.seen] == [f"/{i}" for i in range(900)] + ["/odd"]
    assert exchange.seen[-1][0] == "FOO"


async def test_a_body_that_begins_a_segment_is_no_request():
    exchange = Exchange()
    smuggled = b"DELETE /everything HTTP/1.1\r\nHost: x\r\n\r\n"
    head = b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(smuggled)
    await exchange.feed([head, smuggled + b"FOO /b HTTP/1.1\r\nHost: x\r\n\r\n"])
    assert exchange.seen == [("POST", "/a", smuggled), ("FOO", "/b", b"")]


POST = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n"
OLD = b"GET /old HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n"


@pytest.mark.parametrize("split", [1, 7, 1000])
async def test_requests_with_the_same_fields_are_read_like_any_others(split):
    exchange = Exchange()
    odd = [
        b"%s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n" % line
        for line in (b"PUT /6?q=1#f", b"FOO /odd")
    ]
    heads = [POST % 1, POST % 2, GET % 3, GET % 4, POST % 5, OLD, OLD, *odd, POST % 7]
    bodies = [b"ab", b"cd", b"", b"", b"ef", b"", b"", b"gh", b"ij", b"kl"]
    sent = b"".join(head + body for head, body in zip(heads, bodies, strict=True))
    for i in range(0, len(sent), split):
        await exchange.feed([sent[i : i + split]])
    posts = {1: b"ab", 2: b"cd", 3: b"", 4: b"", 5: b"ef"}
    assert exchange.seen == [
        *(("POST" if body else "GET", f"/{i}", body) for i, body in posts.items()),
        ("GET", "/old", b""),
        ("GET", "/old", b""),
        ("PUT", "/6", b"gh"),
        ("FOO", "/odd", b"ij"),
        ("POST", "/7", b"kl"),
    ]
    assert [request.http[0] for request in exchange.requests] == ["1.1"] * 5 + ["1.0"] * 2 + ["1.1"] * 3
    assert {request.headers.get("host") for request in exchange.requests} == {"x"}


SIZED = b"POST /%d HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\nA: b\r\n\r\n%b"


@pytest.mark.parametrize("split", [1, 7, 1000])
async def test_requests_that_differ_in_the_length_of_their_body_are_read_like_any_others(split):
    exchange = Exchange()
    bodies = [b"", b"a", b"bc", b"", b"d" * 12, b"ef"]
    sent = b"".join(SIZED % (i, len(body), body) for i, body in enumerate(bodies))
    for i in range(0, len(sent), split):
        await exchange.feed([sent[i : i + split]])
    assert exchange.seen == [("POST", f"/{i}", body) for i, body in enumerate(bodies)]
    lengths = [request.headers.get("content-length") for request in exchange.requests]
    assert lengths == [str(len(body)) for body in bodies]
    assert {request.headers.get("a") for request in exchange.requests} == {"b"}


@pytest.mark.parametrize(
    "fields",
    [
        b"Content-Length: \r\nA: b",
        b"Content-Length: -1\r\nA: b",
        b"Content-Length: +2\r\nA: b",
        b"Content-Length: 2 2\r\nA: b",
        b"Content-Length: 2, 2\r\nA: b",
        b"Content-Length: 0x2\r\nA: b",
        b"Content-Length: \xb2\r\nA: b",
        b"Content-Length: 2 \r\nA: b",
        b"Content-Length:  2\r\nA: b",
        b"Content-Length: 002\r\nA: b",
        b"Content-Length: 99999999999999999999999\r\nA: b",
        b"Content-Length: 9999999999\r\nA: b",
        b"Content-Length: 2\r\nA: b\r\nContent-Length: 2",
        b"Content-Length: 2\r\nA: b\r\nTransfer-Encoding: chunked",
        b"A: b\r\nContent-Length: 2",
        b"A: b",
    ],
)
async def test_the_length_of_a_body_is_checked_whatever_request_came_before_it(fields):
    alone, behind = Exchange(), Exchange()
    odd = b"POST /odd HTTP/1.1\r\nHost: x\r\n" + fields + b"\r\n\r\nab"
    await alone.feed([odd])
    await behind.feed([SIZED % (1, 1, b"x"), odd])
    assert behind.codes == [200, *alone.codes]
    assert behind.seen[1:] == alone.seen
    assert behind.transport.closing == alone.transport.closing


@pytest.mark.parametrize(
    "line",
    [
        b"GET /a b HTTP/1.1\r\n",
        b"GET / HTTP/1.1\nHost: y\r\n",
        b"GET / HTTP/9.1\r\n",
        b"GET\r\n",
        b"POST / HTTP/1.1 HTTP/1.1\r\n",
        b" / HTTP/1.1\r\n",
    ],
)
async def test_a_request_line_is_checked_whatever_fields_follow_it(line):
    alone, behind = Exchange(), Exchange()
    await alone.feed([line + b"Host: x\r\n\r\n"])
    await behind.feed([GET % 1, line + b"Host: x\r\n\r\n"])
    assert behind.codes == [200, *alone.codes]
    assert behind.seen[1:] == alone.seen


async def test_a_request_that_ends_the_connection_does_so_whatever_came_before_it():
    exchange = Exchange()
    await exchange.feed([GET % 1, b"GET /2 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", GET % 3])
    assert [path for _, path, _ in exchange.seen] == ["/1", "/2"]
    assert exchange.transport.closing


@pytest.mark.parametrize("start", [b"GET / HTTP/1.1\r\nX: ", b"GET /", b"GET / HTTP/1.1\r\n", b"A"])
async def test_a_head_without_end_is_refused_once_it_is_too_large(start):
    exchange = Exchange(Limits(header_bytes=1 << 20))
    began = time.process_time()
    sent = 0
    for piece in [start] + [b"a" * 16384] * 4096:
        await exchange.feed([piece])
        sent += len(piece)
        if exchange.transport.closing:
            break
    assert exchange.codes == [431]
    assert sent < (1 << 20) + 2 * 16384
    assert time.process_time() - began < 1


async def test_a_head_in_single_bytes_takes_no_more_than_linear_time():
    exchange = Exchange()
    head = b"GET /x HTTP/1.1\r\nHost: x\r\nLong: " + b"v" * 200_000 + b"\r\n\r\n"
    began = time.process_time()
    for i in range(len(head)):
        exchange.connection.data_received(head[i : i + 1])
    await exchange.settle()
    assert time.process_time() - began < 2
    assert exchange.requests[0].headers.get("long") == "v" * 200_000


async def test_trailers_never_become_headers():
    exchange = Exchange()
    await exchange.feed(
        [
            b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nTrailer: Authorization\r\n\r\n",
            b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\nImpersonate-User: admin\r\n\r\n" + GET % 1,
        ]
    )
    assert exchange.seen == [("POST", "/", b"abc"), ("GET", "/1", b"")]
    assert "authorization" not in exchange.requests[0].headers
    assert "impersonate-user" not in exchange.requests[0].headers


async def test_a_body_is_not_received_before_the_handler_asks_for_it():
    async def refuse(request: Request) -> Reply:
        return Reply(403)

    server = HTTPServer(refuse, request_type=Request)
    exchange = Exchange(server=server)
    await exchange.feed([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", b"x" * 1000])
    assert exchange.codes == [403]
    await exchange.feed([b"x" * 100_000] * 19 + [b"x" * 99_000])
    assert not exchange.connection._pending
    await exchange.feed([GET % 1])
    assert exchange.codes == [403, 403]


async def test_what_comes_before_the_handler_asks_for_it_is_little():
    ask = asyncio.Event()
    bodies = []

    async def handler(request: Request) -> Reply:
        await ask.wait()
        assert request.receive is not None
        await request.receive()
        bodies.append(request.body)
        return Reply(200)

    exchange = Exchange(server=HTTPServer(handler, request_type=Request))
    await exchange.feed([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n", b"x" * 70_000])
    assert exchange.transport.paused
    ask.set()
    await exchange.settle()
    assert not exchange.transport.paused
    await exchange.feed([b"x" * 130_000])
    assert bodies == [b"x" * 200_000]


async def test_unfinished_requests_of_all_clients_together_are_bounded():
    first = Exchange(Limits(held_bytes=10 << 20))
    others = [Exchange(server=first.server) for _ in range(30)]
    for exchange in (first, *others):
        await exchange.feed(
            [b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", b"x" * 1_000_000]
        )
    refused = [e for e in (first, *others) if e.codes]
    assert [e.codes for e in refused] == [[503]] * 21
    assert sum(len(e.connection._pending) for e in (first, *others)) <= 10 << 20
    for exchange in (first, *others):
        exchange.lose()
    assert first.server._held == 0 and not first.server._holding


async def test_of_bodies_that_come_at_the_same_time_one_turn_of_the_loop_reads_a_few():
    first = Exchange()
    others = [Exchange(server=first.server) for _ in range(29)]
    all_of_them, piece = (first, *others), b"x" * 250_000
    for exchange in all_of_them:
        await exchange.feed([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 500000\r\n\r\n"])
    for exchange in all_of_them:  # in one turn, as the loop finds them
        exchange.connection.data_received(piece)
    assert [e.transport.paused for e in all_of_them] == [False] * 4 + [True] * 26
    others[-1].lose()
    turns = 0
    while any(len(e.connection._pending) for e in all_of_them):
        turns += 1
        assert turns < 20
        ready = [e for e in all_of_them if e.connection._pending and not e.transport.paused]
        assert len(ready) <= 8
        for exchange in ready:
            exchange.connection.data_received(piece)
        await asyncio.sleep(0)
    for exchange in all_of_them[:-1]:
        await exchange.settle()
    assert [e.codes for e in all_of_them] == [[200]] * 29 + [[]]
    assert not any(e.transport.paused for e in all_of_them[:-1])
    assert not first.server._waiting


async def test_a_small_request_is_served_while_the_server_holds_as_much_as_it_may():
    first = Exchange(Limits(held_bytes=1_000_000))
    await first.feed([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n", b"x" * 999_999])
    honest = Exchange(server=first.server)
    await honest.feed([b"POST /h HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\n\r\nab", b"cd"])
    assert honest.codes == [200] and first.codes == [503]


async def test_a_closed_connection_is_freed_without_the_garbage_collector():
    gc.disable()
    try:
        exchange = Exchange()
        await exchange.feed(
            [GET % 1, b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2000\r\n\r\n", b"x" * 1000]
        )
        connection = weakref.ref(exchange.connection)
        exchange.lose()
        del exchange.connection
        await exchange.settle()
        assert connection() is None
    finally:
        gc.enable()


async def test_long_header_names_are_not_remembered():
    exchange = Exchange()
    await exchange.feed([b"GET / HTTP/1.1\r\nHost: x\r\n" + b"N" * 100_000 + b": v\r\n\r\n"])
    assert exchange.requests[0].headers.get("n" * 100_000) == "v"
    assert max(map(len, server_connection._names)) <= 40


async def test_a_client_that_does_not_read_gets_no_further_answers():
    exchange = Exchange()
    exchange.connection.pause_writing()
    await exchange.feed([b"".join(GET % i for i in range(50))])
    assert exchange.seen == []
    exchange.connection.resume_writing()
    await exchange.settle()
    assert len(exchange.seen) == 50


def large_replies(size: int, limits: Limits | None = None) -> Exchange:
    async def answer(request: Request) -> Reply:
        return Reply(200, body=b"x" * size)

    return Exchange(server=HTTPServer(answer, request_type=Request, limits=limits))


async def test_the_loop_turns_while_a_large_reply_is_sent():
    exchange = large_replies(3 << 20)
    turns, sent_by_turn = 0, [0]
    exchange.connection.data_received(GET % 1 + GET % 2)
    while turns < 200:
        await asyncio.sleep(0)
        sent_by_turn.append(len(exchange.transport.sent))
        turns += 1
    assert max(after - before for before, after in itertools.pairwise(sent_by_turn)) < 300_000
    replies = bytes(exchange.transport.sent).split(b"HTTP/1.1 200 OK\r\n")[1:]
    assert [reply.partition(b"\r\n\r\n")[2] for reply in replies] == [b"x" * (3 << 20)] * 2


async def test_a_large_reply_waits_for_a_slow_client_no_longer_than_it_may():
    exchange = large_replies(3 << 20, Limits(stalled_seconds=60))
    connection, sent = exchange.connection, exchange.transport.sent
    connection.data_received(GET % 1)
    for _ in range(3):
        await asyncio.sleep(0)
    connection.pause_writing()
    deadline, so_far = connection.deadline, len(sent)
    assert 0 < deadline - time.monotonic() <= 60
    await exchange.settle()
    assert len(sent) == so_far < 3 << 20
    connection.resume_writing()
    for _ in range(3):
        await asyncio.sleep(0)
    connection.pause_writing()
    assert so_far < len(sent) < 3 << 20 and connection.deadline == deadline
    exchange.lose()
    so_far = len(sent)
    await exchange.settle()
    assert len(sent) == so_far and not exchange.server.connections


async def test_a_request_that_timed_out_while_its_body_was_awaited_is_told_so():
    exchange = Exchange()
    await exchange.feed([b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\n", b"ab"])
    exchange.connection.expire()
    await exchange.settle()
    assert exchange.codes == [408] and exchange.transport.closing


async def test_a_client_who_leaves_while_it_is_not_read_from_is_noticed() -> None:
    """It sent more than was asked for, and is gone: only the kernel knows."""
    lost = asyncio.Event()

    class Deaf:
        """Takes nothing, as a command does that does not read its input."""

        def opened(self, wire: Wire) -> None:
            wire.pause()

        def received(self, data: bytes) -> None:
            raise AssertionError("paused")

        def lost(self) -> None:
            lost.set()

    async def handler(request: Request) -> Reply:
        return Reply(101, duplex=Deaf())

    server = HTTPServer(handler, request_type=Request, limits=Limits(header_seconds=0.5))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.listen(listener)
    _, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(GET % 1)

    async def is_paused() -> bool:
        return bool(server.paused)

    await wait_for("the connection to be paused", is_paused)
    writer.close()
    await asyncio.wait_for(lost.wait(), 30)
    await server.drain(0)
    assert not server.connections
    assert not server.paused


@pytest.mark.parametrize("plain", [False, True], ids=["tls", "plain"])
async def test_connections_that_say_nothing_make_room_for_others(plain: bool) -> None:
    async def handler(request: Request) -> Reply:
        return Reply(200)

    tls = None if plain else ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server = HTTPServer(
        handler, request_type=Request, tls=tls, limits=Limits(connections=5), keep_alive=False
    )
    listener = socket.create_server(("127.0.0.1", 0))
    await server.listen(listener)
    idle = [await asyncio.open_connection(*listener.getsockname()) for _ in range(20)]
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(GET % 1)
    answer = await asyncio.wait_for(reader.read(), 30)
    assert (b"HTTP/1.1 200" if plain else b"HTTP request to an HTTPS server") in answer
    ends = [asyncio.ensure_future(one.read()) for one, _ in idle]
    done, _ = await asyncio.wait(ends, timeout=30, return_when=asyncio.FIRST_COMPLETED)
    assert done
    await server.drain(0)
    for _, other in (*idle, (reader, writer)):
        other.close()
    await asyncio.gather(*ends, return_exceptions=True)


async def test_a_plain_connection_that_says_nothing_is_closed_in_the_time_of_a_handshake() -> None:
    async def handler(request: Request) -> Reply:
        return Reply(200)

    limits = Limits(handshake_seconds=0.2, header_seconds=2.0)
    server = HTTPServer(handler, request_type=Request, limits=limits)
    listener = socket.create_server(("127.0.0.1", 0))
    await server.listen(listener)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    started = time.monotonic()
    assert await asyncio.wait_for(reader.read(), 30) == b""
    assert time.monotonic() - started < limits.header_seconds
    writer.close()
    await server.drain(0)


@pytest.mark.parametrize("said", [GET % 1, b"G"], ids=["after a request", "in a head"])
async def test_connections_without_a_request_that_is_answered_make_room_and_others_stay(said: bytes) -> None:
    asked, release = asyncio.Event(), asyncio.Event()

    async def handler(request: Request) -> Reply:
        if request.path == "/2":
            asked.set()
            await release.wait()
        return Reply(200)

    server = HTTPServer(handler, request_type=Request, limits=Limits(connections=5))
    listener = socket.create_server(("127.0.0.1", 0))
    await server.listen(listener)
    busy, busy_writer = await asyncio.open_connection(*listener.getsockname())
    busy_writer.write(GET % 2)
    await asked.wait()
    idle = [await asyncio.open_connection(*listener.getsockname()) for _ in range(4)]
    for _, writer in idle:
        writer.write(said)

    async def are_unused() -> bool:
        return sum(one.unused for one in server.connections) == 4

    await wait_for("the idle connections", are_unused)
    reader, writer = await asyncio.open_connection(*listener.getsockname())
    writer.write(GET % 1)
    assert b"HTTP/1.1 200" in await asyncio.wait_for(reader.readline(), 30)
    release.set()
    assert b"HTTP/1.1 200" in await asyncio.wait_for(busy.readline(), 30)
    await server.drain(0)
    for _, other in (*idle, (reader, writer), (busy, busy_writer)):
        other.close()
