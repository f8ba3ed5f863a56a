"""Sessions and forwarded ports over SPDY: our own client and server, which speak as Go's do."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dray.api.errors import BadRequest, Forbidden, InternalError
from dray.node.streaming import handshake, portforward
from dray.node.streaming.portforward import SpdyPortForward
from dray.node.streaming.remotecommand_spdy import SpdyCommand
from dray.runtimes.interface import PortConnection, Session
from dray.wire import spdy, websocket
from dray.wire.duplex import Duplex, Throttle
from tests.support.echo_session import EchoSession


class Cable:
    """The wire to a peer in the same test: what is written arrives there, in pieces of any length."""

    closed = False

    def __init__(self, peer: Duplex, *, piece: int = 1 << 20) -> None:
        self.peer = peer
        self.piece = piece
        self.paused = False
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data
        for start in range(0, len(data), self.piece):
            asyncio.get_running_loop().call_soon(self.peer.received, data[start : start + self.piece])

    async def drained(self) -> None:
        return

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            asyncio.get_running_loop().call_soon(self.peer.lost)

    def pause(self) -> None:
        self.paused = True

    def resume(self) -> None:
        self.paused = False


def connect(server: Duplex, *, piece: int = 1 << 20) -> tuple[spdy.Connection, Cable]:
    """A client of the server; and the server's way to it."""
    client = spdy.Connection(client=True)
    to_client = Cable(client, piece=piece)
    client.opened(Cable(server, piece=piece))
    server.opened(to_client)
    return client, to_client


async def everything(stream: spdy.Stream) -> bytes:
    return b"".join([piece async for piece in stream.pieces()])


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
        client, _ = connect(spdy.Connection(on_stream=arrived.append), piece=piece)
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
    client, cable = connect(spdy.Connection(on_stream=arrived.append))
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
        _, cable = connect(server)
        server.received(nonsense)
        assert cable.closed
    assert len(gone) == 4


async def test_pings_are_answered() -> None:
    server = spdy.Connection()
    _, cable = connect(server)
    ping = b"\x80\x03\x00\x06\x00\x00\x00\x04\x00\x00\x00\x05"
    server.received(ping)
    assert cable.written == ping


def command(echo: EchoSession, *streams: str, protocol: str = "v4.channel.k8s.io") -> SpdyCommand:
    async def start() -> Session:
        return echo

    return SpdyCommand(start, protocol=protocol, streams=streams)


async def test_a_command_gets_its_streams_and_tells_its_exit_code() -> None:
    echo = EchoSession()
    client, cable = connect(command(echo, "stdin", "stdout", "stderr", "resize"))
    kinds = ("error", "stdin", "stdout", "stderr", "resize")
    streams = {kind: client.open_stream({"streamType": kind}) for kind in kinds}
    await streams["resize"].write(b'{"Width":80,"Hei')
    await streams["resize"].write(b'ght":24}\n')
    await streams["stdin"].write(b"hello")
    await streams["stdin"].write(b"!oops")
    while not echo.sizes:  # noqa: ASYNC110  (bounded by the test's own limit)
        await asyncio.sleep(0.001)
    streams["stdin"].end()
    assert await everything(streams["stdout"]) == b"hello"
    assert await everything(streams["stderr"]) == b"!oops"
    status = json.loads(await everything(streams["error"]))
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]
    assert echo.sizes == [(24, 80)]
    assert echo.closed and cable.closed


async def test_old_clients_are_told_in_words() -> None:
    client, _ = connect(command(EchoSession(), "stdin", "stdout", protocol="v2.channel.k8s.io"))
    streams = {kind: client.open_stream({"streamType": kind}) for kind in ("error", "stdin", "stdout")}
    streams["stdin"].end()
    assert await everything(streams["error"]) == b"command terminated with non-zero exit code: exit status 3"


async def test_a_client_that_leaves_ends_the_command() -> None:
    echo = EchoSession()
    served = command(echo, "stdout")
    client, _ = connect(served)
    for kind in ("error", "stdout"):
        client.open_stream({"streamType": kind})
    await asyncio.sleep(0.01)
    served.lost()
    await served.finished()
    assert echo.closed


