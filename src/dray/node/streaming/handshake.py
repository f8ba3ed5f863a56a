"""The answer to a request that wants to leave HTTP: which protocol to go on with, and who speaks it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from dray.api.errors import BadRequest, Forbidden
from dray.node.streaming import portforward, remotecommand_spdy, remotecommand_websocket
from dray.node.streaming.channels import Channels
from dray.node.streaming.portforward import Connect, SpdyPortForward, WebSocketPortForward
from dray.node.streaming.remotecommand import Start
from dray.node.streaming.remotecommand_spdy import SpdyCommand
from dray.node.streaming.remotecommand_websocket import WebSocketCommand
from dray.wire import spdy, websocket
from dray.wire.duplex import Duplex

#: Looks up all values of a request header by its lower-case name.
Headers = Callable[[str], Sequence[str]]


class Upgrade(NamedTuple):
    """The headers of the 101 answer, and what takes over the connection."""

    headers: tuple[tuple[str, str], ...]
    duplex: Duplex


def for_command(headers: Headers, start: Start, *, streams: Iterable[str], tty: bool) -> Upgrade:
    """``streams``: those of stdin, stdout and stderr that were asked for."""
    if _wants_websocket(headers):
        protocol = _websocket_protocol(headers, remotecommand_websocket.PROTOCOLS)
        answer = websocket.accept_headers(_first(headers, "sec-websocket-key"), protocol)
        return Upgrade(answer, WebSocketCommand(start, protocol=protocol, streams=streams))
    protocol = _spdy_protocol(headers, remotecommand_spdy.PROTOCOLS) or remotecommand_spdy.PROTOCOLS[-1]
    wanted = set(streams) - ({"stderr"} if tty else set())
    if tty and protocol in remotecommand_spdy.PROTOCOLS[:2]:
        wanted.add("resize")
    return Upgrade(_spdy_headers(protocol), SpdyCommand(start, protocol=protocol, streams=wanted))


def for_ports(headers: Headers, connect: Connect, *, asked: Sequence[int], pod: str, uid: str) -> Upgrade:
    """``asked``: the ports in the request, which only the plain WebSocket protocol needs."""
    if not _wants_websocket(headers):
        protocol = _spdy_protocol(headers, (portforward.PROTOCOL,))
        return Upgrade(_spdy_headers(protocol), SpdyPortForward(connect, pod=pod, uid=uid))
    protocol = _websocket_protocol(headers, (portforward.TUNNEL, *portforward.CHANNEL_PROTOCOLS))
    answer = websocket.accept_headers(_first(headers, "sec-websocket-key"), protocol)
    if protocol == portforward.TUNNEL:
        return Upgrade(answer, websocket.Tunnel(SpdyPortForward(connect, pod=pod, uid=uid)))
    if not asked:
        raise BadRequest('query parameter "port" is required')
    channels = Channels("base64" in protocol)
    return Upgrade(answer, WebSocketPortForward(connect, ports=asked, pod=pod, uid=uid, channels=channels))


def _wants_websocket(headers: Headers) -> bool:
    return _first(headers, "upgrade").lower() == "websocket"


def _first(headers: Headers, name: str) -> str:
    values = headers(name)
    return values[0] if values else ""


def _listed(headers: Headers, name: str) -> list[str]:
    return [item.strip() for value in headers(name) for item in value.split(",") if item.strip()]


def _websocket_protocol(headers: Headers, known: Sequence[str]) -> str:
    """The newest that the client offers; nothing where it offers none, which has a meaning of its own."""
    offered = _listed(headers, "sec-websocket-protocol")
    protocol = next((p for p in known if p in offered), "")
    if offered and not protocol:
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
