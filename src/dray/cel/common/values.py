"""CEL's values in Python, and the relations every operator rests on: type, equality, order.

| CEL | Python | | CEL | Python |
|---|---|---|---|---|
| null | None | | list | list or tuple |
| bool | bool | | map with string keys | dict |
| int | int | | any other map | Map |
| uint | UInt | | timestamp, duration | Timestamp, Duration |
| double | float | | optional | Optional |
| string, bytes | str, bytes | | type | types.Type |

Anything else is an opaque value that names its type in ``cel_type`` and its Go type, which shows in some error
messages, in ``go_type``. Values are never changed once made.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final

from dray.api.quantity import Quantity
from dray.api.semver import Version
from dray.cel.common import types as t
from dray.cel.errors import EvaluationError, no_such_overload

INT_MIN: Final = -(1 << 63)
INT_MAX: Final = (1 << 63) - 1
UINT_MAX: Final = (1 << 64) - 1
_EXACT: Final = 1 << 53

Value = Any

QUANTITY: Final = t.object_type("kubernetes.Quantity")
SEMVER: Final = t.object_type("kubernetes.Semver")


class UInt(int):
    """An unsigned 64-bit integer. It equals the int of the same value, as in CEL, but has its own type."""

    __slots__ = ()


class Duration:
    """A signed span of time in nanoseconds."""

    __slots__ = ("nanos",)
    go_type = "types.Duration"
    cel_type = t.DURATION

    def __init__(self, nanos: int) -> None:
        self.nanos = nanos

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Duration) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("duration", self.nanos))

    def __repr__(self) -> str:
        return f"Duration({self.nanos})"


class Timestamp:
    """A point in time in nanoseconds since the epoch, between the years 1 and 9999.

    The zone it was written in, in seconds east, shows only when it is printed.
    """

    __slots__ = ("nanos", "offset")
    go_type = "types.Timestamp"
    cel_type = t.TIMESTAMP
    MIN_SECONDS: Final = -62135596800
    MAX_SECONDS: Final = 253402300799

    def __init__(self, nanos: int, *, offset: int = 0) -> None:
        self.nanos = nanos
        self.offset = offset

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Timestamp) and self.nanos == other.nanos

    def __hash__(self) -> int:
        return hash(("timestamp", self.nanos))

    def __repr__(self) -> str:
        return f"Timestamp({self.nanos})"


class Optional:
    """A value that may be absent; ``NONE`` is the absent one."""

    __slots__ = ("present", "value")
    go_type = "*types.Optional"
    cel_type = t.OPTIONAL

    def __init__(self, value: Value = None, *, present: bool = True) -> None:
        self.value = value
        self.present = present

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Optional):
            return False
        if not (self.present and other.present):
            return self.present == other.present
        return equal(self.value, other.value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Optional({self.value!r})" if self.present else "Optional.NONE"


NONE: Final = Optional(present=False)


class Map(Mapping[Value, Value]):
    """A map whose keys need not be strings. True is not 1 here, while 1, 1u and 1.0 are one key."""

    __slots__ = ("_entries",)

    def __init__(self, entries: Iterable[tuple[Value, Value]] = ()) -> None:
        self._entries: dict[Value, tuple[Value, Value]] = {}
        for key, value in entries:
            self._entries[_hashed(key)] = (key, value)

    def __getitem__(self, key: Value) -> Value:
        return self._entries[_hashed(key)][1]

    def __contains__(self, key: object) -> bool:
        return _hashed(key) in self._entries

    def __iter__(self) -> Iterator[Value]:
        return (key for key, _ in self._entries.values())

    def __len__(self) -> int:
        return len(self._entries)

    def items(self) -> Any:
        return self._entries.values()

    def insert(self, key: Value, value: Value) -> bool:
        """Add an entry unless its key is there. Only for the one who made the map, before anyone else has it."""
        hashed = _hashed(key)
        if hashed in self._entries:
            return False
        self._entries[hashed] = (key, value)
        return True

    def __repr__(self) -> str:
        return f"Map({list(self._entries.values())!r})"


class KeyedList(list[Value]):
    """A list that stands for a set, or for a map by some fields of its elements: order does not matter to equality,
    and adding to it merges. ``key`` tells what identifies an element."""

    __slots__ = ("key",)

    def __init__(self, elements: Iterable[Value], key: Callable[[Value], Hashable]) -> None:
        super().__init__(elements)
        self.key = key

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, list) or len(self) != len(other):
            return False
        known = {self.key(element): element for element in self}
        return all((key := self.key(e)) in known and equal(known[key], e) for e in other)

    __hash__ = None

    def merged(self, others: Iterable[Value]) -> KeyedList:
        """The elements of both; of those with one key the other list's is taken, in the place of ours."""
        places = {self.key(element): i for i, element in enumerate(self)}
        result = KeyedList(self, self.key)
        for element in others:
            place = places.get(self.key(element))
            if place is None:
                places[self.key(element)] = len(result)
                result.append(element)
            else:
                result[place] = element
        return result


