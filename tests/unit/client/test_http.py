from __future__ import annotations

import asyncio
import json

import pytest

from dray.api.errors import (
    Conflict,
    Expired,
    NotFound,
    ServiceUnavailable,
    StatusError,
    TooManyRequests,
    Unauthorized,
)
from dray.client.client import Client
from dray.client.config import Config
from dray.client.factory import connect
from dray.client.http import HttpTransport
from dray.client.resources import PODS
from dray.client.transport import Unreachable
from tests.support.http_peer import (
    STREAM_HEAD,
    Request,
    chunk,
    event,
    http_peer,
    replies,
    reply,
    transport_to,
)


async def test_a_request_says_what_is_wanted_and_the_answer_is_a_document():
    async with (
        http_peer(replies(reply(201, {"kind": "Pod"}, headers="X-Thing: 1\r\n"))) as server,
        transport_to(server) as transport,
    ):
        answer = await transport.request("POST", "/api/v1/x y", query={"a": "b c&d"}, body={"k": "ü"})
    request = server.requests[0]
    assert (request.method, request.target) == ("POST", "/api/v1/x%20y?a=b+c%26d")
    assert json.loads(request.body) == {"k": "ü"}
    assert request.header("Content-Type") == "application/json"
    assert request.header("Host") == server.url.removeprefix("http://")
    assert (answer.status, answer.object, answer.headers["x-thing"]) == (201, {"kind": "Pod"}, "1")


async def test_a_prefix_in_the_address_stays_in_front():
    async with http_peer(replies(reply(200, {}))) as server:
        server.url += "/clusters/one/"
        async with transport_to(server) as transport:
            await transport.request("GET", "/api")
    assert server.requests[0].target == "/clusters/one/api"


async def test_what_is_no_json_comes_as_bytes():
    async with (
        http_peer(replies(reply(200, b"ok", content_type="text/plain"))) as server,
        transport_to(server) as transport,
    ):
        assert (await transport.request("GET", "/healthz")).body == b"ok"


async def test_a_connection_is_used_again():
    async with http_peer(replies(reply(200, {}))) as server, transport_to(server) as transport:
        for _ in range(5):
            await transport.request("GET", "/api")
        assert server.connections == 1
        await asyncio.gather(*(transport.request("GET", "/api") for _ in range(4)))
        assert server.connections == 4
        await asyncio.gather(*(transport.request("GET", "/api") for _ in range(4)))
    assert server.connections == 4


async def test_no_more_connections_are_opened_than_help(monkeypatch):
    monkeypatch.setattr("dray.client.http.CONNECTIONS", 4)
    async with http_peer(replies(reply(200, {}))) as server, transport_to(server) as transport:
        await asyncio.gather(*(transport.request("GET", "/api") for _ in range(50)))
    assert (len(server.requests), server.connections) == (50, 4)


async def test_a_connection_that_the_server_wants_closed_is_not():
    async with (
        http_peer(replies(reply(200, {}, headers="Connection: close\r\n"))) as server,
        transport_to(server) as transport,
    ):
        await transport.request("GET", "/api")
        await transport.request("GET", "/api")
    assert server.connections == 2


async def test_a_kept_connection_that_died_does_not_fail_a_read():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(server.requests) == 2:
            writer.close()  # without an answer, as a server that restarts
        else:
            writer.write(reply(200, {}))

    async with http_peer(handle) as server, transport_to(server) as transport:
        await transport.request("GET", "/api")
        await transport.request("GET", "/api")
    assert [r.method for r in server.requests] == ["GET"] * 3


async def test_a_write_without_an_answer_is_not_sent_twice():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST":
            writer.close()
        else:
            writer.write(reply(200, {}))

    async with http_peer(handle) as server, transport_to(server) as transport:
        await transport.request("GET", "/api")
        with pytest.raises(Unreachable):
            await transport.request("POST", "/api", body={})
    assert [r.method for r in server.requests] == ["GET", "POST"]


