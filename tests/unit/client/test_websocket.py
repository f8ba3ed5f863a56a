from __future__ import annotations

import asyncio
import base64
import hashlib

import pytest

from dray.api.errors import (
    NotFound,
)
from dray.client.client import Client
from dray.client.transport import Unreachable
from tests.support.http_peer import Request, http_peer, replies, reply, transport_to


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
        http_peer(handle) as server,
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
    async with http_peer(replies(refusal)) as server, transport_to(server) as transport:
        with pytest.raises(NotFound, match='pods "p" not found'):
            async with Client(transport).exec("a", "p", ["sh"]):
                pass


async def test_an_upgrade_to_something_else_is_not_believed():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(
            b"HTTP/1.1 101 X\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n"
        )

    async with http_peer(handle) as server, transport_to(server) as transport:
        with pytest.raises(Unreachable, match="no WebSocket"):
            async with transport.upgrade("/x", subprotocols=["a"]):
                pass


async def test_a_websocket_whose_server_dies_ends():
    async def handle(request: Request, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(accept(request) + b"\x82\x7e")
        await writer.drain()
        writer.close()

    async with (
        http_peer(handle) as server,
        transport_to(server) as transport,
        transport.upgrade("/x", subprotocols=["v4.channel.k8s.io"]) as socket,
    ):
        assert await socket.receive() is None
