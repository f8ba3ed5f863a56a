"""Kubernetes' protobuf, read only: what kubectl and older clients send when they create objects of built-in kinds.

The field numbers are in ``<group>_<version>.numbers``, a line for each message: its name, then ``field=number``; an
``@type=number`` is a message whose fields JSON has inline. Types come from the schema. Answers are always JSON, which
every such client accepts as well.
"""

from __future__ import annotations

import base64
import struct
from datetime import UTC, datetime, timedelta
from functools import cache
from importlib import resources
from typing import Any, Final

import msgspec

from dray.api import schema
from dray.api.errors import BadRequest
from dray.api.kinds import Object
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type

MEDIA_TYPE: Final = "application/vnd.kubernetes.protobuf"
_MAGIC: Final = b"k8s\x00"
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_INTEGERS: Final = {"int32": 32, "int64": 64}
_MAX_DEPTH: Final = 200

Wire = list[tuple[int, int, Any]]  # field number, wire type, value


class NotReadable(BadRequest):
    """The body is not what it says it is, or holds a kind whose numbers are not known."""


def supports(type_name: str) -> bool:
    return type_name.rpartition(".")[2] in _numbers(type_name.rpartition(".")[0])


def decode(data: bytes, type_name: str) -> Object:
    """The object in a body, not yet shaped: as if it had come as JSON with every zero value written out."""
    if not data.startswith(_MAGIC):
        raise NotReadable(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]"
        )
    try:
        obj = _decode(data[len(_MAGIC) :], type_name)
    except (IndexError, ValueError, struct.error, OverflowError) as e:
        raise NotReadable(f"proto: {e}") from None
    return obj


def _decode(data: bytes, type_name: str) -> Object:
    head: Object = {}
    raw = b""
    for number, _, value in _fields(data):
        if number == 1:
            for part, _, text in _fields(value):
                head["apiVersion" if part == 1 else "kind"] = bytes(text).decode()
        elif number == 2:
            raw = value
        elif number == 3 and value:
            raise NotReadable("the body is compressed in a way that is not understood")
    return {**head, **_message(raw, schema.type_of(type_name), type_name, 0)}


def _fields(data: bytes) -> Wire:
    found: Wire = []
    at, end = 0, len(data)
    while at < end:
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        value: Any
        if wire == _VARINT:
            value, at = _varint(data, at)
        elif wire == _BYTES:
            size, at = _varint(data, at)
            value, at = data[at : at + size], at + size
            if at > end:
                raise ValueError("unexpected EOF")
        elif wire == _FIXED64:
            value, at = data[at : at + 8], at + 8
        elif wire == _FIXED32:
            value, at = data[at : at + 4], at + 4
        else:
            raise ValueError(f"illegal wireType {wire}")
        found.append((number, wire, value))
    return found


def _varint(data: bytes, at: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if at >= len(data):
            raise ValueError("unexpected EOF")
        byte = data[at]
        at += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift > 63:
            raise ValueError("integer overflow")


def _message(data: bytes, type_: Struct, name: str, depth: int) -> Object:
    if depth > _MAX_DEPTH:
        raise ValueError("exceeded max depth")
    package, _, short = name.rpartition(".")
    layout = _numbers(package).get(short)
    if layout is None:
        raise NotReadable(f"{short} cannot be read as protobuf")
    found: Object = {}
    for number, wire, value in _fields(data):
        field_name = layout.get(number)
        if field_name is None:
            continue
        if field_name.startswith("@"):
            inner = field_name[1:]
            found.update(_message(value, schema.type_of(inner), inner, depth + 1))
            continue
        if field_name in ("kind", "apiVersion") and field_name not in type_.by_name:
            found[field_name] = bytes(value).decode()
            continue
        member = type_.by_name.get(field_name)
        if member is not None:
            _put(found, member, wire, value, depth)
    return found


def _put(found: Object, member: Field, wire: int, value: Any, depth: int) -> None:
    match member.type:
        case ListOf(item=item):
            values = found.setdefault(member.name, [])
            if wire == _BYTES and isinstance(item, Scalar) and item.base in _INTEGERS:
                values.extend(_scalar(item.base, _VARINT, n) for n in _packed(value))
            else:
                values.append(_value(item, wire, value, depth))
        case MapOf(value=item):
            key, content = "", b""
            kind = _BYTES
            for number, inner, part in _fields(value):
                if number == 1:
                    key = bytes(part).decode()
                else:
                    kind, content = inner, part
            found.setdefault(member.name, {})[key] = _value(item, kind, content, depth)
        case type_:
            found[member.name] = _value(type_, wire, value, depth)


def _packed(data: bytes) -> list[int]:
    found, at = [], 0
    while at < len(data):
        number, at = _varint(data, at)
        found.append(number)
    return found


def _value(type_: Type, wire: int, value: Any, depth: int) -> Any:
    match type_:
        case Scalar():
            return _scalar(type_.base, wire, value)
        case Struct():
            return _message(value, type_, type_.name, depth + 1)
        case ListOf(item=item):
            # A list inside a map or a list is wrapped into a message of its own.
            return [_value(item, inner, part, depth) for number, inner, part in _fields(value) if number == 1]
        case MapOf(value=item):
            wrapped: Object = {}
            for _, _, entry in _fields(value):
                parts = {number: (inner, part) for number, inner, part in _fields(entry)}
                key = bytes(parts.get(1, (0, b""))[1]).decode()
                wrapped[key] = _value(item, *parts.get(2, (_BYTES, b"")), depth)
            return wrapped
    raise NotReadable("a field cannot be read as protobuf")


def _scalar(base: str, wire: int, value: Any) -> Any:
    match base:
        case "string":
            return bytes(value).decode()
        case "bool":
            return bool(value)
        case "int32" | "int64":
            return _signed(value, _INTEGERS[base])
        case "float64":
            return struct.unpack("<d", value)[0]
        case "bytes":
            return base64.b64encode(value).decode()
        case "quantity":
            return _text(value, 1)
        case "intorstring":
            return _int_or_string(value)
        case "time":
            return _time(value, micro=False)
        case "microtime":
            return _time(value, micro=True)
        case "duration":
            nanoseconds = next((_signed(v, 64) for n, _, v in _fields(value) if n == 1), 0)
            return f"{nanoseconds / 1e9:g}s"
        case _:
            raw = next((v for n, _, v in _fields(value) if n == 1), b"")
            try:
                return msgspec.json.decode(raw) if raw else None
            except msgspec.MsgspecError as e:
                raise ValueError(str(e)) from None


def _text(data: bytes, wanted: int) -> str:
    return next((bytes(v).decode() for n, _, v in _fields(data) if n == wanted), "")


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _int_or_string(data: bytes) -> int | str:
    parts = {number: value for number, _, value in _fields(data)}
    if parts.get(1, 0) == 1:
        return bytes(parts.get(3, b"")).decode()
    return _signed(parts.get(2, 0), 32)


def _time(data: bytes, *, micro: bool) -> str | None:
    parts = {number: value for number, _, value in _fields(data)}
    seconds, nanoseconds = _signed(parts.get(1, 0), 64), _signed(parts.get(2, 0), 32)
    if not parts or seconds <= -62135596800:  # Go's zero time
        return None
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if micro else "%Y-%m-%dT%H:%M:%SZ")


@cache
def _numbers(package: str) -> dict[str, dict[int, str]]:
    file = resources.files(__package__) / f"{package.replace('/', '_')}.numbers"
    try:
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        return {}
    found = {}
    for line in text.splitlines():
        name, *words = line.split()
        found[name] = {int(number): field for field, _, number in (w.rpartition("=") for w in words)}
    return found