@pytest.mark.parametrize(
    ("status", "reason", "error"),
    [
        (404, "NotFound", NotFound),
        (409, "Conflict", Conflict),
        (410, "Expired", Expired),
        (401, "Unauthorized", Unauthorized),
        (418, "Teapot", StatusError),
    ],
)
async def test_a_status_becomes_the_error_it_stands_for(status, reason, error):
    body = {"kind": "Status", "message": "no", "reason": reason, "code": status, "details": {"name": "x"}}
    async with http_peer(replies(reply(status, body))) as server, transport_to(server) as transport:
        with pytest.raises(error) as caught:
            await transport.request("GET", "/api")
    assert type(caught.value) is error
    assert caught.value.status()["reason"] == reason
    assert caught.value.details == {"name": "x"}


async def test_a_failure_without_a_status_is_made_into_one():
    answer = reply(503, b"upstream is down", content_type="text/html")
    async with http_peer(replies(answer)) as server, transport_to(server) as transport:
        with pytest.raises(ServiceUnavailable, match="upstream is down") as caught:
            await transport.request("GET", "/api")
    assert caught.value.status()["code"] == 503


async def test_who_is_put_off_comes_back():
    busy = reply(
        429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, headers="Retry-After: 0\r\n"
    )
    async with (
        http_peer(replies(busy, busy, reply(200, {"ok": True}))) as server,
        transport_to(server) as transport,
    ):
        assert (await transport.request("POST", "/api", body={})).object == {"ok": True}
    assert len(server.requests) == 3


async def test_who_is_put_off_for_ever_gives_up():
    busy = reply(
        429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, headers="Retry-After: 0\r\n"
    )
    async with http_peer(replies(busy)) as server, transport_to(server) as transport:
        with pytest.raises(TooManyRequests):
            await transport.request("GET", "/api")
    assert len(server.requests) == 11


async def test_no_answer_in_time_and_no_server_at_all_are_unreachable():
    async def silent(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with http_peer(silent) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable, match="no answer"):
            await transport.request("GET", "/api", timeout=0.01)
    async with connect(Config(server=server.url)) as client:
        with pytest.raises(Unreachable, match="cannot be reached"):
            await client.get(PODS, "a", "b")


@pytest.mark.parametrize(
    "answer",
    [b"SSH-2.0-OpenSSH\r\n\r\n", reply(200, b"{not json"), b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nab"],
)
async def test_nonsense_is_unreachable_too(answer):
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with http_peer(handle) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable):
            await transport.request("GET", "/api")


async def test_a_body_without_a_length_ends_with_the_connection():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"a": 1}')
        await writer.drain()
        writer.close()

    async with http_peer(handle) as server, transport_to(server) as transport:
        assert (await transport.request("GET", "/api")).object == {"a": 1}


async def test_a_watch_gives_events_in_batches_however_they_are_cut():
    events = event("ADDED", a=1) + event("MODIFIED", a=2) + event("DELETED", a=3)
    go_on = asyncio.Event()

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(events[:50]))
        await writer.drain()
        await go_on.wait()
        writer.write(chunk(events[50:]) + b"0\r\n\r\n")

    async with http_peer(handle) as server, transport_to(server) as transport:
        async with Client(transport).watch(PODS, "a", resource_version="5", timeout_seconds=7) as stream:
            first = await anext(stream)
            go_on.set()
            rest = [event for batch in [b async for b in stream] for event in batch]
        assert [(e.type, e.object["a"]) for e in [*first, *rest]] == [
            ("ADDED", 1),
            ("MODIFIED", 2),
            ("DELETED", 3),
        ]
    target = server.requests[0].target
    assert target.startswith("/api/v1/namespaces/a/pods?watch=true&resourceVersion=5")
    assert "timeoutSeconds=7" in target and "allowWatchBookmarks=true" in target


