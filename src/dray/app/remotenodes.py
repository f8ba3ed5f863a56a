"""From the API server to nodes elsewhere: over the HTTPS endpoint that each of them announces, as to any kubelet.

What leaves HTTP is carried as it is, byte for byte: client and node agree on the protocol between themselves. A node may
announce any address, and may pass connections on: an endpoint that shows an API server's certificate is never asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote, urlencode

from dray.api.errors import InternalError, NotFound, ServiceUnavailable, StatusError
from dray.app.pki import APISERVER, KUBELET_CLIENT, Pki
from dray.server.endpoints.call import Call
from dray.server.endpoints.requests import integer
from dray.server.endpoints.responses import Response, StreamBody, UpgradeBody
from dray.server.storage.documents import Document
from dray.server.subresources import proxy
from dray.wire.client_connection import ClientConnection, Head
from dray.wire.duplex import Chunks
from dray.wire.errors import WireError
from dray.wire.http_client import connect, encode
from dray.wire.splice import Splice

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod

_CONNECT_SECONDS = 10.0
#: What is read of an error that a node answers with, and how long it may take.
_ERROR_BYTES = 64 << 10
#: What is held of an answer that the client reads slowly.
_HELD_BYTES = 128 << 10
_ERROR_SECONDS = 10.0
#: Headers that belong to the way from client to node, in both directions.
_CARRIED = ("upgrade", "connection", "x-stream-protocol-version")
_WEBSOCKET = "sec-websocket-"
_COMMAND_FLAGS = {"stdin": "input", "stdout": "output", "stderr": "error", "tty": "tty"}
#: Of the several addresses of a node, in this order.
_ADDRESSES = ("InternalIP", "Hostname", "ExternalIP")


class Address(NamedTuple):
    host: str
    port: int


class RemoteNodes:
    """The server's ``NodeProxy`` for nodes that run elsewhere."""

    def __init__(self, keys: Pki) -> None:
        self._keys = keys
        self._context: ssl.SSLContext | None = None

    async def log(self, call: Call, pod: Document, container: str) -> Response:
        namespace, name, node = _place(pod.hub)
        query = [(k, v) for k, vs in call.request.query.values.items() for v in vs if k != "container"]
        path = f"/containerLogs/{namespace}/{name}/{container}"
        limit = integer(call.request.query, "limitBytes")
        return await self._get(self._address(call, node), path, query, limit=limit)

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        namespace, name, node = _place(pod.hub)
        action, asked = call.info.subresource, call.request.query
        if action == "portforward":
            path = f"/portForward/{namespace}/{name}"
            query = [("port", p) for value in asked.all("ports") for p in value.split(",")]
        else:
            path = f"/{action}/{namespace}/{name}/{container}"
            query = [("command", word) for word in asked.all("command")]
            query += [(theirs, "1") for ours, theirs in _COMMAND_FLAGS.items() if asked.boolean(ours)]
        headers = [
            (header, value)
            for header in call.request.headers
            if header in _CARRIED or header.startswith(_WEBSOCKET)
            for value in call.request.headers.all(header)
        ]
        address = self._address(call, node)
        connection, head = await self._send(address, call.request.method, path, query, headers)
        if head.status != 101:
            raise await _failure(connection, head)
        answer = [(k, v) for k, v in head.headers.items() if k in _CARRIED or k.startswith(_WEBSOCKET)]
        return Response(101, UpgradeBody(Splice(connection), tuple(answer)))

    async def proxy(self, call: Call, node: str) -> Response:
        address = self._address(call, node)
        where = proxy.Location("https", address.host, address.port)
        return await proxy.forward(call, where, tls=self._tls(), check=_refuse_api_server)

    async def _get(
        self, address: Address, path: str, query: Iterable[tuple[str, str]], *, limit: int | None = None
    ) -> Response:
        connection, head = await self._send(address, "GET", path, query, [("connection", "close")])
        if head.status >= 400:
            raise await _failure(connection, head)
        content_type = head.headers.get("content-type") or "text/plain"
        return Response(head.status, StreamBody(Chunks(_body(connection, limit=limit)), content_type))

    def _address(self, call: Call, node: str) -> Address:
        nodes = call.api.resources.resource("", "nodes")
        found = nodes.cache.get(node) if nodes is not None else None
        if found is None:
            raise NotFound(f'nodes "{node}" not found', details={"name": node, "kind": "nodes"})
        address = address_of(found.hub)
        if address is None:
            raise StatusError(
                f"no node agent is reachable for node {node}", code=503, reason="ServiceUnavailable"
            )
        return address

    async def _send(
        self,
        address: Address,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        headers: Iterable[tuple[str, str]],
    ) -> tuple[ClientConnection, Head]:
        target = quote(path) + (f"?{text}" if (text := urlencode(list(query))) else "")
        request = encode(method, target, (("host", f"{address.host}:{address.port}"), *headers))
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                connection = await connect(address.host, address.port, tls=self._tls())
        except (OSError, TimeoutError) as e:
            why = "i/o timeout" if isinstance(e, TimeoutError) else str(e)
            raise InternalError(
                f"error dialing backend: dial tcp {address.host}:{address.port}: {why}"
            ) from e
        try:
            _refuse_api_server(connection)
            connection.hold_at_most(_HELD_BYTES)
            connection.send(request)
            return connection, await connection.head()
        except WireError as e:
            connection.close()
            raise InternalError(f"error reading the node's answer: {e}") from e
        except (StatusError, asyncio.CancelledError):
            connection.close()
            raise

    def _tls(self) -> ssl.SSLContext:
        """Nodes sign their own certificates, and know us by ours."""
        if self._context is None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            leaf = self._keys.leaf(KUBELET_CLIENT)
            context.load_cert_chain(leaf.certificate, leaf.key)
            self._context = context
        return self._context


