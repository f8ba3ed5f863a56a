"""proxy: HTTP requests that the API server passes on to a pod, to a pod behind a service, or to a port of a node.

Only addresses of pods and nodes are called, and none that is the API server's own machine or link: whoever may write
such an object must not reach what only the API server can reach.
"""

from __future__ import annotations

import asyncio
import ipaddress
import random
import ssl
from collections.abc import AsyncIterator, Callable, Iterable
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple
from urllib.parse import quote

from dray.api.errors import BadRequest, InternalError, ServiceUnavailable
from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import RawBody, Response, StreamBody, UpgradeBody
from dray.wire.client_connection import ClientConnection
from dray.wire.duplex import Chunks
from dray.wire.errors import WireError
from dray.wire.http_client import connect, encode
from dray.wire.ports import port_number
from dray.wire.splice import Splice

if TYPE_CHECKING:
    from dray.api.types.core import EndpointAddress, Endpoints, Node, Pod, Service

_CONNECT_SECONDS: Final = 10.0
#: What is held of an answer that the client reads slowly.
_HELD_BYTES: Final = 128 << 10
#: Headers that end at the API server, on the way there and back.
_HOP_BY_HOP: Final = frozenset(
    {
        "connection", "keep-alive", "proxy-authenticate", "proxy-authorization", "proxy-connection", "te", "trailer",
        "transfer-encoding", "upgrade", "content-length", "host", "authorization",
    }
)  # fmt: skip
_IMPERSONATE: Final = "impersonate-"
_UPGRADE: Final = ("upgrade", "connection")
_SCHEMES: Final = ("", "http", "https")


class Target(NamedTuple):
    """What the name in the URL says: ``name``, ``name:port`` or ``scheme:name:port``."""

    scheme: str
    name: str
    port: str


class Location(NamedTuple):
    """Where a request goes."""

    scheme: str
    host: str
    port: int


def parse_target(resource: str, text: str) -> Target:
    parts = text.split(":")
    match len(parts):
        case 1:
            found = Target("", parts[0], "")
        case 2:
            found = Target("", *parts)
        case 3:
            found = Target(*parts)
        case _:
            found = Target("?", "", "")
    if not found.name or found.scheme not in _SCHEMES:
        raise BadRequest(f'invalid {resource.removesuffix("s")} request "{text}"')
    return found


def pod_location(target: Target, pod: Pod) -> Location:
    """A port of a pod: the one that was asked for, or the first that it declares."""
    status = pod.get("status", {})
    address = status.get("podIP") or next((ip["ip"] for ip in status.get("podIPs") or ()), "")
    port = target.port or next(
        (str(p["containerPort"]) for c in pod["spec"].get("containers") or () for p in c.get("ports") or ()),
        "",
    )
    return _location(target, address, port)


def node_location(target: Target, node: Node) -> Location:
    """A port of a node that is not its agent's."""
    listed = (node.get("status") or {}).get("addresses") or ()
    known = {entry["type"]: entry["address"] for entry in listed}
    kinds = ("InternalIP", "ExternalIP")
    return _location(target, next((known[kind] for kind in kinds if kind in known), ""), target.port)


def service_location(
    target: Target, service: Service, endpoints: Endpoints, pod: Callable[[str, str], Pod | None]
) -> Location:
    """One of the pods behind a service. ``pod`` finds a pod by namespace and name."""
    port = target.port
    if (number := port_number(port)) is not None:
        ports = service.get("spec", {}).get("ports") or ()
        found = next((p for p in ports if p["port"] == number), None)
        if found is None:
            raise ServiceUnavailable(f'no service port {port} found for service "{target.name}"')
        port = found.get("name", "")
    choices = [
        (address, entry["port"])
        for subset in endpoints.get("subsets") or ()
        for entry in subset.get("ports") or ()
        if entry.get("name", "") == port
        for address in subset.get("addresses") or ()
        if _is_of_pod(address, pod)
    ]
    if not choices:
        raise ServiceUnavailable(f'no endpoints available for service "{target.name}"')
    address, chosen = random.choice(choices)
    return _location(target, address["ip"], str(chosen))


def _is_of_pod(address: EndpointAddress, pod: Callable[[str, str], Pod | None]) -> bool:
    reference = address.get("targetRef") or {}
    if reference.get("kind") != "Pod":
        return False
    found = pod(reference.get("namespace", ""), reference.get("name", ""))
    ips = (found or {}).get("status", {}).get("podIPs") or ()
    return address.get("ip", "") in {entry.get("ip") for entry in ips}


