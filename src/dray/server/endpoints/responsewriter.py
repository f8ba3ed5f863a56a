"""Responses as bytes: JSON, YAML, tables, partial objects, watch streams, and Status bodies for errors."""

from __future__ import annotations

import asyncio
import gzip
import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from dray.api import protobuf
from dray.api.errors import (
    BadRequest,
    InternalError,
    NotAcceptable,
    RequestEntityTooLarge,
    StatusError,
    TooManyRequests,
)
from dray.api.groups.apiextensions.conversion import ConversionNeeded
from dray.api.scheme import table
from dray.api.scheme.kinds import Object
from dray.api.validation import objectmeta
from dray.server.apiserver import APIServer, PlainNotFound
from dray.server.auth.forbidden import AccessForbidden
from dray.server.endpoints import negotiation, websocket
from dray.server.endpoints.filters import RequestFilters
from dray.server.endpoints.largedocuments import LARGE
from dray.server.endpoints.negotiation import JSON, PLAIN, PROTOBUF, YAML, MediaType
from dray.server.endpoints.requests import Request
from dray.server.endpoints.responses import ObjectBody, RawBody, Response, StreamBody, UpgradeBody
from dray.server.endpoints.watch import (
    BOOKMARK,
    ERROR,
    Convert,
    EventEncoder,
    Watch,
    WatchEvent,
    WatchStream,
    json_event_encoder,
    protobuf_event_encoder,
)
from dray.server.metrics import other_labels
from dray.server.storage.codec import Codec, encode
from dray.server.storage.documents import Document, Listing
from dray.wire.messages import Reply

log = logging.getLogger(__name__)

#: Most of a list in JSON is copied from what is stored.
_PLAIN_LARGE: Final = 1 << 20
_GZIP_FROM: Final = 128 << 10
_GZIP_LEVEL: Final = 1
_NO_CACHE: Final = ("Cache-Control", "no-cache, private")
_JSON_HEADERS: Final[Sequence[tuple[str, str]]] = (_NO_CACHE, ("Content-Type", JSON))
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_WARNINGS_LENGTH: Final = 4096
_WARNING_LENGTH: Final = 256
_TEXT: Final = "text/plain; charset=utf-8"


