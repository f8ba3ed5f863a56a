"""What the types of the API look like on the wire, and how a document becomes an object of one of them.

The types are written down in ``types/<group>_<version>.types``, a block for each struct::

    Container
      name      string               required     # written even when empty
      image     string               omitempty    # dropped when empty
      ports     []ContainerPort      omitempty patch=merge:containerPort list=map:containerPort,protocol
      resources ResourceRequirements value        # a struct held by value: always written, though optional
      tty       *bool                omitempty    # a pointer: false is kept once set

    PullPolicy = string enum Always Never IfNotPresent

Leaves are string, bool, int32, int64, float64, quantity, intorstring, time, microtime, duration, bytes and raw (any
JSON). ``[]T``, ``map[K]T`` and ``*T`` are as in Go; ``*[]T`` also stands for a list whose validation tells an empty
one from none. ``core/v1.Pod`` names a type of another file; ``A | B`` is told apart by its JSON shape. ``inline T``
takes over T's fields. ``always`` is ``required`` without being asked for, ``omitzero`` drops an empty struct or time,
``mandatory`` marks a field as required in the documentation only. ``patch=`` holds the strategic-merge strategies and
``merge:KEY``; ``list=atomic|set|map:KEYS``, ``map=atomic`` and ``struct=atomic`` say how server-side apply shares
ownership; ``default=JSON`` is the published default. ``since=1.34`` and ``until=1.30`` bound the releases that know a
field, and ``before=1.34:always`` says how older releases wrote it. ``@4`` is the field's number in protobuf.
``XList`` exists for every X.

A decoded object is a plain dict in the order of the struct's fields, holding what Go would write after reading the
same document: zero values gone or filled in, quantities and times in canonical form. Storing an object loses a
little more, the difference between an empty list and none; ``settle`` does that.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import msgspec

from dray.api.errors import BadRequest
from dray.api.schema import gojson
from dray.api.schema.fast import Codec, Unsupported
from dray.api.schema.gojson import TOO_DEEP
from dray.api.schema.loader import known, structs, type_of
from dray.api.schema.model import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf
from dray.api.schema.omitempty import has_nothing_to_omit, omit_empty
from dray.api.schema.reader import read, zero
from dray.api.schema.structural import structural_type

__all__ = [
    "Decoded",
    "Field",
    "ListOf",
    "MapOf",
    "Parsed",
    "Scalar",
    "Struct",
    "Type",
    "UnionOf",
    "decode",
    "has_duplicates",
    "has_nothing_to_omit",
    "known",
    "normalise",
    "omit_empty",
    "parse",
    "reshape",
    "structs",
    "structural_type",
    "type_of",
    "zero",
]  # fmt: skip


class Decoded(NamedTuple):
    """An object and what a strict reader would object to, in document order."""

    object: dict[str, Any]
    problems: list[str]


def decode(type_: Struct, data: bytes | dict[str, Any], *, strict: bool = False) -> Decoded:
    """Read a document, or shape one that was parsed before.

    ``strict`` also looks for duplicate members (unknown ones are always noticed). BadRequest, in Go's words, when
    the document is not JSON or a value has the wrong type.
    """
    codec = _codec(type_)
    try:
        if isinstance(data, dict):
            return Decoded(codec.convert(data), [])
        decoded = codec.decode(data)
        if not strict or not has_duplicates(data):
            return Decoded(decoded, [])
    except Unsupported:
        pass
    return Decoded(*read(type_, data if isinstance(data, dict) else gojson.parse(data)))


def reshape(type_: Struct, document: dict[str, Any], known: dict[str, Any]) -> Decoded:
    """Shape a document that was made from ``known``, a shaped one: parts taken over as they are stay as they are."""
    result: dict[str, Any] = {}
    for field in type_.fields:
        name = field.name
        if name not in document:
            if field.emit in ("required", "always"):
                return decode(type_, document)
            continue
        value = document[name]
        if value is known.get(name):
            result[name] = value
        elif isinstance(field.type, Struct) and isinstance(value, dict):
            part = decode(field.type, value)
            if part.problems or not (part.object or field.emit in ("required", "always")):
                return decode(type_, document)
            result[name] = part.object
        elif isinstance(value, str) and value == known.get(name):
            result[name] = value
        else:
            return decode(type_, document)
    return Decoded(result, []) if len(result) == len(document) else decode(type_, document)


def normalise(type_: Struct, document: dict[str, Any]) -> dict[str, Any]:
    """A parsed document in Go's shape, as a new object; unknown fields are dropped."""
    return decode(type_, document).object


class Parsed(NamedTuple):
    """Any JSON document, and its duplicate members."""

    object: Any
    problems: list[str]


def parse(data: bytes) -> Parsed:
    """A document without a type (a patch, a custom resource): plain JSON and its duplicate members."""
    try:
        document = _untyped.decode(data)
        if isinstance(document, dict) and not has_duplicates(data):
            return Parsed(document, [])
    except (_Fraction, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        pass
    document = gojson.parse(data)
    try:
        return Parsed(gojson.plain(document), gojson.duplicates(document))
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None


def has_duplicates(data: bytes) -> bool:
    """Whether a JSON document may hold a member twice; False is certain.

    A document that keeps its size when it is decoded and written anew has lost no member. White space is no part of
    the comparison, nor are the characters that Go writes as escapes.
    """
    try:
        document = _untyped.decode(data)
    except (_Fraction, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return True
    return len(_bare(data)) != len(_bare(msgspec.json.encode(document)))


def _bare(data: bytes) -> bytes:
    data = data.translate(None, b" \t\r\n")
    if b"\\u00" in data:
        data = data.replace(b"\\u003c", b"<").replace(b"\\u003e", b">").replace(b"\\u0026", b"&")
    return data


class _Fraction(Exception):
    """A number that may be written in other words than it was read."""


def _refuse_fraction(text: str) -> Any:
    raise _Fraction


_untyped = msgspec.json.Decoder(float_hook=_refuse_fraction)


@cache
def _codec(type_: Struct) -> Codec:
    return Codec(type_)
