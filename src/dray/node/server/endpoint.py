"""The node agent's own HTTPS endpoint: what an API server on another machine asks a kubelet for.

``/containerLogs``, ``/exec``, ``/attach`` and ``/portForward`` have the kubelet's paths and parameters.
Who may ask is decided by the client's certificate, or by the API server if the client has a token instead.
"""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from dray.api.errors import BadRequest, Forbidden, MethodNotAllowed, NotFound, StatusError
from dray.node.server.authorization import Delegated
from dray.node.server.host import NodeHost, PodLogOptions
from dray.node.streaming import handshake
from dray.node.streaming.handshake import Upgrade
from dray.runtimes.interface import PortConnection, Session
from dray.wire.duplex import Chunks
from dray.wire.http_server import HTTPServer
from dray.wire.messages import Limits, Query, Reply, Request
from dray.wire.ports import port_number

if TYPE_CHECKING:
    from dray.api.types import ObjectList
    from dray.api.types.core import Pod

#: Logs are long and their readers few, so the buffers may be larger than a server with many watches allows.
_LIMITS = Limits(header_bytes=64 << 10, header_seconds=30.0, unsent_bytes=1 << 20, descriptors=0.125)
_DRAIN_SECONDS = 1.0
#: Streams, and what a kubelet calls them in a query.
_STREAMS = {"stdin": "input", "stdout": "output", "stderr": "error"}
#: Whose requests are answered: an API server's client certificate, and administrators.
ALLOWED_USERS = ("kube-apiserver-kubelet-client", "kube-apiserver")
ALLOWED_GROUP = "system:masters"


def allowed_by_certificate(certificate: bytes | None) -> bool:
    """Whether a verified client certificate (DER) belongs to an API server or an administrator."""
    if certificate is None:
        return False
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    subject = x509.load_der_x509_certificate(certificate).subject
    names = [name.value for name in subject.get_attributes_for_oid(NameOID.COMMON_NAME)]
    groups = {name.value for name in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)}
    return (bool(names) and names[-1] in ALLOWED_USERS) or ALLOWED_GROUP in groups


class Listener(NamedTuple):
    """A port that is open already, and the TLS that is spoken there."""

    listener: socket.socket
    context: ssl.SSLContext | None


class Endpoint:
    """Serves a node of this process on a port."""

    def __init__(
        self,
        proxy: NodeHost,
        *,
        context: ssl.SSLContext | None,
        node: str = "",
        allowed: Callable[[bytes | None], bool] = allowed_by_certificate,
        delegated: Delegated | None = None,
    ) -> None:
        """``node`` is the one that is served here; ``delegated`` decides about clients without a certificate."""
        self._proxy = proxy
        self._node = node
        self._allowed = allowed
        self._delegated = delegated
        self._server = HTTPServer(
            self._serve, request_type=Request, tls=context, limits=_LIMITS, keep_alive=False
        )

    async def start(self, listener: socket.socket) -> None:
        await self._server.listen(listener)

    async def stop(self) -> None:
        await self._server.drain(_DRAIN_SECONDS)

    async def _serve(self, request: Request) -> Reply:
        try:
            await self._authorize(request)
            if request.method not in ("GET", "POST"):
                raise MethodNotAllowed("only GET and POST are allowed")
            return await self._answer(request)
        except StatusError as e:
            return _reply("application/json", json.dumps(e.status()), code=e.http_code)

    async def _authorize(self, request: Request) -> None:
        if self._allowed(request.peer.certificate):
            return
        if request.peer.certificate is not None or self._delegated is None:
            raise Forbidden("this certificate does not belong to an API server or administrator")
        kind, _, token = (request.headers.get("authorization") or "").partition(" ")
        await self._delegated.check(
            token.strip() if kind.lower() == "bearer" else "", request.method, request.path
        )

    async def _answer(self, request: Request) -> Reply:
        match tuple(part for part in request.path.split("/") if part):
            case ("healthz",):
                return _reply("text/plain", "ok")
            case ("metrics",):
                return _reply("text/plain; version=0.0.4", self._proxy.metrics())
            case ("metrics", "resource"):
                return _reply("text/plain; version=0.0.4", await self._proxy.resource_metrics(self._node))
            case ("metrics", "probes"):
                return _reply("text/plain; version=0.0.4", self._proxy.probe_metrics(self._node))
            case ("pods",):
                items = self._proxy.pods(self._node)
                body: ObjectList = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
                return _reply("application/json", json.dumps(body))
            case ("containerLogs", namespace, pod, container):
                found = self._proxy.pod(namespace, pod)
                options = PodLogOptions.of(request.query.get, now=time.time())
                pieces = self._proxy.logs(found, container, options)
                return Reply(200, (("Content-Type", "text/plain"),), stream=Chunks(pieces))
            case ("exec" | "attach" as what, namespace, pod, container):
                upgrade = self._command(what, self._proxy.pod(namespace, pod), container, request)
                return Reply(101, upgrade.headers, duplex=upgrade.duplex)
            case ("portForward", namespace, pod):
                upgrade = self._ports(self._proxy.pod(namespace, pod), request)
                return Reply(101, upgrade.headers, duplex=upgrade.duplex)
            case _:
                raise NotFound("404 page not found")

    def _command(self, what: str, pod: Pod, container: str, request: Request) -> Upgrade:
        query = request.query
        tty, command = _flag(query, "tty"), query.all("command")
        streams = [s for s, name in _STREAMS.items() if _flag(query, name) or _flag(query, s)]
        if what == "exec" and not command:
            raise BadRequest("you must specify at least 1 command")

        async def start() -> Session:
            if what == "exec":
                return await self._proxy.exec(pod, container, command, tty=tty, stdin="stdin" in streams)
            return await self._proxy.attach(pod, container, tty=tty, stdin="stdin" in streams)

        self._proxy.check_running(pod, container)
        return handshake.for_command(request.headers.all, start, streams=streams, tty=tty)

    def _ports(self, pod: Pod, request: Request) -> Upgrade:
        async def connect(port: int) -> PortConnection:
            return await self._proxy.port_forward(pod, port)

        self._proxy.check_running(pod)
        asked = [port for p in request.query.all("port") if (port := port_number(p)) is not None]
        metadata = pod["metadata"]
        return handshake.for_ports(
            request.headers.all, connect, asked=asked, pod=metadata["name"], uid=metadata["uid"]
        )


def _reply(content_type: str, body: str, *, code: int = 200) -> Reply:
    return Reply(code, (("Content-Type", content_type),), body.encode())


def _flag(query: Query, name: str) -> bool:
    return query.get(name).lower() not in ("", "false", "0")
