"""What an object travels in: a magic prefix and a message that names the object's type; and the frames of a watch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from dray.api.protobuf.encoder import encode
from dray.api.protobuf.leaves import text
from dray.api.protobuf.typemeta import type_for
from dray.api.protobuf.wire import Malformed, sized, small

#: Every object in protobuf begins so, on the wire and in the store.
MAGIC: Final = b"k8s\x00"
_NO_ENCODING: Final = b"\x1a\x00\x22\x00"  # content encoding and content type: both empty


class Envelope(NamedTuple):
    """What an envelope holds: the object's message, and the type it claims, which may be empty."""

    api_version: str
    kind: str
    message: bytes


def unwrap(data: bytes) -> Envelope:
    """Open an envelope; Malformed if it is none."""
    if not data:
        raise Malformed("empty data")
    if not data.startswith(MAGIC):
        raise Malformed(
            f"provided data does not appear to be a protobuf message, expected prefix [{' '.join(map(str, MAGIC))}]"
        )
    if len(data) == len(MAGIC):
        raise Malformed("empty body")
    found = _payloads(data, len(MAGIC))
    named = _payloads(found.get(1, b""), 0)
    return Envelope(text(named.get(1, b"")), text(named.get(2, b"")), found.get(2, b""))


def _payloads(data: bytes, at: int) -> dict[int, bytes]:
    found = small(data, at, len(data))
    for number, value in found.items():
        if isinstance(value, int):
            raise Malformed(f"proto: wrong wireType = 0 for field {number}")
    return {number: value for number, value in found.items() if isinstance(value, bytes)}


def head(api_version: str, kind: str) -> bytes:
    """The beginning of every envelope with an object of this type."""
    named = b"\n" + sized(api_version.encode()) + b"\x12" + sized(kind.encode())
    return MAGIC + b"\n" + sized(named) + b"\x12"


def wrap(head: bytes, message: bytes) -> bytes:
    """An object in its envelope."""
    return b"".join((head, sized(message), _NO_ENCODING))


def enclose(obj: Mapping[str, Any]) -> bytes:
    """An object that says what it is, in its envelope. TypeError if its type has no form in protobuf."""
    api_version, kind = obj.get("apiVersion", ""), obj.get("kind", "")
    type_ = type_for(api_version, kind)
    if type_ is None:
        raise TypeError(f"{api_version} {kind} has no form in protobuf")
    return wrap(head(api_version, kind), encode(type_, obj))


def list_message(metadata: bytes, items: Iterable[bytes]) -> bytes:
    """The message of a list, from the messages of its metadata and of its items."""
    parts = [b"\n" + sized(metadata)]
    parts.extend([b"\x12" + sized(item) for item in items])
    return b"".join(parts)


def frame(event: str, enveloped: bytes) -> bytes:
    """One event of a watch: its type and the object in its envelope, behind the size of it all."""
    message = b"\n" + sized(event.encode()) + b"\x12" + sized(b"\n" + sized(enveloped))
    return len(message).to_bytes(4, "big") + message
