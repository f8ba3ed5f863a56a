"""Responses: a code, headers, and a body that the response writer renders and the in-process transport reads as it is."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from dray.api.scheme.kinds import Object
from dray.server.endpoints.watch import Watch
from dray.server.storage.codec import Codec
from dray.server.storage.documents import Document, Listing
from dray.wire.duplex import Duplex, Stream


class ObjectBody(msgspec.Struct, frozen=True, eq=False):
    """A single object in one served version."""

    document: Document
    codec: Codec


@dataclass(frozen=True, slots=True)
class RawBody:
    """Bytes that are ready for the wire."""

    data: bytes
    content_type: str = "application/json"


@dataclass(frozen=True, slots=True)
class StreamBody:
    stream: Stream
    content_type: str


@dataclass(frozen=True, slots=True)
class UpgradeBody:
    """The connection changes its protocol (101) and is handed over."""

    duplex: Duplex
    headers: tuple[tuple[str, str], ...]


Body = ObjectBody | Listing | Watch | Object | RawBody | StreamBody | UpgradeBody


class Response(msgspec.Struct, eq=False):
    code: int
    body: Body
    headers: list[tuple[str, str]] = msgspec.field(default_factory=list)
