"""How Go reads a leaf: what it accepts, what it complains about, and how it would write the value back."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any, Final

from dray.api import times
from dray.api.quantity import Quantity
from dray.api.schema.gojson import Members, Number, plain

_LIMITS: Final = {"int32": 1 << 31, "int64": 1 << 63}


class Mismatch(Exception):
    """A JSON value of the wrong kind: Go says which, and of which type it should have been."""

    def __init__(self, found: str, wanted: str) -> None:
        self.found = found
        self.wanted = wanted


class Broken(Exception):
    """A value whose own parser refused it; Go gives up on the whole document."""


def json_kind(value: Any) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int | float):
        return "number"
    return "array" if isinstance(value, list) and not isinstance(value, Members) else "object"


def read_string(value: Any, go: str) -> str:
    if isinstance(value, str):
        return value
    raise Mismatch(json_kind(value), go)


def read_bool(value: Any, go: str) -> bool:
    if isinstance(value, bool):
        return value
    raise Mismatch(json_kind(value), go)


def read_int(value: Any, go: str, limit: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Mismatch(json_kind(value), go)
    if isinstance(value, Number):
        raise Mismatch(f"number {value.text}", go)
    if isinstance(value, float) and not value.is_integer():
        # In an object that was parsed before, a whole number is what Go would have written without a fraction.
        raise Mismatch(f"number {value!r}", go)
    number = int(value)
    if not -limit <= number < limit:
        raise Mismatch(f"number {number}", go)
    return number


def read_float(value: Any, go: str) -> float | int:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Mismatch(json_kind(value), go)
    if value in (float("inf"), float("-inf")):
        raise Mismatch(f"number {value.text if isinstance(value, Number) else value}", go)
    return int(value) if float(value).is_integer() and abs(value) < 1e21 else float(value)


def read_quantity(value: Any, go: str) -> str:
    try:
        if isinstance(value, str):
            return str(Quantity.parse(value.strip()))
        if isinstance(value, Number):
            return str(Quantity.parse(value.text))
        if isinstance(value, int | float) and not isinstance(value, bool):
            return str(Quantity.from_json(value))
        return str(Quantity.parse("{}"))  # anything else fails as any text would
    except ValueError as e:
        raise Broken(str(e)) from None


def read_int_or_string(value: Any, go: str) -> int | str:
    return value if isinstance(value, str) else read_int(value, "int32", _LIMITS["int32"])


def read_time(value: Any, go: str) -> str | None:
    return _parsed(times.canonical_time, value)


def read_micro_time(value: Any, go: str) -> str | None:
    return _parsed(times.canonical_micro_time, value)


def read_duration(value: Any, go: str) -> str:
    return str(_parsed(lambda text: times.format_duration(times.parse_duration(text)), value))


def _parsed(parse: Callable[[str], str | None], value: Any) -> str | None:
    text = read_string(value, "string")
    try:
        return parse(text)
    except ValueError as e:
        raise Broken(str(e)) from None


def read_bytes(value: Any, go: str) -> str:
    if not isinstance(value, str):
        raise Mismatch(json_kind(value), go)
    text = value.replace("\r", "").replace("\n", "")
    try:
        return base64.b64encode(base64.b64decode(text, validate=True)).decode()
    except (binascii.Error, ValueError):
        bad = re.match(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?", text)
        inside = re.match(r"[A-Za-z0-9+/]*", text)
        end = max(bad.end() if bad else 0, inside.end() if inside else 0)
        # Go stops with a soft error here, but nothing else can be said about the document either.
        raise Broken(f"illegal base64 data at input byte {end}") from None


def read_raw(value: Any, go: str) -> Any:
    return plain(value)


READERS: Final[dict[str, Callable[[Any, str], Any]]] = {
    "string": read_string,
    "bool": read_bool,
    "int32": lambda value, go: read_int(value, go, _LIMITS["int32"]),
    "int64": lambda value, go: read_int(value, go, _LIMITS["int64"]),
    "float64": read_float,
    "quantity": read_quantity,
    "intorstring": read_int_or_string,
    "time": read_time,
    "microtime": read_micro_time,
    "duration": read_duration,
    "bytes": read_bytes,
    "raw": read_raw,
}

#: What a field holds when nothing was given for it, as it is written out; None is written as null.
ZEROS: Final[dict[str, Any]] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "float64": 0,
    "quantity": "0",
    "intorstring": 0,
    "time": None,
    "microtime": None,
    "duration": "0s",
    "bytes": None,
    "raw": None,
}
