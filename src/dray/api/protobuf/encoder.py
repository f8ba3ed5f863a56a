"""Objects as messages. Every field of a type is compiled, once, to a function from its value to its bytes.

Whatever an object holds is written, zero or not: what Go would leave out is not in the object to begin with.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final

from dray.api.protobuf.leaves import LEAVES, Leaf
from dray.api.protobuf.memo import memoized
from dray.api.protobuf.wire import BYTES, SMALL, key, varint
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf

_Encode = Callable[[Any], bytes]
_join = b"".join
_STRING: Final = Scalar("string", "string")


def encode(type_: Struct, obj: Mapping[str, Any]) -> bytes:
    """An object of this type as a message; what the type does not know is left out."""
    return _struct(type_)(obj)


@cache
def _struct(type_: Struct) -> _Encode:
    return _message(type_.fields, 0)


def _message(fields: Iterable[Field], depth: int) -> _Encode:
    """Encodes the fields of a message that lies this deep inside embedded structs."""
    fields = [f for f in fields if f.number]
    here = _Fields({f.name: f for f in fields if len(f.within) == depth})
    embedded = {f.name: f.within[depth] for f in fields if len(f.within) > depth}

    def encode_message(obj: Mapping[str, Any]) -> bytes:
        parts = []
        for name, value in obj.items():
            if value is not None:
                parts.append(here[name](value))
        return _join(parts)

    if not embedded:
        return encode_message
    inner = {
        number: _framed(
            key(number, BYTES),
            _message([f for f in fields if f.within[depth : depth + 1] == (number,)], depth + 1),
        )
        for number in set(embedded.values())
    }

    def encode_with_embedded(obj: Mapping[str, Any]) -> bytes:
        own: dict[str, Any] = {}
        inside: dict[int, dict[str, Any]] = {}
        for name, value in obj.items():
            if (number := embedded.get(name)) is None:
                own[name] = value
            else:
                inside.setdefault(number, {})[name] = value
        return _join([encode_message(own), *[inner[number](values) for number, values in inside.items()]])

    return encode_with_embedded


class _Fields(dict[str, _Encode]):
    """The functions of a message's fields by name, each made when it is first needed: types may contain themselves."""

    def __init__(self, known: Mapping[str, Field]) -> None:
        self._known = known

    def __missing__(self, name: str) -> _Encode:
        field = self._known.get(name)
        if field is None:
            return _nothing
        made = self[name] = _field(field.number, field.type)
        return made


def _nothing(value: Any) -> bytes:
    return b""


def _field(number: int, type_: Type) -> _Encode:
    match type_:
        case ListOf(wrapped=False):
            return _items(number, type_.item)
        case MapOf():
            entry = _entry(number, type_.value)
            return lambda values: _join(map(entry, values.items()))
    return _single(number, type_)


def _items(number: int, item: Type) -> _Encode:
    one = _single(number, item)
    return lambda values: _join(map(one, values))


def _entry(number: int, value: Type) -> _Encode:
    """A map is a list of entries, each with its key as field 1 and its value as field 2."""
    of_key, of_value = _single(1, _STRING), _single(2, value)
    return _framed(key(number, BYTES), lambda pair: of_key(pair[0]) + of_value(pair[1]))


def _single(number: int, type_: Type) -> _Encode:
    """One value of a field, with its key in front."""
    tag = key(number, BYTES)
    match type_:
        case Scalar():
            leaf = LEAVES[type_.base]
            encode = _leaf(number, leaf)
            return memoized(encode) if leaf.memorable else encode
        case Struct():
            return _framed(tag, _struct(type_))
        case UnionOf():
            return _framed(tag, _union(type_))
        case ListOf():
            # A list inside a map is wrapped into a message of its own, and so are lists whose type says so.
            return _framed(tag, _items(1, type_.item))
    raise TypeError(f"{type_.go} has no form in protobuf")


def _leaf(number: int, leaf: Leaf) -> _Encode:
    tag, encode = key(number, leaf.wire), leaf.encode
    return _framed(tag, encode) if leaf.wire == BYTES else lambda value: tag + encode(value)


def _framed(tag: bytes, payload_of: _Encode) -> _Encode:
    def encode_framed(value: Any) -> bytes:
        payload = payload_of(value) if value is not None else b""
        size = len(payload)
        return tag + SMALL[size] + payload if size < 0x80 else tag + varint(size) + payload

    return encode_framed


def _union(type_: UnionOf) -> _Encode:
    """The options are the fields of a message, numbered as they are named. Beside a schema, the flag is set."""
    by_shape: dict[type, _Encode] = {}
    flag = b""
    for number, option in enumerate(type_.options, start=1):
        match option:
            case Scalar(base="bool"):
                by_shape[bool] = _field(number, option)
                flag = by_shape[bool](True)
            case ListOf():
                by_shape[list] = _field(number, option)
            case _:
                by_shape[dict] = _field(number, option)

    def encode_union(value: Any) -> bytes:
        if (encode_option := by_shape.get(type(value))) is None:
            return b""  # Go drops what has none of the shapes
        return flag + encode_option(value) if type(value) is dict else encode_option(value)

    return encode_union
