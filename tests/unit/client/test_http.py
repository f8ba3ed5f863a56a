"""The HTTP transport against a server that says exactly what a test wants said."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address

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
from dray.client.connecting import connect
from dray.client.http import HttpTransport
from dray.client.resources import PODS
from dray.client.transport import Unreachable


class Request:
    def __init__(self, head: bytes, body: bytes) -> None:
        first, *lines = head.decode().split("\r\n")
        self.method, self.target, _ = first.split(" ")
        self.headers = [tuple(line.split(": ", 1)) for line in lines if line]
        self.body = body

    def header(self, name: str) -> str:
        return dict(self.headers).get(name, "")


Handler = Callable[[Request, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Counts connections and requests; ``handle`` writes the answer."""

    def __init__(self, handle: Handler) -> None:
        self.handle = handle
        self.requests: list[Request] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n"))[:-4]
                length = dict(Request(head, b"").headers).get("Content-Length", "0")
                request = Request(head, await reader.readexactly(int(length)))
                self.requests.append(request)
                await self.handle(request, reader, writer)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def serving(handle: Handler, *, tls: ssl.SSLContext | None = None) -> AsyncIterator[Server]:
    server = Server(handle)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, ssl=tls)
    port = listening.sockets[0].getsockname()[1]
    server.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
    try:
        yield server
    finally:
        listening.close()


@asynccontextmanager
async def transport_to(server: Server, **config: object) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(Config(server=server.url, **config))  # type: ignore[arg-type]
    try:
        yield transport
    finally:
        await transport.close()


def reply(status: int, body: object, *, headers: str = "", content_type: str = "application/json") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = (
        f"HTTP/1.1 {status} X\r\nContent-Type: {content_type}\r\nContent-Length: {len(data)}\r\n{headers}\r\n"
    )
    return head.encode() + data


def answering(*answers: bytes) -> Handler:
    """Give these answers in turn, the last one again and again."""
    left = list(answers)

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(left.pop(0) if len(left) > 1 else left[0])

    return handle


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def event(event_type: str, **obj: object) -> bytes:
    return json.dumps({"type": event_type, "object": obj}).encode() + b"\n"


STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def test_a_request_says_what_is_wanted_and_the_answer_is_a_document():
    async with (
        serving(answering(reply(201, {"kind": "Pod"}, headers="X-Thing: 1\r\n"))) as server,
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
    async with serving(answering(reply(200, {}))) as server:
        server.url += "/clusters/one/"
        async with transport_to(server) as transport:
            await transport.request("GET", "/api")
    assert server.requests[0].target == "/clusters/one/api"


async def test_what_is_no_json_comes_as_bytes():
    async with (
        serving(answering(reply(200, b"ok", content_type="text/plain"))) as server,
        transport_to(server) as transport,
    ):
        assert (await transport.request("GET", "/healthz")).body == b"ok"


async def test_a_connection_is_used_again():
    async with serving(answering(reply(200, {}))) as server, transport_to(server) as transport:
        for _ in range(5):
            await transport.request("GET", "/api")
        assert server.connections == 1
        await asyncio.gather(*(transport.request("GET", "/api") for _ in range(4)))
        assert server.connections == 4
        await asyncio.gather(*(transport.request("GET", "/api") for _ in range(4)))
    assert server.connections == 4


async def test_a_connection_that_the_server_wants_closed_is_not():
    async with (
        serving(answering(reply(200, {}, headers="Connection: close\r\n"))) as server,
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

    async with serving(handle) as server, transport_to(server) as transport:
        await transport.request("GET", "/api")
        await transport.request("GET", "/api")
    assert [r.method for r in server.requests] == ["GET"] * 3


async def test_a_write_without_an_answer_is_not_sent_twice():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if request.method == "POST":
            writer.close()
        else:
            writer.write(reply(200, {}))

    async with serving(handle) as server, transport_to(server) as transport:
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
    async with serving(answering(reply(status, body))) as server, transport_to(server) as transport:
        with pytest.raises(error) as caught:
            await transport.request("GET", "/api")
    assert type(caught.value) is error
    assert caught.value.status()["reason"] == reason
    assert caught.value.details == {"name": "x"}


async def test_a_failure_without_a_status_is_made_into_one():
    answer = reply(503, b"upstream is down", content_type="text/html")
    async with serving(answering(answer)) as server, transport_to(server) as transport:
        with pytest.raises(ServiceUnavailable, match="upstream is down") as caught:
            await transport.request("GET", "/api")
    assert caught.value.status()["code"] == 503


async def test_who_is_put_off_comes_back():
    busy = reply(
        429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, headers="Retry-After: 0\r\n"
    )
    async with (
        serving(answering(busy, busy, reply(200, {"ok": True}))) as server,
        transport_to(server) as transport,
    ):
        assert (await transport.request("POST", "/api", body={})).object == {"ok": True}
    assert len(server.requests) == 3


async def test_who_is_put_off_for_ever_gives_up():
    busy = reply(
        429, {"kind": "Status", "code": 429, "reason": "TooManyRequests"}, headers="Retry-After: 0\r\n"
    )
    async with serving(answering(busy)) as server, transport_to(server) as transport:
        with pytest.raises(TooManyRequests):
            await transport.request("GET", "/api")
    assert len(server.requests) == 11


async def test_no_answer_in_time_and_no_server_at_all_are_unreachable():
    async def silent(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with serving(silent) as server, transport_to(server) as transport:
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

    async with serving(handle) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable):
            await transport.request("GET", "/api")


async def test_a_body_without_a_length_ends_with_the_connection():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{"a": 1}')
        await writer.drain()
        writer.close()

    async with serving(handle) as server, transport_to(server) as transport:
        assert (await transport.request("GET", "/api")).object == {"a": 1}


async def test_a_watch_gives_events_in_batches_however_they_are_cut():
    events = event("ADDED", a=1) + event("MODIFIED", a=2) + event("DELETED", a=3)
    go_on = asyncio.Event()

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(events[:50]))
        await writer.drain()
        await go_on.wait()
        writer.write(chunk(events[50:]) + b"0\r\n\r\n")

    async with serving(handle) as server, transport_to(server) as transport:
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
        serving(answering(STREAM_HEAD + chunk(stream_body))) as server,
        transport_to(server) as transport,
        transport.watch("/x", query={"watch": "true"}) as stream,
    ):
        assert [e.type for e in await anext(stream)] == ["ADDED"]
        with pytest.raises(Expired, match="too old"):
            await anext(stream)


