"""Messages as objects: JSON as a client could have sent it, with every zero value that Go writes.

The result still has to be shaped by ``schema.normalise``, which drops and orders, and refuses a bad quantity. Fields
of unknown numbers are stepped over, as everywhere in protobuf; a message that comes twice is merged.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, Final

from dray.api.protobuf.leaves import LEAVES, Leaf
from dray.api.protobuf.memo import memoized
from dray.api.protobuf.wire import (
    BYTES,
    END_GROUP,
    FIXED64,
    VARINT,
    Malformed,
    read_size,
    read_varint,
    skip,
)
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf, zero

#: Reads the value at a position into an object, and says where it ends.
_Read = Callable[[bytes, int, int, dict[str, Any]], int]
#: The ways to read a field, by wire type, made when the field is first met: types may contain themselves.
_Readers = Callable[[], Mapping[int, _Read]]

_STRING: Final = Scalar("string", "string")
_KEY, _VALUE = "key", "value"
_ITEMS: Final = "items"


def decode(type_: Struct, data: bytes) -> dict[str, Any]:
    """The message as an object, not yet shaped. Raises ``Malformed`` with the message of Go's generated code if it is none."""
    found: dict[str, Any] = {}
    try:
        _struct(type_).read(data, 0, len(data), found)
    except RecursionError:
        raise Malformed("proto: exceeded max depth") from None
    return found


class _Message:
    """Reads the fields of one kind of message."""

    def __init__(self, name: str, fields: Mapping[int, tuple[str, _Readers]]) -> None:
        self._name = name
        self._fields = fields
        self._readers: dict[int, _Read] = {}  # by key: number and wire type

    def read(self, data: bytes, at: int, end: int, into: dict[str, Any]) -> None:
        readers = self._readers
        while at < end:
            tag = data[at]
            at += 1
            if tag >= 0x80:
                tag, at = read_varint(data, at - 1, end)
            reader = readers.get(tag)
            if reader is None:
                reader = self._reader(tag)
            at = reader(data, at, end, into)

    def _reader(self, tag: int) -> _Read:
        number, wire = tag >> 3, tag & 7
        if wire == END_GROUP:
            raise Malformed(f"proto: {self._name}: wiretype end group for non-group")
        if not number:
            raise Malformed(f"proto: {self._name}: illegal tag {number} (wire type {tag})")
        if number not in self._fields:
            return lambda data, at, end, into: skip(data, at, end, wire)
        name, readers = self._fields[number]
        found = readers().get(wire)
        if found is None:
            raise Malformed(f"proto: wrong wireType = {wire} for field {name[:1].upper()}{name[1:]}")
        self._readers[tag] = found
        return found


@cache
def _struct(type_: Struct) -> _Message:
    return _message(type_.short, [f for f in type_.fields if f.number], 0)


def _message(name: str, fields: Sequence[Field], depth: int) -> _Message:
    """The message that lies this deep inside embedded structs; JSON has all their fields side by side."""
    known = {f.number: (f.name, _of(f.name, f.type)) for f in fields if len(f.within) == depth}
    for number in {f.within[depth] for f in fields if len(f.within) > depth}:
        inside = [f for f in fields if f.within[depth : depth + 1] == (number,)]
        embedded = inside[0].via[depth]
        known[number] = (embedded, _embedded(_message(embedded, inside, depth + 1)))
    return _Message(name, known)


def _embedded(message: _Message) -> _Readers:
    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        start, stop = read_size(data, at, end)
        message.read(data, start, stop, into)
        return stop

    return lambda: {BYTES: read}


def _of(name: str, type_: Type) -> _Readers:
    match type_:
        case ListOf(wrapped=False):
            return lambda: _list(name, type_.item)
        case MapOf():
            return lambda: {BYTES: _map(name, type_.value)}
    return lambda: _single(name, type_)