class ResponseWriter:
    """The HTTP face of an ``API``: its ``serve`` is the handler of the HTTP server."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self.filters = RequestFilters(api)

    async def serve(self, request: Request) -> Reply:
        started = time.perf_counter()
        try:
            response = await self.filters.handle(request)
            reply = await self._rendered(request, response)
        except StatusError as e:
            reply = self._failure(request, e)
        except Exception as e:
            log.exception("%s %s failed", request.method, request.path)
            reply = self._failure(request, InternalError(f"Internal error occurred: {type(e).__name__}"))
        self._count(request, reply, time.perf_counter() - started)
        return reply

    async def _rendered(self, request: Request, response: Response) -> Reply:
        while True:
            try:
                return await self._render(request, response)
            except ConversionNeeded as needed:
                body = response.body
                also = [d.hub for d in body.documents] if isinstance(body, Listing) else ()
                await self._api.convert(needed, also=also)

    def _count(self, request: Request, reply: Reply, seconds: float) -> None:
        info = request.info
        assert info is not None
        labels = self._api.labels(info)
        if labels is None:
            # Labels are kept for good, so that none is taken from a path that anybody could have made up.
            labels = other_labels(request.method if request.method in _METHODS else "other")
        if request.query and (dry_run := request.query.get("dryRun")):
            labels = (labels[0], dry_run if dry_run == "All" else "invalid", *labels[2:])
        metrics = self._api.metrics
        metrics.requests.inc(str(reply.code), *labels)
        if reply.stream is None:
            metrics.durations.observe(seconds, *labels)

    # -- bodies

    async def _render(self, request: Request, response: Response) -> Reply:
        body = response.body
        headers = [*response.headers, *_warnings(request)]
        match body:
            case ObjectBody(document=document, codec=codec):
                media = negotiation.negotiate_output(request, custom=codec.kind.custom)
                if media is PLAIN:
                    data = document.full(codec) + b"\n"
                    return Reply(
                        response.code, [*_JSON_HEADERS, *headers] if headers else _JSON_HEADERS, data
                    )
                source = document.value if document.value is not None else request.body
                data = await self._written(
                    request, len(source) > LARGE, lambda: self._one(request, document, codec, media)
                )
                return _reply(response.code, data, media, headers)
            case Listing():
                media = negotiation.negotiate_output(request, custom=body.codec.kind.custom)
                limit = _PLAIN_LARGE if media is PLAIN else LARGE
                large = sum(len(d.value or b"") for d in body.documents) > limit
                data = await self._written(request, large, lambda: self._many(request, body, media))
                return await self._compressed(request, response.code, data, media.type, headers)
            case Watch():
                media = negotiation.negotiate_output(request, custom=body.codec.kind.custom)
                if media.type == YAML:
                    raise negotiation.not_acceptable(custom=body.codec.kind.custom, stream=True)
                line = self._line(request, body.codec, media)
                if websocket.is_requested(request.headers):
                    return _watch_messages(request, body, line, media, self._api.convert)
                stream = WatchStream(body, line, convert=self._api.convert)
                typed = ("Content-Type", JSON if media.type == JSON else f"{media.type};stream=watch")
                return Reply(response.code, [_NO_CACHE, typed, *headers], stream=stream)
            case RawBody():
                return await self._compressed(request, response.code, body.data, body.content_type, headers)
            case StreamBody():
                is_log = request.info is not None and request.info.subresource == "log"
                if is_log and websocket.is_requested(request.headers):
                    answer, framed = websocket.accept(request.headers, choose=True)
                    return Reply(101, [*answer], duplex=websocket.WebSocketStream(body.stream, framed))
                typed = ("Content-Type", body.content_type)
                return Reply(response.code, [_NO_CACHE, typed, *headers], stream=body.stream)
            case UpgradeBody():
                return Reply(101, [*body.headers, *headers], duplex=body.duplex)
        media = PLAIN
        if response.code < 300:
            numbered = protobuf.type_for(body.get("apiVersion", ""), body.get("kind", "")) is not None
            media = negotiation.negotiate_output(request, transforms=False, numbered=numbered)
        return self._object(response.code, body, media, headers)

    async def _written(self, request: Request, large: bool, write: Callable[[], bytes]) -> bytes:
        """What ``write`` returns. Much is written beside the loop."""
        if not large or request.user is None:
            return write()
        return await self._api.large_documents.run(request.user.name, write)

    def _one(self, request: Request, document: Document, codec: Codec, media: MediaType) -> bytes:
        if media.type == PROTOBUF and not media.transform:
            return document.enveloped(codec)
        return self._bytes(self._transformed(request, document, codec, media), media)

    def _transformed(self, request: Request, document: Document, codec: Codec, media: MediaType) -> Object:
        match media.transform:
            case "":
                return document.object(codec)
            case "Table":
                printer = table.printer_of(codec.kind)
                row = table.row(
                    printer,
                    _shown(document, codec),
                    document.object(codec),
                    now=self._api.clock.seconds(),
                    include=_include(request),
                    version=media.transform_version,
                )
                metadata = {"resourceVersion": str(document.revision)}
                return table.table(printer, [row], metadata=metadata, version=media.transform_version)
            case "PartialObjectMetadata":
                return table.partial_object_metadata(document.object(codec), version=media.transform_version)
        raise NotAcceptable(
            f"you requested {media.transform}, but the requested object is not a list ({_go_type(codec)})"
        )

    def _many(self, request: Request, listing: Listing, media: MediaType) -> bytes:
        if media is PLAIN:
            return listing.encoded() + b"\n"
        if media.type == PROTOBUF and not media.transform:
            return listing.enveloped()
        return self._bytes(self._transformed_list(request, listing, media), media)

    def _transformed_list(self, request: Request, listing: Listing, media: MediaType) -> Object:
        codec, version = listing.codec, media.transform_version
        match media.transform:
            case "":
                found = listing.object()
                if not codec.kind.custom:
                    found["items"] = [_untyped(item) for item in found["items"]]
                return found
            case "Table":
                printer, now, include = (
                    table.printer_of(codec.kind),
                    self._api.clock.seconds(),
                    _include(request),
                )
                # A row is written at once, so that large objects are not all held decoded for the sake of one list.
                keep: Callable[[Object], Any] = _encoded if media.type == JSON else _as_it_is
                rows = [
                    keep(
                        table.row(
                            printer,
                            _shown(d, codec),
                            d.object(codec),
                            now=now,
                            include=include,
                            version=version,
                        )
                    )
                    for d in listing.documents
                ]
                return table.table(printer, rows, metadata=listing.metadata(), version=version)
            case "PartialObjectMetadataList":
                objects = (d.object(codec) for d in listing.documents)
                return table.partial_object_metadata_list(
                    objects, metadata=listing.metadata(), version=version
                )
        raise NotAcceptable(
            f"you requested {media.transform}, but the requested object is a list ({_go_type(codec, 'List')})"
        )

    def _line(self, request: Request, codec: Codec, media: MediaType) -> EventEncoder:
        """How an event of a watch is written in this media."""
        if not media.transform:
            return protobuf_event_encoder(codec) if media.type == PROTOBUF else json_event_encoder(codec)
        version = media.transform_version
        printer, include = (
            table.printer_of(codec.kind),
            _include(request) if media.transform == "Table" else "None",
        )
        first = True

        def line(event: WatchEvent) -> bytes:
            nonlocal first
            document = event.current()
            if event.type == ERROR or (event.type == BOOKMARK and media.transform != "Table"):
                obj = event.object
                if event.type == BOOKMARK and obj is not None:
                    obj = table.partial_object_metadata(obj, version=version)
            elif media.transform != "Table":
                assert document is not None
                obj = table.partial_object_metadata(document.object(codec), version=version)
            elif document is None:
                assert event.object is not None
                revision = {"resourceVersion": event.object["metadata"]["resourceVersion"]}
                row = table.bookmark_row(printer, event.object, version=version)
                obj = table.table(printer, [row], metadata=revision, version=version, columns=first)
            else:
                row = table.row(
                    printer,
                    _shown(document, codec),
                    document.object(codec),
                    now=self._api.clock.seconds(),
                    include=include,
                    version=version,
                )
                metadata = {"resourceVersion": str(document.revision)}
                obj = table.table(printer, [row], metadata=metadata, version=version, columns=first)
            first = False
            if media.type == PROTOBUF:
                assert obj is not None
                return protobuf.frame(event.type, protobuf.enclose(obj))
            return b'{"type":"%b","object":%b}\n' % (event.type.encode(), encode(obj))

        return line

    def _bytes(self, obj: Object, media: MediaType) -> bytes:
        match media.type:
            case negotiation.PROTOBUF:
                return protobuf.enclose(obj)
            case negotiation.YAML:
                return (list_to_yaml(obj) if isinstance(obj.get("items"), list) else to_yaml(obj)) + b"\n"
        data = encode(obj)
        return (msgspec.json.format(data, indent=2) if media.pretty else data) + b"\n"

    def _object(self, code: int, obj: Object, media: MediaType, headers: Sequence[tuple[str, str]]) -> Reply:
        return _reply(code, self._bytes(obj, media), media, headers)

    async def _compressed(
        self, request: Request, code: int, data: bytes, content_type: str, headers: Sequence[tuple[str, str]]
    ) -> Reply:
        """Large answers are compressed for clients that take it, outside the event loop."""
        base = [_NO_CACHE, ("Content-Type", content_type)]
        if len(data) > _GZIP_FROM and "gzip" in request.headers.get("accept-encoding"):
            loop = asyncio.get_running_loop()
            data = await loop.run_in_executor(None, lambda: gzip.compress(data, _GZIP_LEVEL, mtime=0))
            base += [("Content-Encoding", "gzip"), ("Vary", "Accept-Encoding")]
        return Reply(code, [*base, *headers], data)

    def _failure(self, request: Request, error: StatusError) -> Reply:
        headers = _warnings(request)
        if isinstance(error, PlainNotFound):
            return Reply(404, [("Content-Type", _TEXT), *headers], b"404 page not found\n")
        if isinstance(error, TooManyRequests):
            retry = (error.details or {}).get("retryAfterSeconds", 1)
            headers.append(("Retry-After", str(retry)))
        if isinstance(error, AccessForbidden):
            headers.append(("X-Content-Type-Options", "nosniff"))
        media = negotiation.choose(request.headers.get("accept"), transforms=False) or PLAIN
        return self._object(error.http_code, error.status(), media, headers)


def _watch_messages(
    request: Request, watch: Watch, line: EventEncoder, media: MediaType, convert: Convert
) -> Reply:
    """A watch over a WebSocket: each event is a message."""
    frame = websocket.text_frame if media.type == JSON else websocket.binary_frame
    answer, _ = websocket.accept(request.headers)
    stream = WatchStream(watch, lambda event: frame(line(event)), convert=convert)
    return Reply(101, [*answer], duplex=websocket.WebSocketStream(stream))


def _shown(document: Document, codec: Codec) -> Object:
    """What columns are made of: the hub or, where a webhook makes the versions, the version that was asked for."""
    return document.hub if codec.kind.conversion is None else document.object(codec)


def _reply(code: int, data: bytes, media: MediaType, headers: Sequence[tuple[str, str]]) -> Reply:
    return Reply(code, [_NO_CACHE, ("Content-Type", media.type), *headers], data)


def refuse(code: int, message: str) -> Reply:
    """The body for a request that could not even be parsed."""
    if code == 413:
        return Reply(code, _JSON_HEADERS, encode(RequestEntityTooLarge(message).status()))
    return Reply(code, (("Content-Type", _TEXT),), message.encode())


def _include(request: Request) -> table.Include:
    include = request.query.get("includeObject") if request.query else ""
    if problems := objectmeta.validate_table_options(include):
        raise BadRequest(f"Unable to convert to Table as requested: {problems[0]}")
    return cast(table.Include, include or "Metadata")


def _encoded(obj: Object) -> msgspec.Raw:
    return msgspec.Raw(encode(obj))


def _as_it_is(obj: Object) -> Object:
    return obj


def _go_type(codec: Codec, suffix: str = "") -> str:
    """How upstream names the type of an object in its refusals."""
    if codec.kind.custom:
        return f"*unstructured.Unstructured{suffix}"
    package = (codec.kind.group or "core").partition(".")[0]
    return f"*{package}.{codec.kind.kind}{suffix}"


def _untyped(obj: Object) -> Object:
    return {k: v for k, v in obj.items() if k not in ("kind", "apiVersion")}


def _warnings(request: Request) -> list[tuple[str, str]]:
    """The Warning headers. As upstream, all are cut and the last ones left out if they are too much in total."""
    if not request.warnings:
        return []
    texts: list[str] = list(request.warnings)
    if sum(map(len, texts)) > _WARNINGS_LENGTH:
        cut, length = texts, 0
        texts = []
        for text in cut:
            if length >= _WARNINGS_LENGTH:
                break
            texts.append(text[:_WARNING_LENGTH])
            length += len(texts[-1])
    return [("Warning", f"299 - {_quoted(text)}") for text in texts]


def _quoted(text: str) -> str:
    """A Warning header's text: quoted, and without what has no place in a header."""
    clean = "".join(c if c.isprintable() else " " for c in text)
    return '"' + clean.replace("\\", "\\\\").replace('"', '\\"') + '"'


def list_to_yaml(obj: Object) -> bytes:
    """The same as ``to_yaml``, item by item: the writer takes a hundred times the memory of what it writes."""
    before = {k: v for k, v in obj.items() if k < "items"}
    after = {k: v for k, v in obj.items() if k > "items"}
    items = b"".join([to_yaml([item]) for item in obj["items"]])
    return b"".join(
        (
            to_yaml(before) if before else b"",
            b"items:\n" + items if items else b"items: []\n",
            to_yaml(after) if after else b"",
        )
    )


def to_yaml(obj: Object | list[Object]) -> bytes:
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    try:
        text: bytes = yaml.dump(
            obj, Dumper=dumper, default_flow_style=False, allow_unicode=True, encoding="utf-8"
        )
    except RecursionError:
        return encode(obj) + b"\n"  # JSON is YAML too, and its writer goes deeper
    return text
