"""``"%s has %d".format([…])``: the two dialects of cel-go's formatting.

The older one, which Kubernetes uses, prints numbers the American way (``10,000.5``, ``1.5 × 10⁰³``); the newer one
prints plain literals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from dray.api.validation.field import quote
from dray.cel.common import conversions, timestamps
from dray.cel.common import types as t
from dray.cel.common.values import Duration, Timestamp, UInt, Value, is_list, is_map, type_of
from dray.cel.errors import EvaluationError
from dray.cel.interpreter.limits import check_size

DEFAULT_PRECISION: Final = 6
_MAX_PRECISION: Final = 1_000_000
CLAUSES: Final = frozenset("sdfebxXo")

Clause = Callable[[Value, int], str]
Dialect = Mapping[str, Clause]


def interpolate(template: str, count: int, substitute: Callable[[int, str, int], str]) -> str:
    """The template with every clause replaced by what ``substitute`` makes of argument, clause and precision."""
    out: list[str] = []
    size = position = used = 0
    while position < len(template):
        percent = template.find("%", position)
        text = template[position:] if percent < 0 else template[position:percent]
        out.append(text)
        size += len(text)
        if percent < 0:
            break
        position = percent + 1
        if template[position : position + 1] == "%":
            out.append("%")
            position += 1
            continue
        if used >= count:
            raise EvaluationError(f"index {used} out of range")
        if position >= len(template):
            raise EvaluationError("unexpected end of string")
        clause, precision, position = _clause(template, position)
        out.append(substitute(used, clause, precision))
        used += 1
        size += len(out[-1])
        check_size(size)
    return "".join(out)


def _clause(template: str, position: int) -> tuple[str, int, int]:
    head = "could not parse formatting clause: "
    precision = DEFAULT_PRECISION
    if template[position] == ".":
        position += 1
        start = position
        while position < len(template) and "0" <= template[position] <= "9":
            position += 1
        digits = template[start:position]
        head_precision = f"{head}error while parsing precision: "
        if position >= len(template):
            raise EvaluationError(f"{head_precision}could not find end of precision specifier")
        if not digits or len(digits) > 9 or int(digits) > _MAX_PRECISION:
            kind = "invalid syntax" if not digits else "value out of range"
            raise EvaluationError(
                f"{head_precision}error while converting precision to integer: "
                f"strconv.Atoi: parsing {quote(digits)}: {kind}"
            )
        precision = int(digits)
    letter = template[position]
    if letter not in CLAUSES:
        raise EvaluationError(f'{head}unrecognized formatting clause "{letter}"')
    return letter, precision, position + 1


def _formatter(dialect: Dialect) -> Callable[[str, list[Value]], str]:
    def render(template: str, arguments: list[Value]) -> str:
        def substitute(index: int, clause: str, precision: int) -> str:
            try:
                return dialect[clause](arguments[index], precision)
            except EvaluationError as failed:
                raise EvaluationError(f"error during formatting: {failed.message}") from None

        return interpolate(template, len(arguments), substitute)

    return render


def clause_error(words: str, value: Value) -> EvaluationError:
    return EvaluationError(f"{words}, was given {type_of(value).name}")


STRING_CLAUSE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)


def _whole_number(words: str, base: str) -> Clause:
    def clause(value: Value, precision: int) -> str:
        if type(value) is int or type(value) is UInt:
            return f"{int(value):{base}}"
        raise clause_error(words, value)

    return clause


def _binary(words: str) -> Clause:
    whole = _whole_number(words, "b")

    def clause(value: Value, precision: int) -> str:
        return str(int(value)) if isinstance(value, bool) else whole(value, precision)

    return clause


def _hexadecimal(words: str, base: str) -> Clause:
    whole = _whole_number(words, base)

    def clause(value: Value, precision: int) -> str:
        if isinstance(value, str | bytes):
            digits = (value.encode() if isinstance(value, str) else value).hex()
            return digits.upper() if base == "X" else digits
        return whole(value, precision)

    return clause


# The American dialect

CLAUSE_ERRORS_V1: Final = {
    "s": STRING_CLAUSE,
    "d": "decimal clause can only be used on integers",
    "f": "fixed-point clause can only be used on doubles",
    "e": "scientific clause can only be used on doubles",
    "b": "only integers and bools can be formatted as binary",
    "x": "only integers, byte buffers, and strings can be formatted as hex",
    "X": "only integers, byte buffers, and strings can be formatted as hex",
    "o": "octal clause can only be used on integers",
}
_SPECIAL: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_SUPERSCRIPT: Final = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")


def _string_v1(value: Value, precision: int = 0) -> str:
    if is_list(value):
        return "[" + ", ".join(map(_element_v1, value)) + "]"
    if is_map(value):
        entries = sorted((_key_v1(k), _element_v1(v)) for k, v in value.items())
        return "{" + ", ".join(f"{key}:{entry}" for key, entry in entries) + "}"
    if value is None:
        return "null"
    if isinstance(value, t.Type):
        return value.name
    if isinstance(value, bool | int | float | str | bytes | Timestamp | Duration):
        return conversions.to_string(value)
    raise clause_error(STRING_CLAUSE, value)


def _element_v1(value: Value) -> str:
    """A value inside a list or map: strings quoted, times as calls, doubles with six decimals."""
    match value:
        case bool() | None | t.Type():
            return _string_v1(value)
        case int():
            return str(int(value))
        case str():
            return quote(value)
        case bytes():
            return "b" + quote(_string_v1(value))
        case float():
            return f"{value:.6f}" if math.isfinite(value) else quote(conversions.to_string(value))
        case Timestamp():
            return f"timestamp({quote(conversions.to_string(value))})"
        case Duration():
            return f"duration({quote(conversions.to_string(value))})"
    if is_list(value) or is_map(value):
        return _string_v1(value)
    raise EvaluationError(f"no formatting function for {type_of(value).name}")


def _key_v1(key: Value) -> str:
    if isinstance(key, str):
        return quote(key)
    if isinstance(key, bool | int):
        return _string_v1(key)
    raise EvaluationError(f"no formatting function for map key of type {type_of(key).name}")


def _double(value: Value, words: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    if not isinstance(value, float):
        raise clause_error(words, value)
    return value


def _fixed_v1(value: Value, precision: int) -> str:
    number = _double(value, CLAUSE_ERRORS_V1["f"])
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return f"{number:,.{precision}f}"


def _scientific_v1(value: Value, precision: int) -> str:
    # Upstream mistakes the precision for a width, so there are always six decimals.
    number = _double(value, CLAUSE_ERRORS_V1["e"])
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    mantissa, exponent = f"{number:.6e}".split("e")
    sign = "-" if exponent.startswith("-") else ""
    return f"{mantissa}\u202f×\u202f10{(sign + exponent[1:]).translate(_SUPERSCRIPT)}"


_V1: Final[Dialect] = {
    "s": _string_v1,
    "d": _whole_number(CLAUSE_ERRORS_V1["d"], "d"),
    "f": _fixed_v1,
    "e": _scientific_v1,
    "b": _binary(CLAUSE_ERRORS_V1["b"]),
    "x": _hexadecimal(CLAUSE_ERRORS_V1["x"], "x"),
    "X": _hexadecimal(CLAUSE_ERRORS_V1["X"], "X"),
    "o": _whole_number(CLAUSE_ERRORS_V1["o"], "o"),
}


# The literal dialect

_CLAUSE_ERRORS_V2: Final = {
    "d": "decimal clause can only be used on ints, uints, and doubles",
    "f": "fixed-point clause can only be used on ints, uints, and doubles",
    "e": "scientific clause can only be used on ints, uints, and doubles",
    "b": "only ints, uints, and bools can be formatted as binary",
    "x": "only ints, uints, bytes, and strings can be formatted as hex",
    "o": "octal clause can only be used on ints and uints",
}


def _string_v2(value: Value, precision: int = 0) -> str:
    match value:
        case None:
            return "null"
        case float():
            return _double_v2(value, timestamps.fixed)
        case t.Type():
            return value.name
        case Timestamp():
            return timestamps.format_timestamp(Timestamp(value.nanos))
        case bool() | int() | str() | bytes() | Duration():
            return conversions.to_string(value)
    if is_list(value):
        return "[" + ", ".join(map(_string_v2, value)) + "]"
    if is_map(value):
        entries = sorted((_string_v2(k), _string_v2(v)) for k, v in value.items())
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in entries) + "}"
    raise clause_error(STRING_CLAUSE, value)


def _double_v2(number: float, show: Callable[[float], str]) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return show(number)


def _decimal_v2(value: Value, precision: int) -> str:
    if isinstance(value, float):
        return _double_v2(value, timestamps.fixed)
    return _whole_number(_CLAUSE_ERRORS_V2["d"], "d")(value, precision)


def _number_v2(clause: str) -> Clause:
    def render(value: Value, precision: int) -> str:
        if type(value) is int or type(value) is UInt or isinstance(value, float):
            return _double_v2(float(value), lambda number: f"{number:.{precision}{clause}}")
        raise clause_error(_CLAUSE_ERRORS_V2[clause], value)

    return render


_V2: Final[Dialect] = {
    "s": _string_v2,
    "d": _decimal_v2,
    "f": _number_v2("f"),
    "e": _number_v2("e"),
    "b": _binary(_CLAUSE_ERRORS_V2["b"]),
    "x": _hexadecimal(_CLAUSE_ERRORS_V2["x"], "x"),
    "X": _hexadecimal(_CLAUSE_ERRORS_V2["x"], "X"),
    "o": _whole_number(_CLAUSE_ERRORS_V2["o"], "o"),
}

format_v1 = _formatter(_V1)
format_v2 = _formatter(_V2)