async def test_a_watch_that_is_refused_raises_at_once():
    refusal = reply(403, {"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"})
    async with serving(answering(refusal)) as server, transport_to(server) as transport:
        with pytest.raises(StatusError, match="no"):
            async with transport.watch("/x"):
                pass


async def test_a_watch_whose_server_dies_is_unreachable():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(STREAM_HEAD + chunk(event("ADDED")))
        await writer.drain()
        writer.close()

    async with serving(handle) as server, transport_to(server) as transport, transport.watch("/x") as stream:
        await anext(stream)
        with pytest.raises(Unreachable):
            await anext(stream)


async def test_a_server_that_sends_faster_than_we_read_is_made_to_wait(monkeypatch):
    monkeypatch.setattr("dray.client.wire.HIGH_WATER", 100_000)
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
        serving(handle) as server,
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
    async with serving(answering(reply(200, {}))) as server:
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
        serving(answering(reply(200, {}))) as server,
        transport_to(server, token="a\r\nX: y") as transport,
    ):
        with pytest.raises(Exception, match="line break"):
            await transport.request("GET", "/")
    assert not server.requests


# TLS


class Authority:
    """Certificates for one test."""

    def __init__(self) -> None:
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        def name(text: str) -> x509.Name:
            return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])

        def build(
            subject: str, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey, *, ca: bool
        ) -> bytes:
            now = datetime.now(UTC)
            names = x509.SubjectAlternativeName(
                [x509.DNSName("api.example.com"), x509.IPAddress(ip_address("127.0.0.1"))][
                    : 1 if subject == "named" else 2
                ]
            )
            certificate = (
                x509.CertificateBuilder()
                .subject_name(name(subject))
                .issuer_name(name("authority"))
                .public_key(key.public_key())
                .serial_number(x509.random_serial_number())
                .not_valid_before(now - timedelta(hours=1))
                .not_valid_after(now + timedelta(hours=1))
                .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
                .add_extension(names, critical=False)
                .sign(signer, hashes.SHA256())
            )
            return certificate.public_bytes(serialization.Encoding.PEM)

        root = ec.generate_private_key(ec.SECP256R1())
        self.ca = build("authority", root, root, ca=True)
        self._build, self._root = build, root
        self._serialization, self._ec = serialization, ec

    def issue(self, subject: str) -> tuple[bytes, bytes]:
        key = self._ec.generate_private_key(self._ec.SECP256R1())
        encoding = self._serialization
        pem = key.private_bytes(encoding.Encoding.PEM, encoding.PrivateFormat.PKCS8, encoding.NoEncryption())
        return self._build(subject, key, self._root, ca=False), pem

    def server_context(self, tmp_path, subject: str = "server", *, client: bool = False) -> ssl.SSLContext:
        certificate, key = self.issue(subject)
        (tmp_path / "server.pem").write_bytes(certificate + key)
        (tmp_path / "ca.pem").write_bytes(self.ca)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tmp_path / "server.pem")
        if client:
            context.verify_mode = ssl.CERT_REQUIRED
            context.load_verify_locations(tmp_path / "ca.pem")
        return context


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


async def test_a_server_is_trusted_by_its_authority_only(authority, tmp_path):
    tls = authority.server_context(tmp_path)
    async with serving(answering(reply(200, {"ok": 1})), tls=tls) as server:
        async with transport_to(server, ca=authority.ca) as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}
        async with transport_to(server, ca=Authority().ca) as transport:
            with pytest.raises(Unreachable, match="not trusted"):
                await transport.request("GET", "/")
        async with transport_to(server, insecure=True) as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}


