"""Optional values: ``m[?key].orValue(default)``, ``optional.of(x)``, ``list.first()`` …"""

from __future__ import annotations

from typing import Final

from dray.cel.common import types as t
from dray.cel.common.decls import Library, overload
from dray.cel.common.go_format import go_string
from dray.cel.common.values import NONE, Duration, Optional, Timestamp, Value
from dray.cel.errors import EvaluationError
from dray.cel.parser import macros


def _of_non_zero(value: Value) -> Optional:
    return NONE if _is_zero(value) else Optional(value)


def _is_zero(value: Value) -> bool:
    if isinstance(value, Timestamp):
        # Go's zero time is the first of January of the year 1.
        return value.nanos == Timestamp.MIN_SECONDS * 10**9
    if isinstance(value, Duration):
        return value.nanos == 0
    if isinstance(value, Optional):
        return not value.present
    if (
        value is None
        or isinstance(value, bool | int | float | str | bytes | list | tuple)
        or hasattr(value, "items")
    ):
        return not value
    return False


def _value(optional: Optional) -> Value:
    if not optional.present:
        raise EvaluationError("optional.none() dereference")
    return optional.value


def _unwrap(values: list[Value]) -> list[Value]:
    for value in values:
        if not isinstance(value, Optional):
            raise EvaluationError(f"value {go_string(value)} is not optional")
    return [value.value for value in values if value.present]


def _first(values: list[Value]) -> Optional:
    return Optional(values[0]) if values else NONE


def _last(values: list[Value]) -> Optional:
    return Optional(values[-1]) if values else NONE


OPTIONALS: Final = Library(
    name="cel.lib.optional",
    types=(t.OPTIONAL,),
    macros=macros.OPTIONALS,
    overloads=(
        overload("optional.of", "optional_of", "(V) -> optional(V)", Optional),
        overload("optional.ofNonZeroValue", "optional_ofNonZeroValue", "(V) -> optional(V)", _of_non_zero),
        overload("optional.none", "optional_none", "() -> optional(V)", lambda: NONE),
        overload("value", "optional_value", "optional(V).() -> V", _value),
        overload("hasValue", "optional_hasValue", "optional(V).() -> bool", lambda o: o.present),
        overload("or", "optional_or_optional", "optional(V).(optional(V)) -> optional(V)"),
        overload("orValue", "optional_orValue_value", "optional(V).(V) -> V"),
        overload("_?._", "select_optional_field", "(dyn, string) -> optional(V)"),
        overload("_[?_]", "list_optindex_optional_int", "(list(V), int) -> optional(V)"),
        overload("_[?_]", "optional_list_optindex_optional_int", "(optional(list(V)), int) -> optional(V)"),
        overload("_[?_]", "map_optindex_optional_value", "(map(K, V), K) -> optional(V)"),
        overload("_[?_]", "optional_map_optindex_optional_value", "(optional(map(K, V)), K) -> optional(V)"),
        overload("_[_]", "optional_list_index_int", "(optional(list(V)), int) -> optional(V)"),
        overload("_[_]", "optional_map_index_value", "(optional(map(K, V)), K) -> optional(V)"),
        overload("last", "list_last", "list(V).() -> optional(V)", _last),
        overload("first", "list_first", "list(V).() -> optional(V)", _first),
        overload("optional.unwrap", "optional_unwrap", "(list(optional(V))) -> list(V)", _unwrap),
        overload("unwrapOpt", "optional_unwrapOpt", "list(optional(V)).() -> list(V)", _unwrap),
    ),
)
