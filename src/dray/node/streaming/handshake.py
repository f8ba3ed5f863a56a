"""The answer to a request that wants to leave HTTP: which protocol to go on with, and who speaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from dray.api.errors import BadRequest, Forbidden
from dray.node.streaming import portforward, remotecommand_spdy, remotecommand_websocket
from dray.node.streaming.portforward import Connect, SpdyPortForward, WebSocketPortForward
from dray.node.streaming.remotecommand import Start
from dray.node.streaming.remotecommand_spdy import SpdyCommand
from dray.node.streaming.remotecommand_websocket import WebSocketCommand
from dray.wire import spdy, websocket
from dray.wire.duplex import Duplex

#: Looks up all values of a request header by its lower-case name.
Headers = Callable[[str], Sequence[str]]


class Lasting(Duplex, Protocol):
    """A duplex that knows when it is over."""

    async def finished(self) -> None: ...


class Upgrade(NamedTuple):
    """The headers of the 101 answer, what takes over the connection, and what tells when it is over."""

    headers: tuple[tuple[str, str], ...]
    duplex: Duplex
    session: Lasting


def for_command(headers: Headers, start: Start, *, streams: Iterable[str], tty: bool) -> Upgrade:
    """``streams``: those of stdin, stdout and stderr that were asked for."""
    if _wants_websocket(headers):
        protocol = _websocket_protocol(headers, remotecommand_websocket.PROTOCOLS)
        channel = WebSocketCommand(start)
        return Upgrade(
            websocket.accept_headers(_first(headers, "sec-websocket-key"), protocol), channel, channel
        )
    protocol = _spdy_protocol(headers, remotecommand_spdy.PROTOCOLS) or remotecommand_spdy.PROTOCOLS[-1]
    wanted = set(streams) - ({"stderr"} if tty else set())
    if tty and protocol in remotecommand_spdy.PROTOCOLS[:2]:
        wanted.add("resize")
    command = SpdyCommand(start, protocol=protocol, streams=wanted)
    return Upgrade(_spdy_headers(protocol), command, command)


def for_ports(headers: Headers, connect: Connect, *, asked: Sequence[int], pod: str, uid: str) -> Upgrade:
    """``asked``: the ports in the request, which only the plain WebSocket protocol needs."""
    if not _wants_websocket(headers):
        protocol = _spdy_protocol(headers, (portforward.PROTOCOL,))
        forward = SpdyPortForward(connect, pod=pod, uid=uid)
        return Upgrade(_spdy_headers(protocol), forward, forward)
    protocol = _websocket_protocol(headers, (portforward.TUNNEL, "v4.channel.k8s.io", portforward.PROTOCOL))
    answer = websocket.accept_headers(_first(headers, "sec-websocket-key"), protocol)
    if protocol == portforward.TUNNEL:
        inner = SpdyPortForward(connect, pod=pod, uid=uid)
        return Upgrade(answer, websocket.Tunnel(inner), inner)
    if not asked:
        raise BadRequest('query parameter "port" is required')
    plain = WebSocketPortForward(connect, ports=asked, pod=pod, uid=uid)
    return Upgrade(answer, plain, plain)


def _wants_websocket(headers: Headers) -> bool:
    return _first(headers, "upgrade").lower() == "websocket"


def _first(headers: Headers, name: str) -> str:
    values = headers(name)
    return values[0] if values else ""


def _listed(headers: Headers, name: str) -> list[str]:
    return [item.strip() for value in headers(name) for item in value.split(",") if item.strip()]


def _websocket_protocol(headers: Headers, known: Sequence[str]) -> str:
    offered = _listed(headers, "sec-websocket-protocol")
    protocol = next((p for p in known if p in offered), "")
    if not protocol:
        raise BadRequest(f"none of the protocols {', '.join(offered)} is supported: {', '.join(known)}")
    return protocol


def _spdy_protocol(headers: Headers, known: Sequence[str]) -> str:
    """The client's first choice among those known here; nothing for clients older than the question."""
    if spdy.UPGRADE.lower() not in [value.lower() for value in _listed(headers, "upgrade")]:
        raise BadRequest("Upgrade request required")
    offered = _listed(headers, "x-stream-protocol-version")
    if not offered:
        return ""
    protocol = next((p for p in offered if p in known), "")
    if not protocol:
        raise Forbidden(
            f"unable to upgrade: unable to negotiate protocol: client supports [{' '.join(offered)}], "
            f"server accepts [{' '.join(known)}]"
        )
    return protocol


def _spdy_headers(protocol: str) -> tuple[tuple[str, str], ...]:
    chosen = (("X-Stream-Protocol-Version", protocol),) if protocol else ()
    return (("Upgrade", spdy.UPGRADE), ("Connection", "Upgrade"), *chosen)
