"""A transport for components that use v1 of resource.k8s.io on a server that has a beta version only.

``ConvertingTransport`` converts requests to the server's version and responses and watch events back to v1. The
conversions themselves are in ``dray.api``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from dray.api.scheme.kinds import Object
from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import RESOURCE_CLAIMS
from dray.client.transport import AnyReply, Reply, Transport, WatchEvent, WatchStream, WebSocket

_V1_ROOT = "/apis/resource.k8s.io/v1/"
#: newest first
VERSIONS = ("v1", "v1beta2", "v1beta1", "v1alpha3")

Convert = Callable[[Object], Object]


async def v1_client(client: Client) -> Client:
    """The client, or one that converts where the server does not have v1 of resource.k8s.io."""
    newest = await Discovery(client).first_served(RESOURCE_CLAIMS, VERSIONS)
    if newest is None or newest.version == "v1":
        return client
    return Client(ConvertingTransport(client.transport, newest.version))


class ConvertingTransport:
    """A transport whose caller uses v1 of resource.k8s.io and whose server has ``version``."""

    def __init__(self, transport: Transport, version: str) -> None:
        from dray.api.groups.resource import modern
        from dray.api.quirks import NEWEST_QUIRKS

        self._transport = transport
        self._version = version
        self._root = f"/apis/resource.k8s.io/{version}/"
        self._codecs = {
            kind.plural: (v.to_hub or _same, v.from_hub or _same)
            for kind in modern.kinds(NEWEST_QUIRKS)
            for v in kind.versions
            if v.name == version
        }

    def _route(self, path: str) -> tuple[str, str]:
        """Where a path leads on the server, and the resource it is about (empty: nothing to convert)."""
        if not path.startswith(_V1_ROOT):
            return path, ""
        rest = path.removeprefix(_V1_ROOT)
        parts = rest.split("/")
        plural = parts[2] if parts[0] == "namespaces" and len(parts) > 2 else parts[0]
        return self._root + rest, plural if plural in self._codecs else ""

    @property
    def leads_by(self) -> str:
        return self._transport.leads_by

    @leads_by.setter
    def leads_by(self, lease: str) -> None:
        self._transport.leads_by = lease

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> AnyReply:
        path, plural = self._route(path)
        if plural and isinstance(body, dict) and method in ("POST", "PUT"):
            body = {**self._codecs[plural][1](body), "apiVersion": f"resource.k8s.io/{self._version}"}
        reply = await self._transport.request(
            method, path, query=query, body=body, content_type=content_type, accept=accept, timeout=timeout
        )
        return Reply(reply.status, reply.headers, self._read(plural, reply.body)) if plural else reply

    def _read(self, plural: str, body: Any) -> Any:
        if not isinstance(body, dict) or body.get("kind") == "Status":
            return body
        to_hub = self._codecs[plural][0]
        if "items" in body:
            return {**body, "items": [to_hub(item) for item in body["items"] or ()]}
        return to_hub(body)

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[WatchStream[Any]]:
        path, plural = self._route(path)
        async with self._transport.watch(path, query=query) as stream:
            yield self._events(stream, self._codecs[plural][0]) if plural else stream

    async def _events(self, stream: WatchStream[Any], to_hub: Convert) -> WatchStream[Any]:
        async for batch in stream:
            yield [e if e.type == "BOOKMARK" else WatchEvent(e.type, to_hub(e.object)) for e in batch]

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._transport.stream(path, query=query)

    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> AbstractAsyncContextManager[WebSocket]:
        return self._transport.upgrade(path, query=query, subprotocols=subprotocols)

    async def close(self) -> None:
        await self._transport.close()


def _same(obj: Object) -> Object:
    return obj
