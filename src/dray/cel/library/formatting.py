"""``"%s has %d".format([…])``: the two dialects of cel-go's formatting.

The older one, which Kubernetes uses, prints numbers the American way (``10,000.5``, ``1.5 × 10⁰³``); the newer one
prints plain literals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

from dray.api.field import quote
from dray.cel import conversions, temporal
from dray.cel import types as t
from dray.cel.errors import EvaluationError
from dray.cel.limits import ensure
from dray.cel.values import Duration, Timestamp, UInt, Value, is_list, is_map, type_of

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
        ensure(size)
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


def refused(words: str, value: Value) -> EvaluationError:
    return EvaluationError(f"{words}, was given {type_of(value).name}")


STRING_CLAUSE: Final = (
    "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and "
    "timestamps"
)


def _whole_number(words: str, base: str) -> Clause:
    def clause(value: Value, precision: int) -> str:
        if type(value) is int or type(value) is UInt:
            return f"{int(value):{base}}"
        raise refused(words, value)

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

AMERICAN_WORDS: Final = {
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


def _american_string(value: Value, precision: int = 0) -> str:
    if is_list(value):
        return "[" + ", ".join(map(_american_element, value)) + "]"
    if is_map(value):
        entries = sorted((_american_key(k), _american_element(v)) for k, v in value.items())
        return "{" + ", ".join(f"{key}:{entry}" for key, entry in entries) + "}"
    if value is None:
        return "null"
    if isinstance(value, t.Type):
        return value.name
    if isinstance(value, bool | int | float | str | bytes | Timestamp | Duration):
        return conversions.to_string(value)
    raise refused(STRING_CLAUSE, value)


def _american_element(value: Value) -> str:
    """A value inside a list or map: strings quoted, times as calls, doubles with six decimals."""
    match value:
        case bool() | None | t.Type():
            return _american_string(value)
        case int():
            return str(int(value))
        case str():
            return quote(value)
        case bytes():
            return "b" + quote(_american_string(value))
        case float():
            return f"{value:.6f}" if math.isfinite(value) else quote(conversions.to_string(value))
        case Timestamp():
            return f"timestamp({quote(conversions.to_string(value))})"
        case Duration():
            return f"duration({quote(conversions.to_string(value))})"
    if is_list(value) or is_map(value):
        return _american_string(value)
    raise EvaluationError(f"no formatting function for {type_of(value).name}")


def _american_key(key: Value) -> str:
    if isinstance(key, str):
        return quote(key)
    if isinstance(key, bool | int):
        return _american_string(key)
    raise EvaluationError(f"no formatting function for map key of type {type_of(key).name}")


def _double(value: Value, words: str) -> float:
    if isinstance(value, str) and value in _SPECIAL:
        return float(value)
    if not isinstance(value, float):
        raise refused(words, value)
    return value


def _american_fixed(value: Value, precision: int) -> str:
    number = _double(value, AMERICAN_WORDS["f"])
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    return f"{number:,.{precision}f}"


def _american_scientific(value: Value, precision: int) -> str:
    # Upstream mistakes the precision for a width, so there are always six decimals.
    number = _double(value, AMERICAN_WORDS["e"])
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "∞" if number > 0 else "-∞"
    mantissa, exponent = f"{number:.6e}".split("e")
    sign = "-" if exponent.startswith("-") else ""
    return f"{mantissa}\u202f×\u202f10{(sign + exponent[1:]).translate(_SUPERSCRIPT)}"


_AMERICAN: Final[Dialect] = {
    "s": _american_string,
    "d": _whole_number(AMERICAN_WORDS["d"], "d"),
    "f": _american_fixed,
    "e": _american_scientific,
    "b": _binary(AMERICAN_WORDS["b"]),
    "x": _hexadecimal(AMERICAN_WORDS["x"], "x"),
    "X": _hexadecimal(AMERICAN_WORDS["X"], "X"),
    "o": _whole_number(AMERICAN_WORDS["o"], "o"),
}


# The literal dialect

_LITERAL_WORDS: Final = {
    "d": "decimal clause can only be used on ints, uints, and doubles",
    "f": "fixed-point clause can only be used on ints, uints, and doubles",
    "e": "scientific clause can only be used on ints, uints, and doubles",
    "b": "only ints, uints, and bools can be formatted as binary",
    "x": "only ints, uints, bytes, and strings can be formatted as hex",
    "o": "octal clause can only be used on ints and uints",
}


def _literal_string(value: Value, precision: int = 0) -> str:
    match value:
        case None:
            return "null"
        case float():
            return _literal_double(value, temporal.fixed)
        case t.Type():
            return value.name
        case Timestamp():
            return temporal.format_timestamp(Timestamp(value.nanos))
        case bool() | int() | str() | bytes() | Duration():
            return conversions.to_string(value)
    if is_list(value):
        return "[" + ", ".join(map(_literal_string, value)) + "]"
    if is_map(value):
        entries = sorted((_literal_string(k), _literal_string(v)) for k, v in value.items())
        return "{" + ", ".join(f"{key}: {entry}" for key, entry in entries) + "}"
    raise refused(STRING_CLAUSE, value)


def _literal_double(number: float, show: Callable[[float], str]) -> str:
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return show(number)


def _literal_decimal(value: Value, precision: int) -> str:
    if isinstance(value, float):
        return _literal_double(value, temporal.fixed)
    return _whole_number(_LITERAL_WORDS["d"], "d")(value, precision)


def _literal_number(clause: str) -> Clause:
    def render(value: Value, precision: int) -> str:
        if type(value) is int or type(value) is UInt or isinstance(value, float):
            return _literal_double(float(value), lambda number: f"{number:.{precision}{clause}}")
        raise refused(_LITERAL_WORDS[clause], value)

    return render


_LITERAL: Final[Dialect] = {
    "s": _literal_string,
    "d": _literal_decimal,
    "f": _literal_number("f"),
    "e": _literal_number("e"),
    "b": _binary(_LITERAL_WORDS["b"]),
    "x": _hexadecimal(_LITERAL_WORDS["x"], "x"),
    "X": _hexadecimal(_LITERAL_WORDS["x"], "X"),
    "o": _whole_number(_LITERAL_WORDS["o"], "o"),
}

format_american = _formatter(_AMERICAN)
format_literal = _formatter(_LITERAL)
