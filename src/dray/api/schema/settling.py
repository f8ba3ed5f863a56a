"""What storing does to an object: an empty list or map that is always written becomes null."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from dray.api.schema.model import ListOf, MapOf, Struct, Type


class _Plan(NamedTuple):
    emptied: tuple[str, ...]  # fields that hold a list or map and are always written
    inside: tuple[tuple[str, Type], ...]  # fields below which there are such fields


def settle(type_: Struct, obj: dict[str, Any]) -> None:
    """Change an object of this type, in place, into what a reader of the store sees."""
    plan = _plan(type_)
    for name in plan.emptied:
        if not obj.get(name, True):
            obj[name] = None
    for name, inner in plan.inside:
        if (value := obj.get(name)) is not None:
            _settle_value(inner, value)


def _settle_value(type_: Type, value: Any) -> None:
    match type_:
        case Struct():
            settle(type_, value)
        case ListOf():
            for item in value:
                _settle_value(type_.item, item)
        case MapOf():
            for item in value.values():
                _settle_value(type_.value, item)


@cache
def _plan(type_: Struct) -> _Plan:
    emptied = tuple(
        f.name
        for f in type_.fields
        if f.emit in ("required", "always") and not f.pointer and isinstance(f.type, ListOf | MapOf)
    )
    inside = tuple((f.name, f.type) for f in type_.fields if _concerned(f.type, frozenset((type_,))))
    return _Plan(emptied, inside)


def _concerned(type_: Type, above: frozenset[Struct]) -> bool:
    """Whether a value of this type may hold something to settle."""
    match type_:
        case ListOf():
            return _concerned(type_.item, above)
        case MapOf():
            return _concerned(type_.value, above)
        case Struct():
            if type_ in above:
                return False
            return _concerned_struct(type_, above)
    return False


def _concerned_struct(type_: Struct, above: frozenset[Struct]) -> bool:
    for f in type_.fields:
        if f.emit in ("required", "always") and not f.pointer and isinstance(f.type, ListOf | MapOf):
            return True
    return any(_concerned(f.type, above | {type_}) for f in type_.fields)