def _list(name: str, item: Type) -> Mapping[int, _Read]:
    """Each item stands for itself; numbers may also be packed into one payload."""
    ((wire, read_one),) = _single(_VALUE, item).items()

    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        found: dict[str, Any] = {}
        at = read_one(data, at, end, found)
        into.setdefault(name, []).append(found[_VALUE])
        return at

    def read_packed(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        at, stop = read_size(data, at, end)
        while at < stop:
            at = read(data, at, stop, into)
        return stop

    return {wire: read} if wire == BYTES else {wire: read, BYTES: read_packed}


def _map(name: str, value: Type) -> _Read:
    """A map is a list of entries, each with its key as field 1 and its value as field 2."""
    entry = _Message(
        "Entry",
        {1: (_KEY, lambda: _single(_KEY, _STRING)), 2: (_VALUE, lambda: _single(_VALUE, value))},
    )
    nothing = _empty(value)

    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        start, stop = read_size(data, at, end)
        found: dict[str, Any] = {}
        entry.read(data, start, stop, found)
        into.setdefault(name, {})[found.get(_KEY, "")] = found[_VALUE] if _VALUE in found else nothing()
        return stop

    return read


def _empty(type_: Type) -> Callable[[], Any]:
    """What an entry without a value holds."""
    match type_:
        case Struct():
            return dict
        case ListOf():
            return list
        case Scalar(base="bytes"):
            return str
    return lambda: zero(type_)


def _single(name: str, type_: Type) -> Mapping[int, _Read]:
    """One value; the one way to write it."""
    match type_:
        case Scalar():
            return _leaf(name, LEAVES[type_.base])
        case Struct():
            return {BYTES: _nested(name, _struct(type_))}
        case UnionOf():
            return {BYTES: _union(name, type_)}
        case ListOf():
            return {BYTES: _wrapped(name, type_)}
    raise TypeError(f"{type_.go} has no form in protobuf")


def _leaf(name: str, leaf: Leaf) -> Mapping[int, _Read]:
    convert = memoized(leaf.decode) if leaf.memorable else leaf.decode

    def read_number(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        value, at = read_varint(data, at, end)
        into[name] = convert(value)
        return at

    def read_payload(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        if at < end and (stop := at + 1 + data[at]) <= end and stop <= at + 0x80:
            into[name] = convert(data[at + 1 : stop])  # most payloads are short
            return stop
        start, stop = read_size(data, at, end)
        into[name] = convert(data[start:stop])
        return stop

    def read_fixed(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        stop = skip(data, at, end, FIXED64)
        into[name] = convert(data[at:stop])
        return stop

    return {leaf.wire: {VARINT: read_number, BYTES: read_payload, FIXED64: read_fixed}[leaf.wire]}


def _nested(name: str, message: _Message) -> _Read:
    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        start, stop = read_size(data, at, end)
        former = into.get(name)
        if former is None:
            former = into[name] = {}
        message.read(data, start, stop, former)
        return stop

    return read


def _wrapped(name: str, type_: ListOf) -> _Read:
    """A list inside a map is wrapped into a message of its own, and so are lists whose type says so."""
    message = _Message("Items", {1: (_ITEMS, lambda: _list(_ITEMS, type_.item))})

    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        start, stop = read_size(data, at, end)
        found: dict[str, Any] = {}
        message.read(data, start, stop, found)
        into[name] = found.get(_ITEMS, [])
        return stop

    return read


def _union(name: str, type_: UnionOf) -> _Read:
    """The options are the fields of a message, numbered as they are named. A list wins over a struct, that over a flag."""
    options = {i: (str(i), _of(str(i), option)) for i, option in enumerate(type_.options, start=1)}
    message = _Message(type_.go.rpartition(".")[2], options)
    flagged = any(isinstance(option, Scalar) for option in type_.options)

    def read(data: bytes, at: int, end: int, into: dict[str, Any]) -> int:
        start, stop = read_size(data, at, end)
        found: dict[str, Any] = {}
        message.read(data, start, stop, found)
        nothing = False if flagged else None
        into[name] = max(found.values(), key=_rank, default=nothing)
        return stop

    return read


def _rank(value: Any) -> int:
    return 2 if isinstance(value, list) else 1 if isinstance(value, dict) else 0
