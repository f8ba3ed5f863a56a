"""The standard library: CEL's operators, conversions and functions on strings and times."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, Final

from dray.cel.common import conversions, operators, timestamps
from dray.cel.common import types as t
from dray.cel.common.decls import Function, Library, Overload, overload
from dray.cel.common.regex import matches
from dray.cel.common.values import Duration, Timestamp, Value, size
from dray.cel.errors import no_such_overload
from dray.cel.parser import macros


def _operator(name: str, implementation: Callable[..., Any] | None, *signatures: tuple[str, str]) -> Function:
    return Function(
        name,
        tuple(overload(name, id, signature) for id, signature in signatures),
        singleton=implementation,
    )


_COMPARED: Final = (
    ("bool", "bool"), ("int64", "int64"), ("int64", "double"), ("int64", "uint64"), ("uint64", "uint64"),
    ("uint64", "double"), ("uint64", "int64"), ("double", "double"), ("double", "int64"), ("double", "uint64"),
    ("string", "string"), ("bytes", "bytes"), ("timestamp", "timestamp"), ("duration", "duration"),
)  # fmt: skip


def _relation(name: str, prefix: str, implementation: Callable[..., Any]) -> Function:
    def spell(part: str) -> str:
        return part.removesuffix("64")

    signatures = [
        (f"{prefix}_{a}" if a == b else f"{prefix}_{a}_{b}", f"({spell(a)}, {spell(b)}) -> bool")
        for a, b in _COMPARED
    ]
    return _operator(name, implementation, *signatures)


def _size(value: Value) -> int:
    found = size(value)
    if found is None:
        raise operators.unsuited(value, "size")
    return found


def _matches(text: Value, pattern: Value) -> bool:
    if type(text) is not str:
        raise operators.unsuited(text, "matches")
    if type(pattern) is not str:
        raise no_such_overload()
    return matches(text, pattern)


def _not_strictly_false(value: Value) -> bool:
    return value if value is False or value is True else True


def _strings(test: Callable[[str, str], bool]) -> Callable[[Value, Value], bool]:
    def checked(text: Value, part: Value) -> bool:
        if type(text) is not str or type(part) is not str:
            raise no_such_overload()
        return test(text, part)

    return checked


OPERATORS: Final = (
    _operator("_?_:_", None, ("conditional", "(bool, A, A) -> A")),
    _operator("_&&_", None, ("logical_and", "(bool, bool) -> bool")),
    _operator("_||_", None, ("logical_or", "(bool, bool) -> bool")),
    _operator("!_", operators.not_, ("logical_not", "(bool) -> bool")),
    _operator("@not_strictly_false", _not_strictly_false, ("not_strictly_false", "(bool) -> bool")),
    _operator("_==_", None, ("equals", "(A, A) -> bool")),
    _operator("_!=_", None, ("not_equals", "(A, A) -> bool")),
    _operator(
        "_+_",
        operators.add,
        ("add_bytes", "(bytes, bytes) -> bytes"),
        ("add_double", "(double, double) -> double"),
        ("add_duration_duration", "(duration, duration) -> duration"),
        ("add_duration_timestamp", "(duration, timestamp) -> timestamp"),
        ("add_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("add_int64", "(int, int) -> int"),
        ("add_list", "(list(A), list(A)) -> list(A)"),
        ("add_string", "(string, string) -> string"),
        ("add_uint64", "(uint, uint) -> uint"),
    ),
    _operator(
        "_/_",
        operators.divide,
        ("divide_double", "(double, double) -> double"),
        ("divide_int64", "(int, int) -> int"),
        ("divide_uint64", "(uint, uint) -> uint"),
    ),
    _operator(
        "_%_",
        operators.modulo,
        ("modulo_int64", "(int, int) -> int"),
        ("modulo_uint64", "(uint, uint) -> uint"),
    ),
    _operator(
        "_*_",
        operators.multiply,
        ("multiply_double", "(double, double) -> double"),
        ("multiply_int64", "(int, int) -> int"),
        ("multiply_uint64", "(uint, uint) -> uint"),
    ),
    _operator(
        "-_",
        operators.negate,
        ("negate_double", "(double) -> double"),
        ("negate_int64", "(int) -> int"),
    ),
    _operator(
        "_-_",
        operators.subtract,
        ("subtract_double", "(double, double) -> double"),
        ("subtract_duration_duration", "(duration, duration) -> duration"),
        ("subtract_int64", "(int, int) -> int"),
        ("subtract_timestamp_duration", "(timestamp, duration) -> timestamp"),
        ("subtract_timestamp_timestamp", "(timestamp, timestamp) -> duration"),
        ("subtract_uint64", "(uint, uint) -> uint"),
    ),
    _relation("_<_", "less", operators.less),
    _relation("_<=_", "less_equals", operators.less_equals),
    _relation("_>_", "greater", operators.greater),
    _relation("_>=_", "greater_equals", operators.greater_equals),
    _operator("_[_]", None, ("index_list", "(list(A), int) -> A"), ("index_map", "(map(A, B), A) -> B")),
    _operator(
        "@in", operators.contains, ("in_list", "(A, list(A)) -> bool"), ("in_map", "(A, map(A, B)) -> bool")
    ),
    _operator(
        "size",
        _size,
        ("size_bytes", "(bytes) -> int"),
        ("bytes_size", "bytes.() -> int"),
        ("size_list", "(list(A)) -> int"),
        ("list_size", "list(A).() -> int"),
        ("size_map", "(map(A, B)) -> int"),
        ("map_size", "map(A, B).() -> int"),
        ("size_string", "(string) -> int"),
        ("string_size", "string.() -> int"),
    ),
    _operator("type", conversions.to_type, ("type", "(A) -> type(A)")),
    _operator("dyn", lambda value: value, ("to_dyn", "(A) -> dyn")),
    _operator(
        "matches",
        _matches,
        ("matches", "(string, string) -> bool"),
        ("matches_string", "string.(string) -> bool"),
    ),
)

CONVERSIONS: Final = (
    overload("bool", "bool_to_bool", "(bool) -> bool", conversions.to_bool),
    overload("bool", "string_to_bool", "(string) -> bool", conversions.to_bool),
    overload("bytes", "bytes_to_bytes", "(bytes) -> bytes", conversions.to_bytes),
    overload("bytes", "string_to_bytes", "(string) -> bytes", conversions.to_bytes),
    overload("double", "double_to_double", "(double) -> double", conversions.to_double),
    overload("double", "int64_to_double", "(int) -> double", conversions.to_double),
    overload("double", "string_to_double", "(string) -> double", conversions.to_double),
    overload("double", "uint64_to_double", "(uint) -> double", conversions.to_double),
    overload("duration", "duration_to_duration", "(duration) -> duration", conversions.to_duration),
    overload("duration", "int64_to_duration", "(int) -> duration", conversions.to_duration),
    overload("duration", "string_to_duration", "(string) -> duration", conversions.to_duration),
    overload("int", "int64_to_int64", "(int) -> int", conversions.to_int),
    overload("int", "double_to_int64", "(double) -> int", conversions.to_int),
    overload("int", "duration_to_int64", "(duration) -> int", conversions.to_int),
    overload("int", "string_to_int64", "(string) -> int", conversions.to_int),
    overload("int", "timestamp_to_int64", "(timestamp) -> int", conversions.to_int),
    overload("int", "uint64_to_int64", "(uint) -> int", conversions.to_int),
    overload("string", "string_to_string", "(string) -> string", conversions.to_string),
    overload("string", "bool_to_string", "(bool) -> string", conversions.to_string),
    overload("string", "bytes_to_string", "(bytes) -> string", conversions.to_string),
    overload("string", "double_to_string", "(double) -> string", conversions.to_string),
    overload("string", "duration_to_string", "(duration) -> string", conversions.to_string),
    overload("string", "int64_to_string", "(int) -> string", conversions.to_string),
    overload("string", "timestamp_to_string", "(timestamp) -> string", conversions.to_string),
    overload("string", "uint64_to_string", "(uint) -> string", conversions.to_string),
    overload("timestamp", "timestamp_to_timestamp", "(timestamp) -> timestamp", conversions.to_timestamp),
    overload("timestamp", "int64_to_timestamp", "(int) -> timestamp", conversions.to_timestamp),
    overload("timestamp", "string_to_timestamp", "(string) -> timestamp", conversions.to_timestamp),
    overload("uint", "uint64_to_uint64", "(uint) -> uint", conversions.to_uint),
    overload("uint", "double_to_uint64", "(double) -> uint", conversions.to_uint),
    overload("uint", "int64_to_uint64", "(int) -> uint", conversions.to_uint),
    overload("uint", "string_to_uint64", "(string) -> uint", conversions.to_uint),
)

STRINGS: Final = (
    overload(
        "contains",
        "contains_string",
        "string.(string) -> bool",
        _strings(str.__contains__),
        guarded=False,
    ),
    overload(
        "endsWith", "ends_with_string", "string.(string) -> bool", _strings(str.endswith), guarded=False
    ),
    overload(
        "startsWith", "starts_with_string", "string.(string) -> bool", _strings(str.startswith), guarded=False
    ),
)


def _part(
    function: str, id: str, take: Callable[[datetime, Timestamp], int], *, zoned: str
) -> list[Overload]:
    """A getter of a timestamp's calendar, in UTC or in a given zone."""

    def in_utc(value: Timestamp) -> int:
        return take(timestamps.in_zone(value, UTC), value)

    def in_given(value: Timestamp, name: str) -> int:
        return take(timestamps.in_zone(value, timestamps.zone(name)), value)

    return [
        overload(function, id, "timestamp.() -> int", in_utc),
        overload(function, zoned, "timestamp.(string) -> int", in_given),
    ]


