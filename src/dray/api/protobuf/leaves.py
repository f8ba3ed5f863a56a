"""Leaves: how a JSON value looks as a protobuf value, and the other way round.

Times, quantities, durations, numbers-or-names and free-form JSON are messages of their own; their payloads are made
and read here, without the length in front.
"""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, Final, NamedTuple

import msgspec

from dray.api import schema, times
from dray.api.errors import BadRequest
from dray.api.protobuf.wire import BYTES, FIXED64, VARINT, Malformed, signed, sized, small, varint

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME: Final = -62135596800  # Go's zero time, in seconds
_SECOND: Final = timedelta(seconds=1)
_json: Final = msgspec.json.Encoder().encode


class Leaf(NamedTuple):
    """A leaf's wire type, its payload from a value, and its value from a varint (or, else, from a payload)."""

    wire: int
    encode: Callable[[Any], bytes]
    decode: Callable[[Any], Any]
    memorable: bool = True  # values cannot be changed, and few different ones are to be expected


def _number(found: dict[int, int | bytes], number: int) -> int:
    value = found.get(number, 0)
    if isinstance(value, bytes):
        raise Malformed(f"proto: wrong wireType = {BYTES} for field {number}")
    return value


def _payload(found: dict[int, int | bytes], number: int) -> bytes:
    value = found.get(number, b"")
    if isinstance(value, int):
        raise Malformed(f"proto: wrong wireType = {VARINT} for field {number}")
    return value


def text(payload: bytes) -> str:
    """Go does not mind what is not UTF-8, and writes replacement characters for it in JSON."""
    return str(payload, "utf-8", "replace")


def _encode_text(value: str) -> bytes:
    return value.encode()


# -- plain leaves


def _encode_bytes(value: str) -> bytes:
    try:
        return base64.b64decode(value)
    except binascii.Error as e:
        raise ValueError(f"not base64: {e}") from None


def _decode_bytes(payload: bytes) -> str:
    return base64.b64encode(payload).decode()


def _encode_float(value: float) -> bytes:
    return struct.pack("<d", value)


def _decode_float(payload: bytes) -> float:
    value: float = struct.unpack("<d", payload)[0]
    if value != value or value in (float("inf"), float("-inf")):
        raise Malformed(f"json: unsupported value: {value}")
    return value


# -- times


def _encode_time(value: str) -> bytes:
    moment = datetime.fromisoformat(value) - _EPOCH
    return b"\x08" + varint(moment // _SECOND) + b"\x10\x00"


def _encode_micro_time(value: str) -> bytes:
    moment = datetime.fromisoformat(value) - _EPOCH
    return b"\x08" + varint(moment // _SECOND) + b"\x10" + varint(moment.microseconds * 1000)


def _moment(payload: bytes, *, fractions: bool) -> datetime | None:
    if not payload:
        return None
    found = small(payload, 0, len(payload))
    seconds, nanoseconds = signed(_number(found, 1), 64), signed(_number(found, 2), 32)
    microseconds = int(nanoseconds / 1000) if fractions else 0
    if seconds == _ZERO_TIME and not microseconds:
        return None
    try:
        return _EPOCH + timedelta(seconds=seconds, microseconds=microseconds)
    except OverflowError:
        raise Malformed("Time.MarshalJSON: year outside of range [0,9999]") from None


def _decode_time(payload: bytes) -> str | None:
    moment = _moment(payload, fractions=False)
    return None if moment is None else times.format_time(moment)


def _decode_micro_time(payload: bytes) -> str | None:
    moment = _moment(payload, fractions=True)
    return None if moment is None else times.format_micro_time(moment)


def _encode_duration(value: str) -> bytes:
    return b"\x08" + varint(times.parse_duration(value))


def _decode_duration(payload: bytes) -> str:
    return times.format_duration(signed(_number(small(payload, 0, len(payload)), 1), 64))


# -- quantities, numbers or names, free-form JSON


def _encode_quantity(value: str) -> bytes:
    return b"\n" + sized(value.encode())


def _decode_quantity(payload: bytes) -> str:
    found = small(payload, 0, len(payload))
    return text(_payload(found, 1)) if 1 in found else "0"


def _encode_int_or_string(value: int | str) -> bytes:
    if isinstance(value, str):
        return b"\x08\x01\x10\x00\x1a" + sized(value.encode())
    return b"\x08\x00\x10" + varint(value) + b"\x1a\x00"


def _decode_int_or_string(payload: bytes) -> int | str:
    found = small(payload, 0, len(payload))
    match signed(_number(found, 1), 64):
        case 0:
            return signed(_number(found, 2), 32)
        case 1:
            return text(_payload(found, 3))
    raise Malformed("impossible IntOrString.Type")


def _encode_raw(value: Any) -> bytes:
    return b"\n" + sized(_json(value))


def _decode_raw(payload: bytes) -> Any:
    document = _payload(small(payload, 0, len(payload)), 1)
    if not document:
        return None
    try:
        return schema.parse(document).object
    except BadRequest as e:
        raise Malformed(e.message) from None


LEAVES: Final[dict[str, Leaf]] = {
    "string": Leaf(BYTES, _encode_text, text),
    "bool": Leaf(VARINT, varint, bool),
    "int32": Leaf(VARINT, varint, lambda value: signed(value, 32)),
    "int64": Leaf(VARINT, varint, lambda value: signed(value, 64)),
    "float64": Leaf(FIXED64, _encode_float, _decode_float, memorable=False),
    "bytes": Leaf(BYTES, _encode_bytes, _decode_bytes, memorable=False),
    "time": Leaf(BYTES, _encode_time, _decode_time),
    "microtime": Leaf(BYTES, _encode_micro_time, _decode_micro_time),
    "duration": Leaf(BYTES, _encode_duration, _decode_duration),
    "quantity": Leaf(BYTES, _encode_quantity, _decode_quantity),
    "intorstring": Leaf(BYTES, _encode_int_or_string, _decode_int_or_string),
    "raw": Leaf(BYTES, _encode_raw, _decode_raw, memorable=False),
}
