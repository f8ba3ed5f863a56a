"""From the API server to nodes elsewhere: over the HTTPS endpoint that each of them announces, as to any kubelet.

What leaves HTTP is carried as it is, byte for byte: client and node agree on the protocol between themselves.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import NamedTuple
from urllib.parse import quote, urlencode

from dray.api.errors import InternalError, NotFound, StatusError
from dray.api.scheme.kinds import Object
from dray.app.pki import KUBELET_CLIENT, Pki
from dray.server.endpoints.call import Call
from dray.server.endpoints.responses import Response, StreamBody, UpgradeBody
from dray.server.storage.documents import Document
from dray.wire.duplex import Chunks, Throttle, Wire

_CONNECT_SECONDS = 10.0
_CHUNK = 64 << 10
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
        namespace, name = pod.hub["metadata"]["namespace"], pod.hub["metadata"]["name"]
        query = [(k, v) for k, vs in call.request.query.values.items() for v in vs if k != "container"]
        path = f"/containerLogs/{namespace}/{name}/{container}"
        return await self._get(self._address(call, pod.hub["spec"]["nodeName"]), path, query)

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        namespace, name = pod.hub["metadata"]["namespace"], pod.hub["metadata"]["name"]
        action, asked = call.target.subresource, call.request.query
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
        address = self._address(call, pod.hub["spec"]["nodeName"])
        reader, writer = await self._open(address, call.request.method, path, query, headers)
        head = await _read_head(reader, writer)
        if head.status != 101:
            body = b"".join([piece async for piece in _body(reader, head)])
            writer.close()
            raise _failure(head, body)
        answer = [(k, v) for k, v in head.headers if k in _CARRIED or k.startswith(_WEBSOCKET)]
        return Response(101, UpgradeBody(Splice(reader, writer), tuple(answer)))

    async def proxy(self, call: Call) -> Response:
        target = call.target
        if target.resource != "nodes" or call.request.method != "GET":
            raise StatusError(f"{target.resource} cannot be proxied to", code=501, reason="NotImplemented")
        query = [(k, v) for k, vs in call.request.query.values.items() for v in vs]
        return await self._get(self._address(call, target.name), "/" + "/".join(target.rest), query)

    async def _get(self, address: Address, path: str, query: Iterable[tuple[str, str]]) -> Response:
        reader, writer = await self._open(address, "GET", path, query, [("connection", "close")])
        head = await _read_head(reader, writer)
        if head.status >= 400:
            body = b"".join([piece async for piece in _body(reader, head)])
            writer.close()
            raise _failure(head, body)

        async def pieces() -> AsyncIterator[bytes]:
            try:
                async for piece in _body(reader, head):
                    yield piece
            finally:
                writer.close()

        return Response(head.status, StreamBody(Chunks(pieces()), head.get("content-type") or "text/plain"))

    def _address(self, call: Call, node: str) -> Address:
        nodes = call.api.resources.resource("", "nodes")
        found = nodes.stored.get(node) if nodes is not None else None
        if found is None:
            raise NotFound(f'nodes "{node}" not found', details={"name": node, "kind": "nodes"})
        address = address_of(found.hub)
        if address is None:
            raise StatusError(
                f"no node agent is reachable for node {node}", code=503, reason="ServiceUnavailable"
            )
        return address

    async def _open(
        self,
        address: Address,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]],
        headers: Iterable[tuple[str, str]],
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        target = quote(path) + (f"?{text}" if (text := urlencode(list(query))) else "")
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
        request = f"{method} {target} HTTP/1.1\r\nhost: {address.host}:{address.port}\r\n{lines}"
        if method == "POST":
            request += "content-length: 0\r\n"
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                reader, writer = await asyncio.open_connection(
                    address.host, address.port, ssl=self._tls(), limit=_CHUNK
                )
        except (OSError, TimeoutError) as e:
            why = "i/o timeout" if isinstance(e, TimeoutError) else str(e)
            raise InternalError(
                f"error dialing backend: dial tcp {address.host}:{address.port}: {why}"
            ) from e
        writer.write(f"{request}\r\n".encode())
        return reader, writer

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


def address_of(node: Object) -> Address | None:
    """Where a node's endpoint listens, if it has one."""
    status = node.get("status") or {}
    port = ((status.get("daemonEndpoints") or {}).get("kubeletEndpoint") or {}).get("Port") or 0
    known = {a["type"]: a["address"] for a in status.get("addresses") or ()}
    host = next((known[kind] for kind in _ADDRESSES if kind in known), "")
    return Address(host, port) if host and port else None


class Splice:
    """A client's upgraded connection, joined to the node's."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._throttle = Throttle()
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._tasks: list[asyncio.Task[None]] = []

    def opened(self, wire: Wire) -> None:
        self._throttle.wire = wire
        loop = asyncio.get_running_loop()
        self._tasks = [loop.create_task(self._to_client(wire)), loop.create_task(self._to_node())]

    def received(self, data: bytes) -> None:
        self._throttle.arrived(len(data))
        self._queue.put_nowait(data)

    def lost(self) -> None:
        for task in self._tasks:
            task.cancel()
        self._writer.close()

    async def _to_client(self, wire: Wire) -> None:
        with contextlib.suppress(OSError):
            while data := await self._reader.read(_CHUNK):
                wire.write(data)
                await wire.drained()
        wire.close()

    async def _to_node(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                data = await self._queue.get()
                self._writer.write(data)
                await self._writer.drain()
                self._throttle.taken(len(data))


class _Head(NamedTuple):
    status: int
    headers: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")


async def _read_head(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> _Head:
    try:
        text = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = text.split("\r\n")
        pairs = (line.partition(":") for line in lines if line)
        return _Head(int(first.split(" ")[1]), tuple((k.strip().lower(), v.strip()) for k, _, v in pairs))
    except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError, IndexError) as e:
        writer.close()
        raise InternalError(f"error reading the node's answer: {e}") from e


async def _body(reader: asyncio.StreamReader, head: _Head) -> AsyncIterator[bytes]:
    """A body as it comes: in chunks, of a known length, or up to the end."""
    with contextlib.suppress(OSError, asyncio.IncompleteReadError, ValueError):
        if head.get("transfer-encoding").lower() == "chunked":
            while size := int((await reader.readline()).split(b";")[0], 16):
                yield await reader.readexactly(size)
                await reader.readexactly(2)
            return
        left = int(head.get("content-length") or 1 << 62)
        while left > 0 and (data := await reader.read(min(left, _CHUNK))):
            left -= len(data)
            yield data


def _failure(head: _Head, body: bytes) -> StatusError:
    import json

    try:
        document = json.loads(body)
    except ValueError:
        document = None
    if isinstance(document, Mapping) and document.get("kind") == "Status":
        return StatusError.from_status(document, head.status)
    text = body.decode(errors="replace").strip()
    return StatusError(text or f"the node answered {head.status}", code=head.status, reason="")
