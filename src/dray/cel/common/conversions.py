"""Type conversions: ``int("5")``, ``string(1.5)``, ``duration("1h")`` and so on."""

from __future__ import annotations

import math
import re
from typing import Final

from dray.cel.common import timestamps
from dray.cel.common import types as t
from dray.cel.common.go_format import format_g
from dray.cel.common.operators import timestamp
from dray.cel.common.values import INT_MAX, INT_MIN, UINT_MAX, Duration, Timestamp, UInt, Value, type_of
from dray.cel.errors import EvaluationError

_TRUE: Final = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE: Final = frozenset({"0", "f", "F", "false", "FALSE", "False"})
_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_FLOAT: Final = re.compile(
    r"[+-]?(?:(?:[0-9](?:_?[0-9])*+)?\.?[0-9]*+(?:[eE][+-]?[0-9]+)?|inf(?:inity)?|nan)", re.IGNORECASE
)
_HEX_FLOAT: Final = re.compile(r"[+-]?0[xX][0-9a-fA-F]*+\.?[0-9a-fA-F]*+[pP][+-]?[0-9]+")


def _cannot(value: Value, wanted: t.Type) -> EvaluationError:
    return EvaluationError(f"type conversion error from '{type_of(value).name}' to '{wanted.name}'")


def to_int(value: Value) -> int:
    match value:
        case float():
            if not math.isfinite(value) or value <= INT_MIN or value >= INT_MAX:
                raise EvaluationError("integer overflow")
            return int(value)
        case UInt():
            if value > INT_MAX:
                raise EvaluationError("integer overflow")
            return int(value)
        case str():
            if _INTEGER.fullmatch(value) and len(value) < 100 and INT_MIN <= int(value) <= INT_MAX:
                return int(value)
            raise _cannot(value, t.INT)
        case Timestamp():
            return value.nanos // 10**9
        case Duration():
            return value.nanos
    return int(value)


def to_uint(value: Value) -> UInt:
    match value:
        case float():
            if not math.isfinite(value) or value < 0 or value >= 2.0**64:
                raise EvaluationError("unsigned integer overflow")
            return UInt(value)
        case str():
            if value.isascii() and value.isdigit() and len(value) < 100 and int(value) <= UINT_MAX:
                return UInt(value)
            raise _cannot(value, t.UINT)
        case UInt():
            return value
    if value < 0:
        raise EvaluationError("unsigned integer overflow")
    return UInt(value)


def to_double(value: Value) -> float:
    if isinstance(value, str):
        return _parse_double(value)
    return float(value)


def _parse_double(text: str) -> float:
    try:
        if _HEX_FLOAT.fullmatch(text):
            return float.fromhex(text)
        if _FLOAT.fullmatch(text) and any(c.isalnum() for c in text):
            number = float(text)
            if math.isfinite(number) or text.lstrip("+-")[:1].lower() in ("i", "n"):
                return number
    except (ValueError, OverflowError):
        pass
    raise _cannot(text, t.DOUBLE)


def to_bool(value: Value) -> bool:
    if isinstance(value, str):
        if value in _TRUE:
            return True
        if value in _FALSE:
            return False
        raise _cannot(value, t.BOOL)
    return bool(value)


def to_bytes(value: Value) -> bytes:
    return value.encode() if isinstance(value, str) else value


def to_string(value: Value) -> str:
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case int():
            return str(int(value))
        case float():
            return format_g(value)
        case bytes():
            try:
                return value.decode()
            except UnicodeDecodeError:
                raise EvaluationError("invalid UTF-8 in bytes, cannot convert to string") from None
        case Timestamp():
            return timestamps.format_timestamp(value)
        case Duration():
            return timestamps.format_duration(value)
    raise _cannot(value, t.STRING)


def to_timestamp(value: Value) -> Timestamp:
    match value:
        case str():
            parsed = timestamps.parse_timestamp(value)
            if parsed is None:
                raise _cannot(value, t.TIMESTAMP)
            return parsed
        case int():
            return timestamp(value * 10**9)
    assert isinstance(value, Timestamp)
    return value


def to_duration(value: Value) -> Duration:
    match value:
        case str():
            parsed = timestamps.parse_duration(value)
            if parsed is None:
                raise _cannot(value, t.DURATION)
            return parsed
        case int():
            # Declared, but upstream never learned to do it.
            raise _cannot(value, t.DURATION)
    assert isinstance(value, Duration)
    return value


def to_type(value: Value) -> t.Type:
    return type_of(value)
