"""``/openapi/v2`` and ``/openapi/v3``, built again when other resources are served."""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, TypeVar

from dray.api.scheme.kinds import Kind, Version
from dray.server.apiserver import APIServer, text_not_found
from dray.server.endpoints.requestinfo import RequestInfo
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import RawBody, Response

if TYPE_CHECKING:
    from dray.api.openapi import Document, OpenAPI

_PREFIX = "/openapi/v3/"
_R = TypeVar("_R")


def _published_schema(kind: Kind, version: Version) -> dict[str, Any] | None:
    """The schema of a custom resource as its definition has it."""
    return None if version.schema is None else dict(version.schema)


class OpenAPIRoutes:
    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._generation = -1
        self._documents: OpenAPI | None = None

    def install(self) -> None:
        self._api.path_handlers["/openapi/v2"] = self.v2
        self._api.path_handlers["/openapi/v3"] = self.index
        self._api.prefix_handlers[_PREFIX] = self.v3

    def _current(self) -> OpenAPI:
        from dray.api.openapi import OpenAPI

        resources = self._api.resources
        if self._documents is None or self._generation != resources.generation:
            self._generation = resources.generation
            version = self._api.version
            self._documents = OpenAPI(
                served=[(r.kind, r.served) for r in resources],
                release=version.emulation,
                server_version=version.git_version,
                custom=_published_schema,
            )
        return self._documents

    async def v2(self, request: Request, info: RequestInfo) -> Response:
        from dray.api.openapi import protobuf

        documents = self._current()
        if protobuf.accepted(request.headers.get("accept")):
            made = await self._made(request, documents, "v2.pb", documents.v2_protobuf)
            return _answer(request, made, protobuf.ANSWER_TYPE)
        return _answer(request, await self._made(request, documents, "v2", documents.v2))

    async def _made(self, request: Request, documents: OpenAPI, at: str, make: Callable[[], _R]) -> _R:
        """A document, made beside the loop when it is asked for the first time."""
        if documents.is_made(at):
            return make()
        return await self._api.large_documents.run(request.user.name if request.user else "", make)

    async def index(self, request: Request, info: RequestInfo) -> Response:
        return _answer(request, self._current().index())

    async def v3(self, request: Request, info: RequestInfo) -> Response:
        documents, at = self._current(), request.path.removeprefix(_PREFIX).strip("/")
        found = await self._made(request, documents, at, lambda: documents.v3(at))
        if found is None:
            return text_not_found()
        asked = request.query.get("hash")
        if asked and asked != found.hash:
            return Response(
                301, RawBody(b"", "text/plain"), [("Location", f"{request.path}?hash={found.hash}")]
            )
        response = _answer(request, found)
        if asked:
            # The hash names this very content, so it may be kept for good.
            response.headers += [("Cache-Control", "public, immutable"), ("Expires", _far_future())]
        return response


def _far_future() -> str:
    return formatdate(time.time() + 365 * 86400, usegmt=True)


def _answer(request: Request, document: Document, content_type: str = "application/json") -> Response:
    headers = [("Etag", f'"{document.hash}"'), ("Vary", "Accept")]
    if request.headers.get("if-none-match").strip('"') == document.hash:
        return Response(304, RawBody(b"", content_type), headers)
    return Response(200, RawBody(document.data, content_type), headers)
