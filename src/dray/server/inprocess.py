"""The in-process transport: the same calls, authorization and admission as over HTTP, without HTTP and JSON.

It satisfies ``dray.client.transport.Transport`` by shape; ``client`` never imports ``server``. Each component gets its
own transport with its own identity. Documents it hands out are the server's own and must not be changed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeGuard

import msgspec

from dray.api.errors import BadRequest, NotFound, StatusError
from dray.api.groups.apiextensions.conversion import ConversionNeeded
from dray.api.scheme.kinds import Object
from dray.api.user import UserInfo
from dray.server.apiserver import APIServer
from dray.server.auth.user import AUTHENTICATED
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import ObjectBody, RawBody, Response, StreamBody
from dray.server.endpoints.watch import ERROR, Watch
from dray.server.registry import fencing
from dray.server.storage.codec import Codec, encode, parse
from dray.server.storage.documents import AT_ONCE, Document, Listing
from dray.wire.messages import NO_QUERY, Headers, Query

Body = Mapping[str, Any] | Sequence[Mapping[str, Any]] | bytes | None
_PATCHES: Final = (list, tuple)  # JSON patches


class Reply(msgspec.Struct, frozen=True):
    status: int
    headers: Mapping[str, str]
    body: Any

    @property
    def object(self) -> Object:
        if not isinstance(self.body, dict):
            raise TypeError(f"the answer is no document: {self.body!r:.80}")
        return self.body


class WatchEvent(msgspec.Struct, frozen=True):
    type: str
    object: Object


class InProcessTransport:
    """Calls an ``API`` as one user."""

    def __init__(self, api: APIServer, user: UserInfo, *, agent: str = "dray") -> None:
        self._api = api
        groups = user.groups if AUTHENTICATED in user.groups else (*user.groups, AUTHENTICATED)
        self._user = user._replace(groups=groups)
        self._agent = agent
        self.leads_by = ""  # set before the first request, if at all
        self._headers: dict[
            tuple[str, str], Headers
        ] = {}  # the few that are sent, by content type and accept

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Body = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: float | None = None,
    ) -> Reply:
        request = self._request(method, path, query, content_type, accept)
        if body is not None:
            request.body = encode(body) if isinstance(body, _PATCHES) else body  # type: ignore[assignment]
        if timeout is None:
            response = await self._api.handle(request)
        else:
            async with asyncio.timeout(timeout):
                response = await self._api.handle(request)
        headers = {name.lower(): value for name, value in response.headers} if response.headers else {}
        if request.warnings:
            headers["warning"] = ", ".join(request.warnings)
        content = response.body
        if isinstance(content, ObjectBody):
            try:
                return Reply(response.code, headers, content.document.object(content.codec))
            except ConversionNeeded:
                pass  # a webhook has to be asked first
        elif _is_long(content):
            return Reply(response.code, headers, await _decoded_in_pieces(content))
        body = await self._document(response)
        if response.code >= 400 and isinstance(body, bytes):
            # Not every refusal is a Status: a path that nobody knows is answered in plain text.
            known = type(StatusError.from_status({}, response.code))
            raise known(body.decode(errors="replace").strip(), code=response.code)
        return Reply(response.code, headers, body)

    def _request(
        self, method: str, path: str, query: Mapping[str, str] | None, content_type: str, accept: str
    ) -> Request:
        headers = self._headers.get((content_type, accept))
        if headers is None:
            named = [("content-type", content_type), ("accept", accept), ("user-agent", self._agent)]
            if self.leads_by:
                named.append((fencing.HEADER, self.leads_by))
            headers = self._headers[content_type, accept] = Headers(named)
        return Request(method, path, Query.of(query) if query else NO_QUERY, headers, user=self._user)

    @asynccontextmanager
    async def watch(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AsyncIterator[AsyncIterator[Sequence[WatchEvent]]]:
        request = self._request("GET", path, {**(query or {}), "watch": "true"}, "", "application/json")
        response = await self._api.handle(request)
        watch = response.body
        if not isinstance(watch, Watch):
            raise BadRequest(f"{path} cannot be watched")
        try:
            yield _events(self._api, watch)
        finally:
            watch.close()

    def stream(
        self, path: str, *, query: Mapping[str, str] | None = None
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        return self._stream(path, query)

    @asynccontextmanager
    async def _stream(
        self, path: str, query: Mapping[str, str] | None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        response = await self._api.handle(self._request("GET", path, query, "", "*/*"))
        match response.body:
            case RawBody(data=data):
                yield _once(data)
            case StreamBody(stream=stream):
                pipe = _Pipe()
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(pipe.fill(stream.run(pipe)))
                    try:
                        yield pipe.chunks()
                    finally:
                        stream.close()
                        pipe.close()
                        task.cancel()
            case _:
                yield _once(encode(await self._document(response)))

    async def _document(self, response: Response) -> Any:
        while True:
            try:
                return document_of(response)
            except ConversionNeeded as needed:
                body = response.body
                also = [d.hub for d in body.documents] if isinstance(body, Listing) else ()
                await self._api.convert(needed, also=also)

    def upgrade(
        self, path: str, *, query: Sequence[tuple[str, str]] = (), subprotocols: Sequence[str]
    ) -> AbstractAsyncContextManager[Any]:
        raise NotFound("connections are upgraded over HTTP only")

    async def close(self) -> None:
        """Nothing to close: the server is not ours."""


def document_of(response: Response) -> Any:
    """A response's content as plain data."""
    match response.body:
        case ObjectBody(document=document, codec=codec):
            return document.object(codec)
        case Listing() as listing:
            return listing.object()
        case RawBody(data=data, content_type=content_type):
            return parse(data) if content_type.startswith("application/json") else data
        case dict() as obj:
            return obj
        case other:
            raise BadRequest(f"not a document: {type(other).__name__}")


