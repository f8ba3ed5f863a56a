"""The exact way to decode: member by member in document order, with Go's errors and every unknown or duplicate field.

It is the authority on what a document means; ``fast`` takes the documents that need none of this.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from dray.api.errors import BadRequest
from dray.api.schema.gojson import TOO_DEEP, Members, plain
from dray.api.schema.model import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf
from dray.api.schema.scalars import READERS, ZEROS, Broken, Mismatch, json_kind

_MOST_PROBLEMS = 100


def read(type_: Struct, document: Any) -> tuple[dict[str, Any], list[str]]:
    """The object in Go's shape, and the unknown and duplicate fields; BadRequest on a value of the wrong type."""
    return read_value(type_, document)


def read_value(type_: Type, document: Any) -> tuple[Any, list[str]]:
    """The same for a value of any type."""
    reader = _Reader()
    try:
        value = reader.value(type_, document, "")
    except Broken as e:
        raise BadRequest(str(e)) from None
    except RecursionError:
        raise BadRequest(TOO_DEEP) from None
    if reader.failure:
        raise BadRequest(reader.failure)
    return value, list(reader.problems)


def zero(type_: Type) -> Any:
    """What a value of this type is when nothing is given, as it is written out."""
    match type_:
        case Scalar():
            return ZEROS[type_.base]
        case Struct():
            return {f.name: zero(f.type) if not f.pointer else None for f in type_.fields if _emitted(f)}
    return None


def _entry(type_: Type, value: Any) -> Any:
    """A value in a map. Storing makes empty bytes of none, so that nobody meets an entry without bytes."""
    return "" if value is None and isinstance(type_, Scalar) and type_.base == "bytes" else value


def _emitted(field: Field) -> bool:
    return field.emit in ("required", "always")


class _Reader:
    def __init__(self) -> None:
        self.problems: dict[str, None] = {}
        self.failure = ""  # the first type mismatch; Go reads on to the end after one
        self.struct = ""
        self.names: list[str] = []

    def value(self, type_: Type, value: Any, path: str) -> Any:
        if value is None:
            return zero(type_)
        match type_:
            case Scalar():
                try:
                    return READERS[type_.base](value, type_.go)
                except Mismatch as e:
                    return self._mismatch(e.found, e.wanted, type_)
            case Struct():
                return self._struct(type_, value, path)
            case ListOf():
                return self._list(type_, value, path)
            case MapOf():
                return self._map(type_, value, path)
            case UnionOf():
                return self._union(type_, value, path)

    def _mismatch(self, found: str, wanted: str, type_: Type) -> Any:
        if not self.failure:
            target = f"Go struct field {self.struct}.{'.'.join(self.names)}" if self.names else "Go value"
            self.failure = f"json: cannot unmarshal {found} into {target} of type {wanted}"
        return zero(type_)

    def _problem(self, what: str, path: str) -> None:
        if len(self.problems) < _MOST_PROBLEMS:
            self.problems.setdefault(f"{what} field {json.dumps(path, ensure_ascii=False)}")

    def _members(self, value: Any) -> Iterable[tuple[str, Any]] | None:
        if isinstance(value, Members):
            return value
        return value.items() if isinstance(value, dict) else None

    def _struct(self, type_: Struct, value: Any, path: str) -> Any:
        if (members := self._members(value)) is None:
            return self._mismatch(json_kind(value), type_.go, type_)
        given: dict[str, Any] = {}
        by_name = type_.by_name
        struct, depth = self.struct, len(self.names)
        for key, item in members:
            at = f"{path}.{key}" if path else key
            if (field := by_name.get(key)) is None:
                self._problem("unknown", at)
                continue
            if key in given:
                self._problem("duplicate", at)
            self.struct = type_.short
            self.names += (*field.via, key)
            given[key] = None if item is None and field.pointer else self.value(field.type, item, at)
            self.struct = struct
            del self.names[depth:]
        return _shaped(type_, given)

    def _list(self, type_: ListOf, value: Any, path: str) -> Any:
        if not isinstance(value, list) or isinstance(value, Members):
            return self._mismatch(json_kind(value), type_.go, type_)
        return [self.value(type_.item, item, f"{path}[{i}]") for i, item in enumerate(value)]

    def _map(self, type_: MapOf, value: Any, path: str) -> Any:
        if (members := self._members(value)) is None:
            return self._mismatch(json_kind(value), type_.go, type_)
        result: dict[str, Any] = {}
        for key, item in members:
            at = f"{path}.{key}" if path else key
            if key in result:
                self._problem("duplicate", at)
            result[key] = _entry(type_.value, self.value(type_.value, item, at))
        return result

    def _union(self, type_: UnionOf, value: Any, path: str) -> Any:
        kind = json_kind(value)
        for option in type_.options:
            if kind == _kind_of(option):
                return self.value(option, value, path)
        return plain(value)


def _kind_of(type_: Type) -> str:
    match type_:
        case Struct() | MapOf():
            return "object"
        case ListOf():
            return "array"
        case Scalar(base="bool"):
            return "bool"
    return "string"


def _shaped(type_: Struct, given: dict[str, Any]) -> dict[str, Any]:
    """The members in the struct's order, zero values dropped or filled in as the fields say."""
    result: dict[str, Any] = {}
    for field in type_.fields:
        name = field.name
        value = given.get(name)
        if value is None:
            if _emitted(field):
                result[name] = None if field.pointer else zero(field.type)
        elif field.pointer or not _is_zero(field, value) or _emitted(field):
            result[name] = value
    return result


def _is_zero(field: Field, value: Any) -> bool:
    match field.type:
        case Struct():
            return field.emit == "omitzero" and value == zero(field.type)
        case Scalar():
            return bool(value == ZEROS[field.type.base]) or (field.type.base == "bytes" and not value)
        case ListOf() | MapOf():
            return not value
    return False