async def test_an_error_in_a_watch_is_raised_after_what_came_before_it():
    status = {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
    stream_body = event("ADDED", a=1) + event("ERROR", **status)
    async with (
        http_peer(replies(STREAM_HEAD + chunk(stream_body))) as server,
        transport_to(server) as transport,
        transport.watch("/x", query={"watch": "true"}) as stream,
    ):
        assert [e.type for e in await anext(stream)] == ["ADDED"]
        with pytest.raises(Expired, match="too old"):
            await anext(stream)


async def test_a_watch_that_is_refused_raises_at_once():
    refusal = reply(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
    async with http_peer(replies(refusal)) as server, transport_to(server) as transport:
        with pytest.raises(StatusError, match="no"):
            async with transport.watch("/x"):
                pass


async def test_a_watch_whose_server_dies_is_unreachable():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(event("ADDED")))
        await writer.drain()
        writer.close()

    async with (
        http_peer(handle) as server,
        transport_to(server) as transport,
        transport.watch("/x") as stream,
    ):
        await anext(stream)
        with pytest.raises(Unreachable):
            await anext(stream)


async def test_clients_spread_over_the_servers_and_each_stays_with_its_own():
    asked: list[str] = []

    def answering(name: str):
        async def handle(request, reader, writer):
            asked.append(name)
            writer.write(reply(200, {}))

        return handle

    async with http_peer(answering("one")) as one, http_peer(answering("two")) as two:
        for _ in range(40):
            transport = HttpTransport(Config(server=one.url, other_servers=(two.url,)))
            for _ in range(3):
                await transport.request("GET", "/x")
            await transport.close()
            assert len(set(asked[-3:])) == 1
        assert 0 < asked.count("one") < len(asked)  # each of 40 chose the same: once in 10¹¹ runs


async def test_a_watch_that_falls_silent_is_given_up_and_the_next_server_is_used(monkeypatch):
    monkeypatch.setattr("dray.client.http.WATCH_SILENCE", 0.05)
    asked: list[str] = []

    def answering(name: str):
        async def handle(request, reader, writer):
            asked.append(name)
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")

        return handle

    async with http_peer(answering("one")) as one, http_peer(answering("two")) as two:
        transport = HttpTransport(Config(server=one.url, other_servers=(two.url,)))
        for _ in range(2):
            with pytest.raises(Unreachable):
                async with transport.watch("/x", query={"allowWatchBookmarks": "true"}) as events:
                    async for _ in events:
                        pass
        assert sorted(asked) == ["one", "two"]
        await transport.close()


async def test_a_server_that_sends_faster_than_we_read_is_made_to_wait(monkeypatch):
    monkeypatch.setattr("dray.wire.client_connection.HIGH_WATER", 100_000)
    sent = 0

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(STREAM_HEAD)
        for _ in range(1000):
            writer.write(chunk(b"x" * 99_999 + b"\n"))
            await writer.drain()
            sent += 1
        writer.write(b"0\r\n\r\n")

    async with (
        http_peer(handle) as server,
        transport_to(server) as transport,
        transport.stream("/log") as pieces,
    ):
        before = -1
        while before != sent:  # until the server is stuck
            before = sent
            await asyncio.sleep(0.02)
        assert sent < 900
        assert sum([len(piece) async for piece in pieces]) == 100_000_000


async def test_credentials_go_along(tmp_path):
    token = tmp_path / "token"
    token.write_text("secret-2\n")
    async with http_peer(replies(reply(200, {}))) as server:
        for config in (
            {"token": "secret"},
            {"token_file": token},
            {"username": "u", "password": "p"},
            {
                "impersonate": "jane",
                "impersonate_groups": ("a", "b"),
                "impersonate_extra": (("Scope/x", "1"),),
            },
        ):
            async with transport_to(server, **config) as transport:
                await transport.request("GET", "/")
    assert [r.header("Authorization") for r in server.requests] == [
        "Bearer secret",
        "Bearer secret-2",
        "Basic dTpw",
        "",
    ]
    assert [h for h in server.requests[3].headers if h[0].startswith("Impersonate")] == [
        ("Impersonate-User", "jane"),
        ("Impersonate-Group", "a"),
        ("Impersonate-Group", "b"),
        ("Impersonate-Extra-Scope%2Fx", "1"),
    ]


async def test_a_header_cannot_be_smuggled_in():
    async with (
        http_peer(replies(reply(200, {}))) as server,
        transport_to(server, token="a\r\nX: y") as transport,
    ):
        with pytest.raises(Exception, match="line break"):
            await transport.request("GET", "/")
    assert not server.requests
