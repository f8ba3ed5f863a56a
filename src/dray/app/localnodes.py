"""From the API server to the nodes of this process: logs as a stream, commands as an upgraded connection."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, cast

from dray.api.errors import BadRequest, NotFound
from dray.app.remotenodes import RemoteNodes
from dray.node.server.host import NodeHost, PodLogOptions
from dray.node.streaming import handshake
from dray.runtimes.interface import PortConnection, Session
from dray.runtimes.logs import LogOptions
from dray.server.clock import Clock
from dray.server.endpoints.call import Call
from dray.server.endpoints.requests import integer, parse_int64
from dray.server.endpoints.responses import RawBody, Response, StreamBody, UpgradeBody
from dray.server.storage.documents import Document
from dray.wire.duplex import Chunks
from dray.wire.messages import Query

if TYPE_CHECKING:
    from dray.api.types.core import Pod


class LocalNodes:
    """The server's ``NodeProxy`` for nodes that run beside it; ``others`` reaches those elsewhere."""

    def __init__(self, nodes: NodeHost, *, others: RemoteNodes) -> None:
        self._nodes = nodes
        self._others = others

    async def log(self, call: Call, pod: Document, container: str) -> Response:
        if not self._nodes.serves(_pod(pod)["spec"]["nodeName"]):
            return await self._others.log(call, pod, container)
        query = PodLogOptions(
            previous=call.request.query.boolean("previous"),
            options=log_options(call.request.query, now=call.api.clock.seconds()),
        )
        chunks = self._nodes.logs(_pod(pod), container, query)
        return Response(200, StreamBody(Chunks(chunks), "text/plain"))

    async def connect(self, call: Call, pod: Document, container: str) -> Response:
        if not self._nodes.serves(_pod(pod)["spec"]["nodeName"]):
            return await self._others.connect(call, pod, container)
        action, query, headers = call.info.subresource, call.request.query, call.request.headers.all
        if action == "portforward":
            return self._forward(call, pod)
        tty, stdin = query.boolean("tty"), query.boolean("stdin")
        if action == "exec" and not query.all("command"):
            raise BadRequest("you must specify at least 1 command for the container")

        async def start() -> Session:
            if action == "attach":
                return await self._nodes.attach(_pod(pod), container, tty=tty, stdin=stdin)
            return await self._nodes.exec(_pod(pod), container, query.all("command"), tty=tty, stdin=stdin)

        self._nodes.check_running(_pod(pod), container)
        streams = [s for s in ("stdin", "stdout", "stderr") if query.boolean(s)]
        upgrade = handshake.for_command(headers, start, streams=streams, tty=tty)
        return Response(101, UpgradeBody(upgrade.duplex, upgrade.headers))

    def _forward(self, call: Call, pod: Document) -> Response:
        async def connect(port: int) -> PortConnection:
            return await self._nodes.port_forward(_pod(pod), port)

        self._nodes.check_running(_pod(pod))
        asked = [parse_int64(p) for value in call.request.query.all("ports") for p in value.split(",")]
        metadata = _pod(pod)["metadata"]
        upgrade = handshake.for_ports(
            call.request.headers.all, connect, asked=asked, pod=metadata["name"], uid=metadata["uid"]
        )
        return Response(101, UpgradeBody(upgrade.duplex, upgrade.headers))

    async def proxy(self, call: Call, node: str) -> Response:
        if not self._nodes.serves(node):
            return await self._others.proxy(call, node)
        match call.info.rest:
            case ("healthz",):
                return Response(200, RawBody(b"ok", "text/plain"))
            case ("metrics",):
                return _metrics(self._nodes.metrics())
            case ("metrics", "resource"):
                return _metrics(await self._nodes.resource_metrics(node))
            case ("metrics", "probes"):
                return _metrics(self._nodes.probe_metrics(node))
            case ("pods",):
                items = self._nodes.pods(node)
                body = {"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": items}
                return Response(200, RawBody(json.dumps(body).encode()))
        raise NotFound("404 page not found")


def _metrics(text: str) -> Response:
    return Response(200, RawBody(text.encode(), "text/plain; version=0.0.4"))


def log_options(query: Query, *, now: float) -> LogOptions:
    """What ``kubectl logs`` asks for, checked."""
    for name, least in (("tailLines", 0), ("limitBytes", 1), ("sinceSeconds", 1)):
        value = integer(query, name)
        if value is not None and value < least:
            raise BadRequest(f"{name}: Invalid value: {value}: must be greater than or equal to {least}")
    seconds = integer(query, "sinceSeconds")
    return LogOptions(
        follow=query.boolean("follow"),
        tail=integer(query, "tailLines"),
        limit_bytes=integer(query, "limitBytes"),
        since=_utc(query.get("sinceTime")) if seconds is None else Clock.format(int(now) - seconds),
        timestamps=query.boolean("timestamps"),
        stream=query.get("stream").lower().replace("all", ""),
    )


def _utc(text: str) -> str:
    if not text:
        return ""
    try:
        return datetime.fromisoformat(text).astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    except (ValueError, OverflowError):
        raise BadRequest(f'parsing time "{text}": it is not RFC 3339') from None


def _pod(document: Document) -> Pod:
    return cast("Pod", document.hub)