class _BoolKey:
    __slots__ = ()


_TRUE, _FALSE = _BoolKey(), _BoolKey()


def _hashed(key: Value) -> Value:
    if key is True:
        return _TRUE
    if key is False:
        return _FALSE
    return key


def make_map(entries: Iterable[tuple[Value, Value]]) -> Mapping[Value, Value]:
    """A map of these entries; the last of equal keys wins."""
    listed = list(entries)
    if all(type(key) is str for key, _ in listed):
        return dict(listed)
    for key, _ in listed:
        if type(key) not in SET_TYPES:
            raise EvaluationError(f"unsupported key type: {type_of(key).name}")
    return Map(listed)


SET_TYPES: Final = frozenset({str, int, bool, UInt, float})
"""The types whose values can be keys of a map or members of a set."""

_TYPES: Final[dict[type, t.Type]] = {
    type(None): t.NULL,
    bool: t.BOOL,
    int: t.INT,
    UInt: t.UINT,
    float: t.DOUBLE,
    str: t.STRING,
    bytes: t.BYTES,
    list: t.LIST,
    tuple: t.LIST,
    KeyedList: t.LIST,
    dict: t.MAP,
    Map: t.MAP,
    Timestamp: t.TIMESTAMP,
    Duration: t.DURATION,
    Optional: t.OPTIONAL,
    t.Type: t.TYPE,
    Quantity: QUANTITY,
    Version: SEMVER,
}

_GO_TYPES: Final[dict[type, str]] = {
    type(None): "types.Null",
    bool: "types.Bool",
    int: "types.Int",
    UInt: "types.Uint",
    float: "types.Double",
    str: "types.String",
    bytes: "types.Bytes",
    list: "*types.baseList",
    tuple: "*types.baseList",
    KeyedList: "*types.baseList",
    dict: "*types.baseMap",
    Map: "*types.baseMap",
    t.Type: "*types.Type",
    Quantity: "cel.Quantity",
    Version: "cel.Semver",
}


def type_of(value: Value) -> t.Type:
    """The run-time type of a value."""
    found = _TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, dict):
        return t.MAP
    declared: t.Type = value.cel_type
    return declared


def go_type_of(value: Value) -> str:
    """The Go type upstream's error messages name."""
    found = _GO_TYPES.get(type(value))
    if found is not None:
        return found
    if isinstance(value, dict):
        return "*types.baseMap"
    declared: str = value.go_type
    return declared


_LISTS: Final = (list, tuple)


def is_list(value: Value) -> bool:
    return isinstance(value, _LISTS)


def is_map(value: Value) -> bool:
    return isinstance(value, dict | Map)


def is_opaque(value: Value) -> bool:
    """Whether a value is of one of Kubernetes' own types, which equal nothing but their own kind."""
    kind = type(value)
    return kind is Quantity or kind is Version or (kind not in _TYPES and hasattr(value, "cel_type"))


def equals(a: Value, b: Value) -> bool:
    """CEL's ``==``. An opaque value on the left refuses to be compared with another type."""
    if is_opaque(a) and type(a) is not type(b) and b is not None:
        raise no_such_overload()
    return equal(a, b)


