from __future__ import annotations

from typing import Any

import pytest

from dray.api.errors import BadRequest, Forbidden
from dray.node.streaming import handshake


async def _never(*_: object) -> Any:
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
    forward = handshake.for_ports(lambda n: headers.get(n, []), _never, asked=(), pod="p", uid="u")
    assert forward.headers == (("Upgrade", "SPDY/3.1"), ("Connection", "Upgrade"))


def test_plain_channels_need_to_know_the_ports() -> None:
    headers = {"upgrade": ["websocket"], "sec-websocket-protocol": ["v4.channel.k8s.io"]}
    with pytest.raises(BadRequest, match='"port" is required'):
        handshake.for_ports(lambda n: headers.get(n, []), _never, asked=(), pod="p", uid="u")


def test_the_handshake_answers_as_the_standard_says() -> None:
    headers = {
        "upgrade": "websocket",
        "sec-websocket-key": "dGhlIHNhbXBsZSBub25jZQ==",
        "sec-websocket-protocol": "v4.channel.k8s.io, v5.channel.k8s.io",
    }

    upgrade = handshake.for_command(
        lambda name: [headers[name]] if name in headers else [], _never, streams=(), tty=False
    )
    assert ("Sec-WebSocket-Protocol", "v5.channel.k8s.io") in upgrade.headers
    assert ("Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=") in upgrade.headers
    with pytest.raises(BadRequest, match="Upgrade request required"):
        handshake.for_command(lambda name: [], _never, streams=(), tty=False)
