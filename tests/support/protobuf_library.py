"""The types of the schema as messages of Google's protobuf library, which knows nothing of ours."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory, unknown_fields

from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf

_Kind = descriptor_pb2.FieldDescriptorProto
_PLAIN = {
    "string": _Kind.TYPE_STRING, "bool": _Kind.TYPE_BOOL, "int32": _Kind.TYPE_INT32, "int64": _Kind.TYPE_INT64,
    "float64": _Kind.TYPE_DOUBLE, "bytes": _Kind.TYPE_BYTES,
}  # fmt: skip
_MADE_OF = {
    "quantity": ["string"],
    "time": ["int64", "int32"],
    "microtime": ["int64", "int32"],
    "duration": ["int64"],
    "intorstring": ["int64", "int32", "string"],
    "raw": ["bytes"],
}


def reencoded(type_: Struct, data: bytes) -> bytes:
    """The message as the library writes it anew; an AssertionError if it does not know all that is in it."""
    message = _class(type_).FromString(data)
    _assert_known(message)
    written: bytes = message.SerializeToString(deterministic=True)
    return written


def _assert_known(message: Any) -> None:
    unknown = [(f.field_number, f.wire_type) for f in unknown_fields.UnknownFieldSet(message)]
    assert not unknown, f"{message.DESCRIPTOR.name} has no {unknown}"
    for field, value in message.ListFields():
        if field.message_type is None:
            continue
        if field.message_type.GetOptions().map_entry:
            if field.message_type.fields_by_number[2].message_type is not None:
                for key in value:
                    _assert_known(value[key])
        elif hasattr(value, "add"):
            for item in value:
                _assert_known(item)
        else:
            _assert_known(value)


@cache
def _class(type_: Struct) -> Any:
    maker = _Maker()
    name = maker.struct(type_)
    pool = descriptor_pool.DescriptorPool()
    pool.Add(maker.file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


class _Maker:
    def __init__(self) -> None:
        self.file = descriptor_pb2.FileDescriptorProto(name="types.proto", syntax="proto2")
        self._made: set[str] = set()

    def struct(self, type_: Struct) -> str:
        return self._message(_name(type_.name), [f for f in type_.fields if f.number], 0)

    def _message(self, name: str, fields: Sequence[Field], depth: int) -> str:
        if name in self._made:
            return name
        self._made.add(name)
        message = self.file.message_type.add(name=name)
        for field in fields:
            if len(field.within) == depth:
                self._field(message, field.number, field.type)
        for number in sorted({f.within[depth] for f in fields if len(f.within) > depth}):
            inside = [f for f in fields if f.within[depth : depth + 1] == (number,)]
            self._add(message, number, self._message(f"{name}_in{number}", inside, depth + 1))
        return name

    def _field(self, message: descriptor_pb2.DescriptorProto, number: int, type_: Type) -> None:
        match type_:
            case ListOf():
                self._add(message, number, self._single(type_.item), repeated=True)
            case MapOf():
                entry = message.nested_type.add(name=f"F{number}Entry")
                entry.options.map_entry = True
                self._add(entry, 1, _Kind.TYPE_STRING, name="key")
                self._add(entry, 2, self._single(type_.value), name="value")
                self._add(message, number, f"{message.name}.{entry.name}", repeated=True)
            case _:
                self._add(message, number, self._single(type_))

    def _single(self, type_: Type) -> int | str:
        match type_:
            case Scalar() if type_.base in _PLAIN:
                return _PLAIN[type_.base]
            case Scalar():
                return self._parts(type_.base, [Scalar(base, base) for base in _MADE_OF[type_.base]])
            case Struct():
                return self.struct(type_)
            case ListOf():
                return self._parts(f"ListOf{_name(type_.item.go)}", [type_])
            case UnionOf():
                return self._parts(_name(type_.go), type_.options)
        raise TypeError(type_)

    def _parts(self, name: str, types: Sequence[Type]) -> str:
        if name not in self._made:
            self._made.add(name)
            message = self.file.message_type.add(name=name)
            for number, type_ in enumerate(types, start=1):
                self._field(message, number, type_)
        return name

    @staticmethod
    def _add(
        message: descriptor_pb2.DescriptorProto,
        number: int,
        kind: int | str,
        *,
        repeated: bool = False,
        name: str = "",
    ) -> None:
        field = message.field.add(name=name or f"f{number}", number=number)
        field.label = _Kind.LABEL_REPEATED if repeated else _Kind.LABEL_OPTIONAL
        if isinstance(kind, str):
            field.type, field.type_name = _Kind.TYPE_MESSAGE, f".{kind}"
        else:
            field.type = kind  # type: ignore[assignment]


def _name(text: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in text)