def _refuse_api_server(connection: ClientConnection) -> None:
    if _is_api_server(connection.peer_certificate):
        raise ServiceUnavailable("error dialing backend: the address is an API server, not a node")


def _is_api_server(certificate: bytes | None) -> bool:
    """Whether a certificate (DER) is one that API servers serve with."""
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    if certificate is None:
        return False
    try:
        subject = x509.load_der_x509_certificate(certificate).subject
    except ValueError:
        return False
    return any(name.value == APISERVER for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME))


def _place(pod: Pod) -> tuple[str, str, str]:
    """Namespace and name of a pod, and its node."""
    return pod["metadata"]["namespace"], pod["metadata"]["name"], pod["spec"]["nodeName"]


def address_of(node: Node) -> Address | None:
    """Where a node's endpoint listens, if it has one."""
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    known = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    host = next((known[kind] for kind in _ADDRESSES if kind in known), "")
    return Address(host, port) if host and port else None


async def _body(connection: ClientConnection, *, limit: int | None = None) -> AsyncIterator[bytes]:
    """A body as it comes, up to ``limit`` bytes, whatever the node sends. One that breaks off just ends."""
    try:
        while (limit is None or limit > 0) and (piece := await connection.read()) is not None:
            yield piece[:limit]
            limit = None if limit is None else limit - len(piece)
    except WireError:
        pass
    finally:
        connection.close()


async def _failure(connection: ClientConnection, head: Head) -> StatusError:
    """The error that a node answered with, or the beginning of an endless one."""
    body = bytearray()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_ERROR_SECONDS):
            async for piece in _body(connection, limit=_ERROR_BYTES):
                body += piece
    connection.close()
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, Mapping) and document.get("kind") == "Status":
        return StatusError.from_status(document, head.status)
    text = body.decode(errors="replace").strip()
    return StatusError(text or f"the node answered {head.status}", code=head.status, reason="")
