"""What storing does to an object: an empty list or map becomes none, which is written as null or not at all."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from dray.api.schema.model import Field, ListOf, MapOf, Struct, Type

_Settle = Callable[[Any], None]


def omit_empty(type_: Struct, obj: dict[str, Any]) -> None:
    """Change an object of this type, in place, into what a reader of the store sees."""
    if (settler := _of_struct(type_)) is not None:
        settler(obj)


def has_nothing_to_omit(type_: Struct, encoded: bytes) -> bool:
    """Whether an encoded object shows at a glance that there is nothing to settle in it; True is certain."""
    return not any(map(encoded.__contains__, _signs(type_)))


@cache
def _signs(type_: Struct) -> tuple[bytes, ...]:
    """What a field that needs settling looks like, wherever it is in an object of this type."""
    found: set[bytes] = set()
    seen: set[Struct] = set()
    ahead = [type_]
    while ahead:
        struct = ahead.pop()
        seen.add(struct)
        for field in struct.fields:
            if _holds_empty(field):
                found.add(b":[]" if isinstance(field.type, ListOf) else b":{}")
                if not _written(field):
                    found.add(b":null")
            inner = _innermost(field.type)
            if isinstance(inner, Struct) and inner not in seen:
                ahead.append(inner)
    return tuple(sorted(found))


def _innermost(type_: Type) -> Type:
    while isinstance(type_, ListOf | MapOf):
        type_ = type_.item if isinstance(type_, ListOf) else type_.value
    return type_


@cache
def _of_struct(type_: Struct) -> _Settle | None:
    """What to do with a struct; None if there is never anything to do."""
    # Few of a struct's fields are concerned, so it is these that are looked for, not those that an object has.
    concerned = [f for f in type_.fields if _holds_empty(f) or _concerned(f.type, frozenset())]
    if not concerned:
        return None
    steps: list[tuple[str, bool, bool, _Settle | None]] = []

    def settle_struct(obj: dict[str, Any]) -> None:
        if not steps:  # made on first use, for types may contain themselves
            steps.extend((f.name, _holds_empty(f), _written(f), _of(f.type)) for f in concerned)
        for name, holds_empty, written, settler in steps:
            if value := obj.get(name):
                if settler is not None:
                    settler(value)
            elif holds_empty and name in obj:
                if written:
                    obj[name] = None
                else:
                    del obj[name]

    return settle_struct


def _of(type_: Type) -> _Settle | None:
    match type_:
        case Struct():
            return _of_struct(type_)
        case ListOf():
            return _each(_of(type_.item), lambda value: value)
        case MapOf():
            return _each(_of(type_.value), lambda value: value.values())
    return None


def _each(settler: _Settle | None, items: Callable[[Any], Any]) -> _Settle | None:
    if settler is None:
        return None
    one = settler

    def settle_each(value: Any) -> None:
        for item in items(value):
            one(item)

    return settle_each


def _written(field: Field) -> bool:
    return field.emit in ("required", "always")


def _holds_empty(field: Field) -> bool:
    """Whether a decoded object may hold an empty list or map here."""
    return isinstance(field.type, ListOf | MapOf) and (field.pointer or _written(field))


def _concerned(type_: Type, above: frozenset[Struct]) -> bool:
    """Whether a value of this type may hold something to settle."""
    match type_:
        case ListOf():
            return _concerned(type_.item, above)
        case MapOf():
            return _concerned(type_.value, above)
        case Struct() if type_ not in above:
            return any(_holds_empty(f) or _concerned(f.type, above | {type_}) for f in type_.fields)
    return False
