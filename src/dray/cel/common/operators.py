"""Arithmetic, comparison and containment, with CEL's overflow rules. Failures are raised as EvaluationError."""

from __future__ import annotations

import math
from typing import Final

from dray.cel.common.values import (
    INT_MAX,
    INT_MIN,
    UINT_MAX,
    Duration,
    KeyedList,
    Map,
    Timestamp,
    UInt,
    Value,
    compare,
    equal,
    is_list,
    is_map,
)
from dray.cel.errors import EvaluationError, no_such_overload

# Values that answer to method calls fail in fewer words when an operator does not suit them.
_RECEIVERS: Final = frozenset({str, Timestamp, Duration})

ADDERS: Final = frozenset({int, UInt, float, str, bytes, list, tuple, KeyedList, Duration, Timestamp})
SUBTRACTORS: Final = frozenset({int, UInt, float, Duration, Timestamp})
MULTIPLIERS: Final = frozenset({int, UInt, float})
MODDERS: Final = frozenset({int, UInt})
COMPARERS: Final = frozenset({bool, int, UInt, float, str, bytes, Timestamp, Duration})


def unsuited(value: Value, function: str) -> EvaluationError:
    """The error for an operand that has no such operation."""
    if type(value) in _RECEIVERS:
        return no_such_overload()
    return EvaluationError(f"no such overload: {function}")


def _int(value: int) -> int:
    if INT_MIN <= value <= INT_MAX:
        return value
    raise EvaluationError("integer overflow")


def _uint(value: int) -> UInt:
    if 0 <= value <= UINT_MAX:
        return UInt(value)
    raise EvaluationError("unsigned integer overflow")


def duration(nanos: int) -> Duration:
    if INT_MIN <= nanos <= INT_MAX:
        return Duration(nanos)
    raise EvaluationError("duration overflow")


def timestamp(nanos: int, *, offset: int = 0) -> Timestamp:
    if Timestamp.MIN_SECONDS <= nanos // 10**9 <= Timestamp.MAX_SECONDS:
        return Timestamp(nanos, offset=offset)
    raise EvaluationError("timestamp overflow")


def add(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind not in ADDERS:
        raise unsuited(a, "_+_")
    if kind is type(b):
        if kind is int:
            return _int(a + b)
        if kind is str or kind is float or kind is bytes:
            return a + b
        if kind is UInt:
            return _uint(int(a) + int(b))
        if kind is Duration:
            return duration(a.nanos + b.nanos)
    if is_list(a) and is_list(b):
        if kind is KeyedList:
            return a.merged(b)
        return [*a, *b] if a and b else (a or b)
    if kind is Timestamp and type(b) is Duration:
        return timestamp(a.nanos + b.nanos, offset=a.offset)
    if kind is Duration and type(b) is Timestamp:
        return timestamp(a.nanos + b.nanos, offset=b.offset)
    raise no_such_overload()


def subtract(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind not in SUBTRACTORS:
        raise unsuited(a, "_-_")
    if kind is type(b):
        if kind is int:
            return _int(a - b)
        if kind is float:
            return a - b
        if kind is UInt:
            return _uint(int(a) - int(b))
        if kind is Duration:
            return duration(a.nanos - b.nanos)
        return Duration(_int(a.nanos - b.nanos))
    if kind is Timestamp and type(b) is Duration:
        if b.nanos == INT_MIN:
            raise EvaluationError("duration overflow")
        return timestamp(a.nanos - b.nanos, offset=a.offset)
    raise no_such_overload()


def multiply(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind not in MULTIPLIERS:
        raise unsuited(a, "_*_")
    if kind is not type(b):
        raise no_such_overload()
    if kind is int:
        return _int(a * b)
    return a * b if kind is float else _uint(int(a) * int(b))


def divide(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind not in MULTIPLIERS:
        raise unsuited(a, "_/_")
    if kind is not type(b):
        raise no_such_overload()
    if kind is float:
        return _divide_doubles(a, b)
    if b == 0:
        raise EvaluationError("division by zero")
    if kind is UInt:
        return UInt(int(a) // int(b))
    quotient = abs(a) // abs(b)
    return _int(quotient if (a < 0) == (b < 0) else -quotient)


def _divide_doubles(a: float, b: float) -> float:
    if b != 0:
        return a / b
    if a == 0 or a != a:
        return math.nan
    return math.inf if (math.copysign(1, a) < 0) == (math.copysign(1, b) < 0) else -math.inf


def modulo(a: Value, b: Value) -> Value:
    kind = type(a)
    if kind not in MODDERS:
        raise unsuited(a, "_%_")
    if kind is not type(b):
        raise no_such_overload()
    if b == 0:
        raise EvaluationError("modulus by zero")
    if kind is UInt:
        return UInt(int(a) % int(b))
    if a == INT_MIN and b == -1:
        raise EvaluationError("integer overflow")
    remainder = abs(a) % abs(b)
    return -remainder if a < 0 else remainder


def negate(a: Value) -> Value:
    kind = type(a)
    if kind is int:
        return _int(-a)
    if kind is float:
        return -a
    if kind is Duration:
        return duration(-a.nanos)
    raise no_such_overload() if kind is bool else unsuited(a, "-_")


def not_(a: Value) -> Value:
    if a is True:
        return False
    if a is False:
        return True
    raise no_such_overload()


def _ordered(a: Value, b: Value, function: str) -> int:
    if type(a) not in COMPARERS and type(a) in _RECEIVERS:
        raise no_such_overload()
    return compare(a, b, function)


def less(a: Value, b: Value) -> bool:
    return _ordered(a, b, "_<_") < 0


def less_equals(a: Value, b: Value) -> bool:
    return _ordered(a, b, "_<=_") <= 0


def greater(a: Value, b: Value) -> bool:
    return _ordered(a, b, "_>_") > 0


def greater_equals(a: Value, b: Value) -> bool:
    return _ordered(a, b, "_>=_") >= 0


def contains(element: Value, container: Value) -> bool:
    """``element in container``."""
    if is_list(container):
        if type(element) is str:
            return element in container
        return any(equal(element, each) for each in container)
    if is_map(container):
        if type(container) is Map or type(element) is str:
            return element in container
        return False
    raise no_such_overload()