def _location(target: Target, address: str, port: str) -> Location:
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        raise BadRequest("address not allowed") from None
    if isinstance(ip, ipaddress.IPv6Address):
        ip = ip.ipv4_mapped or ip
    if ip.is_loopback or ip.is_link_local or ip.is_multicast or ip.is_unspecified:
        raise BadRequest("address not allowed")
    scheme = target.scheme or "http"
    number = port_number(port or ("443" if scheme == "https" else "80"))
    if number is None:
        raise BadRequest(f'"{port}" is not the number of a port')
    return Location(scheme, address, number)


async def forward(
    call: Call,
    where: Location,
    *,
    tls: ssl.SSLContext | None = None,
    check: Callable[[ClientConnection], None] | None = None,
) -> Response:
    """Pass the request on and answer what comes back. ``check`` may refuse a connection before anything is sent."""
    request, path = call.request, "/" + "/".join(call.info.rest)
    if path == "/" and not request.path.endswith("/"):
        query = f"?{request.query.raw}" if request.query.raw else ""
        return Response(301, RawBody(b"", "text/plain"), [("Location", f"{quote(request.path)}/{query}")])
    if path != "/" and request.path.endswith("/"):
        path += "/"
    upgrades = "upgrade" in request.headers
    target = quote(path, safe="/:@!$&'()*+,;=~-._") + (f"?{request.query.raw}" if request.query.raw else "")
    body = request.body if isinstance(request.body, bytes) else b""
    data = encode(request.method, target, _request_headers(call, where, upgrades=upgrades), body)
    if where.scheme == "https" and tls is None:
        tls = _any_certificate()
    try:
        async with asyncio.timeout(_CONNECT_SECONDS):
            connection = await connect(where.host, where.port, tls=tls if where.scheme == "https" else None)
    except (OSError, TimeoutError) as e:
        why = "i/o timeout" if isinstance(e, TimeoutError) else str(e)
        raise ServiceUnavailable(
            f"error trying to reach service: dial tcp {where.host}:{where.port}: {why}"
        ) from e
    try:
        if check is not None:
            check(connection)
        connection.hold_at_most(_HELD_BYTES)
        connection.send(data)
        head = await connection.head()
    except WireError as e:
        connection.close()
        raise InternalError(f"error trying to reach service: {e}") from e
    except BaseException:
        connection.close()
        raise
    if head.status == 101 and upgrades:
        kept = [(k, v) for k, v in head.headers.items() if k in _UPGRADE or k not in _HOP_BY_HOP]
        return Response(101, UpgradeBody(Splice(connection), tuple(kept)))
    if (
        head.status == 101
    ):  # nobody has asked for it, and the client would take what follows for another protocol
        connection.close()
        raise InternalError("error trying to reach service: the server changed the protocol unasked")
    answer = [(k, v) for k, v in head.headers.items() if k not in _HOP_BY_HOP and k != "content-type"]
    kind = head.headers.get("content-type") or "application/octet-stream"
    if request.method == "HEAD" or head.status in (204, 304):
        connection.close()
        return Response(head.status, RawBody(b"", kind), answer)
    return Response(head.status, StreamBody(Chunks(_pieces(connection)), kind), answer)


def _request_headers(call: Call, where: Location, *, upgrades: bool) -> Iterable[tuple[str, str]]:
    """What the caller sent, without what was for the API server: credentials, and who is impersonated."""
    headers = call.request.headers
    host = f"[{where.host}]" if ":" in where.host else where.host
    yield "host", f"{host}:{where.port}"
    for name in headers:
        if (name in _HOP_BY_HOP and not (upgrades and name in _UPGRADE)) or name.startswith(_IMPERSONATE):
            continue
        for value in headers.all(name):
            yield name, value
    yield "x-forwarded-uri", quote(call.request.path)
    if not upgrades:
        yield "connection", "close"


async def _pieces(connection: ClientConnection) -> AsyncIterator[bytes]:
    """A body as it comes. One that breaks off just ends."""
    try:
        while (piece := await connection.read()) is not None:
            yield piece
    except WireError:
        pass
    finally:
        connection.close()


@cache
def _any_certificate() -> ssl.SSLContext:
    """Pods sign their own certificates; nothing secret is sent to them."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
