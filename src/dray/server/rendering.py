"""Responses as bytes: JSON, YAML, tables, partial objects, and Status bodies for errors."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections.abc import Sequence

import msgspec

from dray.api.errors import InternalError, StatusError, TooManyRequests, Unauthorized
from dray.api.kinds import Object
from dray.server.api import API, PlainNotFound
from dray.server.documents import Listing, encode
from dray.server.http import Reply
from dray.server.negotiation import JSON, PLAIN, YAML, Media, choose
from dray.server.requests import One, Raw, Request, Response, Streaming, Upgraded
from dray.server.routing import target_of
from dray.server.watching import Watching, WatchStream, json_line

log = logging.getLogger(__name__)

_GZIP_FROM = 128 << 10
_GZIP_LEVEL = 1
_NO_CACHE = ("Cache-Control", "no-cache, private")
_JSON_HEADERS: Sequence[tuple[str, str]] = (_NO_CACHE, ("Content-Type", JSON))


class Renderer:
    """The HTTP face of an ``API``: its ``serve`` is the handler of the HTTP server."""

    def __init__(self, api: API) -> None:
        self._api = api

    async def serve(self, request: Request) -> Reply:
        started = time.perf_counter()
        try:
            response = await self._api.handle(request)
            reply = await self._render(request, response)
        except StatusError as e:
            reply = self._failure(request, e)
        except asyncio.CancelledError:
            raise
        except Exception as e:
            log.exception("%s %s failed", request.method, request.path)
            reply = self._failure(request, InternalError(f"Internal error occurred: {type(e).__name__}"))
        self._count(request, reply, time.perf_counter() - started)
        return reply

    def _count(self, request: Request, reply: Reply, seconds: float) -> None:
        target = target_of(request.method, request.path, request.query)
        verb = target.verb.upper() if target.resource else request.method
        scope = ""
        if target.resource:
            scope = "resource" if target.name else "namespace" if target.namespace else "cluster"
        dry_run = request.query.get("dryRun") if request.query else ""
        labels = ("apiserver", dry_run, target.group, target.resource, scope, target.subresource, verb, target.version)
        metrics = self._api.metrics
        metrics.requests.inc(str(reply.code), *labels)
        if reply.stream is None:
            metrics.durations.observe(seconds, *labels)

    async def _render(self, request: Request, response: Response) -> Reply:
        body = response.body
        headers = self._headers(request, response)
        match body:
            case One():
                media = self._media(request)
                if media is PLAIN:
                    data = body.document.full(body.codec) + b"\n"
                    return Reply(response.code, [*_JSON_HEADERS, *headers], data)
                return self._object(response.code, body.document.object(body.codec), media, headers)
            case Listing():
                media = self._media(request)
                if media is PLAIN:
                    return await self._compressed(request, response.code, body.encoded() + b"\n", headers)
                return self._object(response.code, body.object(), media, headers)
            case Watching():
                stream = WatchStream(body, json_line(body.codec))
                return Reply(response.code, [*_JSON_HEADERS, *headers], stream=stream)
            case Raw():
                base = [_NO_CACHE, ("Content-Type", body.content_type)]
                if len(body.data) > _GZIP_FROM:
                    return await self._compressed(request, response.code, body.data, [*base, *headers], typed=True)
                return Reply(response.code, [*base, *headers], body.data)
            case Streaming():
                return Reply(
                    response.code, [_NO_CACHE, ("Content-Type", body.content_type), *headers], stream=body.stream
                )
            case Upgraded():
                return Reply(101, [*body.headers, *headers], duplex=body.duplex)
            case _:
                return self._object(response.code, body, self._media(request), headers)

    def _media(self, request: Request) -> Media:
        from dray.server.negotiation import output

        return output(request)

    def _headers(self, request: Request, response: Response | None) -> list[tuple[str, str]]:
        headers = list(response.headers) if response is not None else []
        for text in request.warnings:
            headers.append(("Warning", f"299 - {_quoted(text)}"))
        return headers

    def _object(self, code: int, obj: Object, media: Media, headers: Sequence[tuple[str, str]]) -> Reply:
        if media.type == YAML:
            return Reply(code, [_NO_CACHE, ("Content-Type", YAML), *headers], to_yaml(obj))
        data = encode(obj)
        if media.pretty:
            data = msgspec.json.format(data, indent=2)
        return Reply(code, [*_JSON_HEADERS, *headers], data + b"\n")

    async def _compressed(
        self, request: Request, code: int, data: bytes, headers: Sequence[tuple[str, str]], *, typed: bool = False
    ) -> Reply:
        """Large answers are compressed for clients that take it, outside the event loop."""
        base = [] if typed else [*_JSON_HEADERS]
        if len(data) > _GZIP_FROM and "gzip" in request.headers.get("accept-encoding"):
            loop = asyncio.get_running_loop()
            data = await loop.run_in_executor(None, lambda: gzip.compress(data, _GZIP_LEVEL, mtime=0))
            extra = (("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding"))
            return Reply(code, [*base, *extra, *headers], data)
        return Reply(code, [*base, *headers], data)

    def _failure(self, request: Request, error: StatusError) -> Reply:
        headers = self._headers(request, None)
        if isinstance(error, PlainNotFound):
            return Reply(404, [("Content-Type", "text/plain; charset=utf-8"), *headers], b"404 page not found\n")
        if isinstance(error, TooManyRequests):
            retry = (error.details or {}).get("retryAfterSeconds", 1)
            headers.append(("Retry-After", str(retry)))
        if isinstance(error, Unauthorized):
            headers.append(("Www-Authenticate", "Bearer"))
        media = choose(request.headers.get("accept"), transforms=False) or PLAIN
        return self._object(error.http_code, error.status(), media, headers)


def refuse(code: int, message: str) -> Reply:
    """The body for a request that could not even be parsed."""
    if code == 413:
        from dray.api.errors import RequestEntityTooLarge

        data = encode(RequestEntityTooLarge(message).status())
        return Reply(code, _JSON_HEADERS, data)
    return Reply(code, (("Content-Type", "text/plain; charset=utf-8"),), message.encode())


def _quoted(text: str) -> str:
    """A Warning header's text: quoted, and without what has no place in a header."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


def to_yaml(obj: Object) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: bytes = yaml.dump(obj, Dumper=dumper, default_flow_style=False, allow_unicode=True, encoding="utf-8")
    return text
