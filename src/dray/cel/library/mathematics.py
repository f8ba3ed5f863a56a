"""cel-go's math extension. No Kubernetes release enables it; it is here for expressions outside of Kubernetes."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Final

from dray.cel.common.ast import Call, Ident, ListNode, Literal, MapNode, Message, Node
from dray.cel.common.decls import Library, Overload, overload
from dray.cel.common.values import INT_MIN, UINT_MAX, UInt, Value, compare
from dray.cel.errors import EvaluationError
from dray.cel.parser.macros import ANY_NUMBER, Macro, MacroError, MacroKey

_NUMBERS: Final = ("double", "int", "uint")


def _pair(wanted: int, name: str) -> Callable[[Value, Value], Value]:
    def choose(a: Value, b: Value) -> Value:
        try:
            return b if compare(a, b, "") == wanted else a
        except EvaluationError as failed:
            raise EvaluationError(f"{failed.message}: {name}") from None

    return choose


def _of_list(pair: Callable[[Value, Value], Value], name: str) -> Callable[[list[Value]], Value]:
    def choose(values: list[Value]) -> Value:
        if not values:
            raise EvaluationError(f"{name}(list) argument must not be empty")
        chosen = values[0]
        for value in values[1:]:
            chosen = pair(chosen, value)
        if isinstance(chosen, bool) or not isinstance(chosen, int | float):
            raise EvaluationError(f"no such overload: {name}")
        return chosen

    return choose


def _extreme(name: str, wanted: int) -> list[Overload]:
    function, prefix = f"math.@{name}", f"math_@{name}"
    pair = _pair(wanted, function)
    of_list = _of_list(pair, function)
    overloads = [overload(function, f"{prefix}_{t}", f"({t}) -> {t}", lambda value: value) for t in _NUMBERS]
    for a, b in (
        ("double", "double"), ("int", "int"), ("uint", "uint"), ("int", "uint"), ("int", "double"),
        ("double", "int"), ("double", "uint"), ("uint", "int"), ("uint", "double"),
    ):  # fmt: skip
        result = a if a == b else "dyn"
        overloads.append(overload(function, f"{prefix}_{a}_{b}", f"({a}, {b}) -> {result}", pair))
    overloads += [overload(function, f"{prefix}_list_{t}", f"(list({t})) -> {t}", of_list) for t in _NUMBERS]
    return overloads


def _numeric(node: Node) -> bool:
    """Whether an argument may be a number, as far as its form tells."""
    if isinstance(node, Literal):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    return not isinstance(node, ListNode | MapNode | Message)


def _extreme_macro(shown: str, function: str) -> Macro:
    def expand(offset: int, target: Node | None, args: list[Node]) -> Node | None:
        if not isinstance(target, Ident) or target.name != "math":
            return None
        if not args:
            raise MacroError(target, f"{shown} requires at least one argument")
        if len(args) == 1:
            only = args[0]
            listed = isinstance(only, ListNode) and only.elements and all(map(_numeric, only.elements))
            if not listed and not _numeric(only):
                raise MacroError(only, f"{shown} invalid single argument value")
            return Call(offset, function, None, args)
        for arg in args:
            if not _numeric(arg):
                raise MacroError(arg, f"{shown} simple literal arguments must be numeric")
        return Call(offset, function, None, args if len(args) == 2 else [ListNode(offset, args)])

    return expand


def _whole(rounding: Callable[[float], int]) -> Callable[[float], float]:
    """A rounding that leaves infinities and signed zeros alone."""

    def apply(value: float) -> float:
        return math.copysign(float(rounding(value)), value) if math.isfinite(value) else value

    return apply


def _round(value: float) -> int:
    return math.floor(abs(value) + 0.5) if abs(value) < 2**52 else int(abs(value))


def _absolute(value: Value) -> Value:
    if type(value) is int and value == INT_MIN:
        raise EvaluationError("integer overflow")
    return abs(value) if type(value) is not UInt else value


def _sign(value: Value) -> Value:
    if value != value:
        return value
    return type(value)((value > 0) - (value < 0))


def _sqrt(value: Value) -> float:
    number = float(value)
    return math.nan if number < 0 or math.isnan(number) else math.sqrt(number)


def _same(operation: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    return lambda a, b: type(a)(operation(int(a), int(b)))


def _not(value: Value) -> Value:
    return UInt(~int(value) & UINT_MAX) if type(value) is UInt else ~value


def _shifted(value: Value, bits: int, name: str, operation: Callable[[int, int], int]) -> Value:
    if bits < 0:
        raise EvaluationError(f"{name} negative offset: {bits}")
    result = operation(int(value) & UINT_MAX, min(bits, 64)) & UINT_MAX
    if type(value) is UInt:
        return UInt(result)
    return result - (1 << 64) if result >= 1 << 63 else result


def _shift_left(value: Value, bits: int) -> Value:
    return _shifted(value, bits, "math.bitShiftLeft()", lambda v, n: v << n)


def _shift_right(value: Value, bits: int) -> Value:
    return _shifted(value, bits, "math.bitShiftRight()", lambda v, n: v >> n)


def _both(function: str, signature: str, implementation: Callable[..., Value]) -> list[Overload]:
    """An overload for ints and one for uints."""
    head = function.replace(".", "_")
    return [
        overload(function, f"{head}_{t}_{t}", signature.format(t=t), implementation) for t in ("int", "uint")
    ]


MATHEMATICS: Final = Library(
    name="cel.lib.ext.math",
    macros={
        MacroKey("least", ANY_NUMBER, True): _extreme_macro("math.least()", "math.@min"),
        MacroKey("greatest", ANY_NUMBER, True): _extreme_macro("math.greatest()", "math.@max"),
    },
    overloads=(
        *_extreme("min", 1),
        *_extreme("max", -1),
        overload("math.ceil", "math_ceil_double", "(double) -> double", _whole(math.ceil)),
        overload("math.floor", "math_floor_double", "(double) -> double", _whole(math.floor)),
        overload("math.round", "math_round_double", "(double) -> double", _whole(_round)),
        overload("math.trunc", "math_trunc_double", "(double) -> double", _whole(math.trunc)),
        overload("math.isInf", "math_isInf_double", "(double) -> bool", math.isinf),
        overload("math.isNaN", "math_isNaN_double", "(double) -> bool", math.isnan),
        overload("math.isFinite", "math_isFinite_double", "(double) -> bool", math.isfinite),
        *(overload("math.abs", f"math_abs_{t}", f"({t}) -> {t}", _absolute) for t in _NUMBERS),
        *(overload("math.sign", f"math_sign_{t}", f"({t}) -> {t}", _sign) for t in _NUMBERS),
        *(overload("math.sqrt", f"math_sqrt_{t}", f"({t}) -> double", _sqrt) for t in _NUMBERS),
        *_both("math.bitAnd", "({t}, {t}) -> {t}", _same(int.__and__)),
        *_both("math.bitOr", "({t}, {t}) -> {t}", _same(int.__or__)),
        *_both("math.bitXor", "({t}, {t}) -> {t}", _same(int.__xor__)),
        *_both("math.bitNot", "({t}) -> {t}", _not),
        *_both("math.bitShiftLeft", "({t}, int) -> {t}", _shift_left),
        *_both("math.bitShiftRight", "({t}, int) -> {t}", _shift_right),
    ),
)
