"""Forwarded ports over SPDY, over SPDY in a WebSocket, and over plain channels."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from dray.api.errors import InternalError
from dray.node.streaming import portforward
from dray.node.streaming.portforward import SpdyPortForward
from dray.runtimes.interface import PortConnection
from dray.wire import spdy, websocket
from tests.support.cable import Cable, everything, spdy_client


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
    client, _ = spdy_client(SpdyPortForward(reach, pod="p", uid="u"))
    data, _ = pair(client, 80, "")
    await data.write(b"x")
    assert await data.read() == b"X"


@pytest.mark.parametrize("port", ["0", "", "x", "65536", "9" * 5000, "²"])
async def test_a_stream_without_a_port_is_refused(port: str) -> None:
    client, _ = spdy_client(SpdyPortForward(reach, pod="p", uid="u"))
    stream = client.open_stream({"streamType": "data", "port": port})
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
    served.received(websocket.frame(websocket.BINARY, b"\x00hello", masked=True))
    while len(got) < 6:  # noqa: ASYNC110
        await asyncio.sleep(0.001)
    assert got[:4] == [b"\x00\x50\x00", b"\x01\x50\x00", b"\x02\x01\x00", b"\x03\x01\x00"]
    assert b"\x00HELLO" in got
    assert b"\x03error forwarding port 1 to pod p, uid u: connection refused" in got
    served.lost()


class _Masking(Cable):
    """A client's wire whose bytes go out as WebSocket messages."""

    def write(self, data: bytes) -> None:
        super().write(websocket.frame(websocket.BINARY, data, masked=True))


class _Unframing:
    """A client that takes a server's messages apart."""

    def __init__(self, inner: spdy.Connection) -> None:
        self.inner = inner
        self.frames = websocket.FrameReader(expects_masked=False)

    def opened(self, wire: Any) -> None: ...

    def lost(self) -> None: ...

    def received(self, data: bytes) -> None:
        for opcode, message in self.frames.feed(data):
            if opcode == websocket.BINARY:
                self.inner.received(message)