async def test_a_server_may_have_another_name_than_its_address(authority, tmp_path):
    tls = authority.server_context(tmp_path, "named")
    async with serving(answering(reply(200, {"ok": 1})), tls=tls) as server:
        async with transport_to(server, ca=authority.ca) as transport:
            with pytest.raises(Unreachable, match="not trusted"):
                await transport.request("GET", "/")
        async with transport_to(server, ca=authority.ca, server_name="api.example.com") as transport:
            assert (await transport.request("GET", "/")).object == {"ok": 1}


async def test_a_client_certificate_is_shown(authority, tmp_path):
    seen = []

    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        seen.append(writer.get_extra_info("peercert")["subject"])
        writer.write(reply(200, {}))

    certificate, key = authority.issue("jane")
    async with serving(handle, tls=authority.server_context(tmp_path, client=True)) as server:
        async with transport_to(server, ca=authority.ca, certificate=certificate, key=key) as transport:
            await transport.request("GET", "/")
        async with transport_to(server, ca=authority.ca) as transport:
            with pytest.raises(Unreachable):
                await transport.request("GET", "/")
    assert seen == [((("commonName", "jane"),),)]


# WebSocket


def server_frame(opcode: int, payload: bytes, *, final: bool = True) -> bytes:
    length = len(payload)
    size = bytes([length]) if length < 126 else b"\x7f" + length.to_bytes(8, "big")
    return bytes([(0x80 if final else 0) | opcode]) + size + payload


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    first, second = await reader.readexactly(2)
    assert second & 0x80, "a client must mask"
    length = second & 0x7F
    if length >= 126:
        length = int.from_bytes(await reader.readexactly(2 if length == 126 else 8), "big")
    mask = await reader.readexactly(4)
    data = await reader.readexactly(length)
    return first & 0x0F, bytes(byte ^ mask[i % 4] for i, byte in enumerate(data))


def accept(request: Request) -> bytes:
    digest = hashlib.sha1(
        request.header("Sec-WebSocket-Key").encode() + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
    ).digest()
    return (
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        b"Sec-WebSocket-Protocol: v4.channel.k8s.io\r\nSec-WebSocket-Accept: "
        + base64.b64encode(digest)
        + b"\r\n\r\n"
    )


async def test_exec_talks_over_a_websocket():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # The first message comes along with the head; messages may be pinged between and cut in pieces.
        writer.write(accept(request) + server_frame(2, b"\x01hello"))
        opcode, received = await read_frame(reader)
        assert opcode == 2
        writer.write(
            server_frame(2, b"\x01", final=False) + server_frame(9, b"ping") + server_frame(0, received[1:])
        )
        assert await read_frame(reader) == (10, b"ping")
        writer.write(server_frame(2, b"\x02" + b"y" * 70_000) + server_frame(8, b"\x03\xe8"))
        assert (await read_frame(reader))[0] == 8

    async with (
        serving(handle) as server,
        transport_to(server, token="t") as transport,
        Client(transport).exec("a", "p", ["sh", "-c", "x y"], container="c", stdin=True) as socket,
    ):
        assert socket.subprotocol == "v4.channel.k8s.io"
        assert await socket.receive() == b"\x01hello"
        await socket.send(b"\x00" + b"z" * 300)
        assert await socket.receive() == b"\x01" + b"z" * 300
        assert await socket.receive() == b"\x02" + b"y" * 70_000
        assert await socket.receive() is None
    request = server.requests[0]
    assert request.target == (
        "/api/v1/namespaces/a/pods/p/exec?command=sh&command=-c&command=x+y&container=c&stdin=true&stdout=true&stderr=true"
    )
    assert request.header("Sec-WebSocket-Protocol") == "v5.channel.k8s.io, v4.channel.k8s.io"
    assert request.header("Authorization") == "Bearer t"


async def test_an_upgrade_that_is_refused_says_why():
    refusal = reply(
        404, {"kind": "Status", "code": 404, "reason": "NotFound", "message": 'pods "p" not found'}
    )
    async with serving(answering(refusal)) as server, transport_to(server) as transport:
        with pytest.raises(NotFound, match='pods "p" not found'):
            async with Client(transport).exec("a", "p", ["sh"]):
                pass


async def test_an_upgrade_to_something_else_is_not_believed():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n"
        )

    async with serving(handle) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable, match="no WebSocket"):
            async with transport.upgrade("/x", subprotocols=["a"]):
                pass


async def test_a_websocket_whose_server_dies_ends():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(accept(request) + b"\x82\x7e")
        await writer.drain()
        writer.close()

    async with (
        serving(handle) as server,
        transport_to(server) as transport,
        transport.upgrade("/x", subprotocols=["v4.channel.k8s.io"]) as socket,
    ):
        assert await socket.receive() is None
