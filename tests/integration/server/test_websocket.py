"""Watches and logs over WebSocket, as browsers and some client libraries ask for them."""

from __future__ import annotations

import json
from pathlib import Path

import aiohttp

from dray.api.errors import InternalError
from dray.server.endpoints.websocket import WebSocketStream, binary_frame
from dray.wire.websocket import FrameReader
from tests.support.tls_server import reached

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"


async def test_each_event_of_a_watch_is_a_message(tmp_path: Path):
    async with reached(tmp_path) as api:
        url = f"{api.server.url}{CONFIG_MAPS}?watch=1"
        async with api.session.ws_connect(url) as socket:
            for name in ("a", "b"):
                await api.call("POST", CONFIG_MAPS, json={"metadata": {"name": name}})
            names = []
            while len(names) < 2:
                message = await socket.receive(timeout=10)
                assert message.type is aiohttp.WSMsgType.TEXT
                names.append(json.loads(message.data)["object"]["metadata"]["name"])
        assert names == ["a", "b"]
        async with api.session.ws_connect(url, protocols=["base64url.x"]) as socket:
            assert socket.protocol == "base64url.x"
            assert json.loads((await socket.receive(timeout=10)).data)["type"] == "ADDED"


class Wire:
    congested = closed = False

    def __init__(self) -> None:
        self.data = b""

    def write(self, data: bytes) -> None:
        self.data += data

    async def drained(self) -> None: ...
    def pause(self) -> None: ...
    def resume(self) -> None: ...
    def close(self) -> None:
        self.closed = True


async def test_a_stream_ends_with_a_close_frame():
    class Lines:
        closed = False

        async def run(self, sink) -> None:
            for line in (b"one", b"", b"two"):
                sink.write(line)

        def close(self) -> None:
            self.closed = True

    wire, lines = Wire(), Lines()
    stream = WebSocketStream(lines, binary_frame)
    stream.opened(wire)
    assert stream._task is not None
    await stream._task
    assert FrameReader(expects_masked=False).feed(wire.data) == [(2, b"one"), (2, b"two"), (8, b"\x03\xe8")]
    assert wire.closed
    stream.lost()
    assert lines.closed


async def test_a_stream_that_fails_ends_the_connection():
    class Failing:
        async def run(self, sink) -> None:
            sink.write(b"one")
            raise InternalError("the webhook is gone")

        def close(self) -> None: ...

    wire = Wire()
    stream = WebSocketStream(Failing(), binary_frame)
    stream.opened(wire)
    assert stream._task is not None
    await stream._task
    assert wire.closed
    assert FrameReader(expects_masked=False).feed(wire.data) == [(2, b"one")]