def _in_units(nanos: int) -> Callable[[Duration], int]:
    def take(value: Duration) -> int:
        quotient = abs(value.nanos) // nanos
        return -quotient if value.nanos < 0 else quotient

    return take


TIMES: Final = (
    *_part("getFullYear", "timestamp_to_year", lambda d, _: d.year, zoned="timestamp_to_year_with_tz"),
    *_part("getMonth", "timestamp_to_month", lambda d, _: d.month - 1, zoned="timestamp_to_month_with_tz"),
    *_part(
        "getDayOfYear",
        "timestamp_to_day_of_year",
        lambda d, _: d.timetuple().tm_yday - 1,
        zoned="timestamp_to_day_of_year_with_tz",
    ),
    *_part(
        "getDayOfMonth",
        "timestamp_to_day_of_month",
        lambda d, _: d.day - 1,
        zoned="timestamp_to_day_of_month_with_tz",
    ),
    *_part(
        "getDate",
        "timestamp_to_day_of_month_1_based",
        lambda d, _: d.day,
        zoned="timestamp_to_day_of_month_1_based_with_tz",
    ),
    *_part(
        "getDayOfWeek",
        "timestamp_to_day_of_week",
        lambda d, _: d.isoweekday() % 7,
        zoned="timestamp_to_day_of_week_with_tz",
    ),
    *_part("getHours", "timestamp_to_hours", lambda d, _: d.hour, zoned="timestamp_to_hours_with_tz"),
    overload("getHours", "duration_to_hours", "duration.() -> int", _in_units(3600 * 10**9)),
    *_part("getMinutes", "timestamp_to_minutes", lambda d, _: d.minute, zoned="timestamp_to_minutes_with_tz"),
    overload("getMinutes", "duration_to_minutes", "duration.() -> int", _in_units(60 * 10**9)),
    *_part("getSeconds", "timestamp_to_seconds", lambda d, _: d.second, zoned="timestamp_to_seconds_tz"),
    overload("getSeconds", "duration_to_seconds", "duration.() -> int", _in_units(10**9)),
    *_part(
        "getMilliseconds",
        "timestamp_to_milliseconds",
        lambda _, value: value.nanos % 10**9 // 10**6,
        zoned="timestamp_to_milliseconds_with_tz",
    ),
    overload("getMilliseconds", "duration_to_milliseconds", "duration.() -> int", _in_units(10**6)),
)

STANDARD: Final = Library(
    name="stdlib",
    functions=OPERATORS,
    overloads=(*CONVERSIONS, *STRINGS, *TIMES),
    macros=macros.STANDARD,
    types=(
        t.BOOL, t.BYTES, t.DOUBLE, t.DURATION, t.INT, t.list_of(t.type_param("A")),
        t.map_of(t.type_param("A"), t.type_param("B")), t.NULL, t.STRING, t.TIMESTAMP, t.TYPE, t.UINT,
    ),
)  # fmt: skip