class Target:
    """What listens on a port: it says back what it hears, in capitals."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[bytes] = asyncio.Queue()
        self.closed = False

    async def received(self) -> AsyncIterator[bytes]:
        while data := await self.queue.get():
            yield data

    async def send(self, data: bytes) -> None:
        self.queue.put_nowait(data.upper())

    async def end(self) -> None:
        self.queue.put_nowait(b"")

    async def close(self) -> None:
        self.closed = True


def pair(client: spdy.Connection, port: int, request: str) -> tuple[spdy.Stream, spdy.Stream]:
    headers = {"port": str(port), **({"requestID": request} if request else {})}
    errors = client.open_stream({"streamType": "error", **headers})
    return client.open_stream({"streamType": "data", **headers}), errors


async def reach(port: int) -> PortConnection:
    if port == 1:
        raise InternalError("connection refused")
    return Target()


@pytest.mark.parametrize("tunnelled", [False, True])
async def test_connections_to_ports_are_independent_of_each_other(tunnelled: bool) -> None:
    served = SpdyPortForward(reach, pod="p", uid="u")
    client = spdy.Connection(client=True)
    if tunnelled:
        tunnel = websocket.Tunnel(served)
        client.opened(_Masking(tunnel))
        tunnel.opened(Cable(_Unframing(client)))
    else:
        client.opened(Cable(served))
        served.opened(Cable(client))
    (one, one_errors), (two, two_errors) = pair(client, 80, "0"), pair(client, 81, "1")
    refused, refused_errors = pair(client, 1, "2")
    await two.write(b"two")
    await one.write(b"one")
    assert (await one.read(), await two.read()) == (b"ONE", b"TWO")
    one.end()
    assert await everything(one) == await everything(one_errors) == b""
    text = b"error forwarding port 1 to pod p, uid u: connection refused"
    assert (await everything(refused_errors), await everything(refused)) == (text, b"")
    await two.write(b"still")
    assert await two.read() == b"STILL"
    two.end()
    assert await everything(two_errors) == b""


async def test_clients_of_old_send_no_request_ids() -> None:
    client, _ = connect(SpdyPortForward(reach, pod="p", uid="u"))
    data, _ = pair(client, 80, "")
    await data.write(b"x")
    assert await data.read() == b"X"


async def test_a_stream_without_a_port_is_refused() -> None:
    client, _ = connect(SpdyPortForward(reach, pod="p", uid="u"))
    stream = client.open_stream({"streamType": "data", "port": "0"})
    assert await everything(stream) == b""


async def test_ports_go_over_plain_channels_too() -> None:
    served = portforward.WebSocketPortForward(reach, ports=(80, 1), pod="p", uid="u")
    got: list[bytes] = []

    class Client:
        def opened(self, wire: Any) -> None: ...

        def lost(self) -> None: ...

        def received(self, data: bytes) -> None:
            got.append(data[2:])

    served.opened(Cable(Client()))
    served.received(masked(b"\x00hello"))
    while len(got) < 6:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert got[:4] == [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x01\x00", b"\x03\x01\x00"]
    assert b"\x00HELLO" in got
    assert b"\x03error forwarding port 1 to pod p, uid u: connection refused" in got
    served.lost()
    await served.finished()


def masked(data: bytes) -> bytes:
    """A client's binary message, with a mask that changes nothing."""
    head = (
        bytes([0x82, 0x80 | len(data)])
        if len(data) < 126
        else bytes([0x82, 0xFE, *len(data).to_bytes(2, "big")])
    )
    return head + bytes(4) + data


class _Masking(Cable):
    """A client's wire whose bytes go out as WebSocket messages."""

    def write(self, data: bytes) -> None:
        super().write(masked(data))


class _Unframing:
    """A client that takes a server's messages apart; each was written at once."""

    def __init__(self, inner: spdy.Connection) -> None:
        self.inner = inner

    def opened(self, wire: Any) -> None: ...

    def lost(self) -> None: ...

    def received(self, data: bytes) -> None:
        while data:
            length, start = data[1], 2
            if length == 126:
                length, start = int.from_bytes(data[2:4], "big"), 4
            if data[0] & 15 == websocket.BINARY:
                self.inner.received(data[start : start + length])
            data = data[start + length :]


async def _never() -> Session:
    raise AssertionError


def test_the_handshake_takes_the_first_protocol_that_both_know() -> None:
    headers = {
        "upgrade": ["SPDY/3.1"],
        "x-stream-protocol-version": ["v9.channel.k8s.io", "v3.channel.k8s.io", "v4.channel.k8s.io"],
    }
    upgrade = handshake.for_command(lambda n: headers.get(n, []), _never, streams=["stdout"], tty=False)
    assert upgrade.headers == (
        ("Upgrade", "SPDY/3.1"),
        ("Connection", "Upgrade"),
        ("X-Stream-Protocol-Version", "v3.channel.k8s.io"),
    )
    headers["x-stream-protocol-version"] = ["v9.channel.k8s.io"]
    with pytest.raises(Forbidden, match=r"client supports \[v9.channel.k8s.io\]"):
        handshake.for_command(lambda n: headers.get(n, []), _never, streams=[], tty=False)
    del headers["x-stream-protocol-version"]
    forward = handshake.for_ports(lambda n: headers.get(n, []), reach, asked=(), pod="p", uid="u")
    assert forward.headers == (("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade"))


def test_plain_channels_need_to_know_the_ports() -> None:
    headers = {"upgrade": ["websocket"], "sec-websocket-protocol": ["v4.channel.k8s.io"]}
    with pytest.raises(BadRequest, match='"port" is required'):
        handshake.for_ports(lambda n: headers.get(n, []), reach, asked=(), pod="p", uid="u")