def _is_long(content: object) -> TypeGuard[Listing]:
    """Whether this is a list that takes long to decode. What a webhook converts is converted as a whole."""
    return (
        isinstance(content, Listing)
        and len(content.documents) > AT_ONCE
        and content.codec.kind.conversion is None
    )


async def _decoded_in_pieces(listing: Listing) -> Object:
    """A list as data. Between the pieces others have their turn of the loop."""
    items: list[Object] = []
    for document in listing.documents:
        items.append(document.object(listing.codec))
        if not len(items) % AT_ONCE:
            await asyncio.sleep(0)
    return listing.object(items)


async def _object(api: APIServer, document: Document, codec: Codec) -> Object:
    while True:
        try:
            return document.object(codec)
        except ConversionNeeded as needed:
            await api.convert(needed)


async def _events(api: APIServer, watch: Watch) -> AsyncIterator[Sequence[WatchEvent]]:
    codec = watch.codec
    async for batch in watch.batches():
        found = []
        for event in batch:
            document = event.current()
            if document is not None:
                try:
                    found.append(WatchEvent(event.type, document.object(codec)))
                except ConversionNeeded:
                    found.append(WatchEvent(event.type, await _object(api, document, codec)))
                continue
            obj = event.object
            assert obj is not None
            if event.type == ERROR:
                raise StatusError.from_status(obj, obj.get("code", 500))
            found.append(WatchEvent(event.type, obj))
        yield found


async def _once(data: bytes) -> AsyncIterator[bytes]:
    yield data


class _Pipe:
    """A sink whose chunks are read in the same process."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._taken = asyncio.Event()
        self.closed = False

    @property
    def congested(self) -> bool:
        return self._queue.qsize() > 128

    def write(self, data: bytes) -> None:
        if not self.closed:
            self._taken.clear()
            self._queue.put_nowait(data)

    async def drained(self) -> None:
        if self.congested and not self.closed:
            await self._taken.wait()

    async def fill(self, run: Any) -> None:
        await run
        self.close()

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self._taken.set()
            self._queue.put_nowait(None)

    async def chunks(self) -> AsyncIterator[bytes]:
        while (chunk := await self._queue.get()) is not None:
            if not self.congested:
                self._taken.set()
            yield chunk