def equal(a: Value, b: Value) -> bool:
    """Whether two values are equal: numbers compare across types, everything else only within its own."""
    type_a, type_b = type(a), type(b)
    if type_a is type_b and type_a in _PLAIN:
        return bool(a == b)
    if type_a in _NUMBERS and type_b in _NUMBERS:
        return _compare_numbers(a, b) == 0
    if type_a is KeyedList:
        return bool(a == b)
    if is_list(a):
        return is_list(b) and len(a) == len(b) and all(map(_entry_equal, a, b))
    if is_map(a):
        return is_map(b) and len(a) == len(b) and all(k in b and _entry_equal(v, b[k]) for k, v in a.items())
    return type_a is type_b and bool(a == b)


def _entry_equal(a: Value, b: Value) -> bool:
    # Inside containers upstream takes "cannot be compared" for equal.
    return equal(a, b) or (is_opaque(a) and type(a) is not type(b) and b is not None)


_PLAIN: Final = frozenset(
    {str, int, bool, UInt, bytes, float, type(None), Quantity, Version, Timestamp, Duration}
)
_NUMBERS: Final = frozenset({int, UInt, float})


def _compare_numbers(a: float, b: float) -> int:
    """-1, 0, 1, or 2 if one of them is not a number.

    Between an integer and a double upstream rounds the integer to a double first, so beyond 2^53 neighbours
    compare equal; Python would compare them exactly.
    """
    if type(a) is float or type(b) is float:
        if a != a or b != b:
            return 2
        if type(a) is not float and not -_EXACT <= a <= _EXACT and math.isfinite(b):
            a = float(a)
        elif type(b) is not float and not -_EXACT <= b <= _EXACT and math.isfinite(a):
            b = float(b)
    return (a > b) - (a < b)


def compare(a: Value, b: Value, function: str) -> int:
    """The order of two values for ``<`` and its kin."""
    type_a, type_b = type(a), type(b)
    if type_a in _NUMBERS and type_b in _NUMBERS:
        order = _compare_numbers(a, b)
        if order == 2:
            raise EvaluationError("NaN values cannot be ordered")
        return order
    if type_a not in _ORDERED:
        raise EvaluationError(f"no such overload: {function}")
    if type_a is not type_b:
        if type_a is float and a != a:
            raise EvaluationError("NaN values cannot be ordered")
        raise no_such_overload()
    if type_a is Timestamp or type_a is Duration:
        a, b = a.nanos, b.nanos
    return int(a > b) - int(a < b)


_ORDERED: Final = frozenset({bool, int, UInt, float, str, bytes, Timestamp, Duration})


def size(value: Value) -> int | None:
    """What ``size()`` says, or None for a value without one."""
    kind = type(value)
    if kind in _SIZED or isinstance(value, dict):
        return len(value)
    if not hasattr(value, "cel_size"):
        return None
    measured: int = value.cel_size()
    return measured


_SIZED: Final = frozenset({str, bytes, list, tuple, KeyedList, dict, Map})


def accepts(wanted: t.Type, value: Value) -> bool:
    """Whether a value may be passed where a declaration says ``wanted``; of a container one entry is looked at."""
    kind = wanted.kind
    if kind in ("dyn", "any", "param"):
        return True
    if value is None and wanted.nullable:
        return True
    if type_of(value).name != wanted.name:
        return False
    if kind == "list":
        return not value or accepts(wanted.params[0], value[0])
    if kind == "map":
        if not value:
            return True
        key, entry = next(iter(value.items()))
        return accepts(wanted.params[0], key) and accepts(wanted.params[1], entry)
    return True


def find(container: Value, key: Value) -> Value:
    """The entry of a map; KeyError if there is none."""
    if type(container) is Map or type(key) is str:
        return container[key]
    raise KeyError(key)


def index_of(key: Value) -> int:
    """A list index from any number that is whole."""
    if type(key) is int or type(key) is UInt:
        return int(key)
    if type(key) is float:
        if key == int(key):
            return int(key)
        raise EvaluationError(f"unsupported index value {key} in list")
    raise EvaluationError(f"unsupported index type '{type_of(key).name}' in list")
