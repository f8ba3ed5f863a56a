"""The values mutating policies make: ``Object{spec: Object.spec{…}}`` and ``JSONPatch{op: …}``.

Nothing is known about the schema of the object, so any field may be named; that the names of nested types follow
the path of fields is checked once the value is there.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from dray.api.validation.field import quote
from dray.cel.common import conversions
from dray.cel.common import types as t
from dray.cel.common.decls import Environment, Library, overload
from dray.cel.common.go_format import go_string
from dray.cel.common.values import Duration, Timestamp, UInt, Value, equal, go_type_of, is_list, is_map
from dray.cel.errors import EvaluationError

OBJECT: Final = "Object"
JSON_PATCH_TYPE: Final = t.object_type("JSONPatch")
_PATCH_FIELDS: Final = {"op": t.STRING, "path": t.STRING, "from": t.STRING, "value": t.DYN}
_EXACT_IN_JSON: Final = 1 << 53


@dataclass(frozen=True, slots=True, eq=False)
class ObjectValue:
    """An object with the type name it was made with and the fields that were given."""

    type_name: str
    fields: Mapping[str, Value]
    go_type: str = field(default="*dynamic.ObjectVal", init=False, repr=False)

    @property
    def cel_type(self) -> t.Type:
        return t.object_type(self.type_name)

    @property
    def cel_fields(self) -> Mapping[str, Value]:
        return self.fields

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, ObjectValue)
            and self.type_name == other.type_name
            and equal(dict(self.fields), dict(other.fields))
        )

    __hash__ = None  # type: ignore[assignment]


@dataclass(frozen=True, slots=True, eq=False)
class JSONPatchValue:
    """One operation of a JSON patch."""

    operation: Mapping[str, Value]
    go_type: str = field(default="*mutation.JSONPatchVal", init=False, repr=False)

    @property
    def cel_type(self) -> t.Type:
        return JSON_PATCH_TYPE

    @property
    def cel_fields(self) -> Mapping[str, Value]:
        return self.operation

    def __eq__(self, other: object) -> bool:
        return isinstance(other, JSONPatchValue) and equal(dict(self.operation), dict(other.operation))

    __hash__ = None  # type: ignore[assignment]

    def document(self) -> dict[str, Any]:
        """The operation as JSON; EvaluationError if its value is none."""
        said: dict[str, Any] = {"op": self.operation.get("op", ""), "path": self.operation.get("path", "")}
        if self.operation.get("from"):
            said["from"] = self.operation["from"]
        if "value" in self.operation:
            value = self.operation["value"]
            if isinstance(value, ObjectValue):
                check_type_names(value)
            try:
                said["value"] = to_json(value)
            except ValueError as wrong:
                raise EvaluationError(
                    f"JSONPath valueExpression evaluated to a type that could not marshal to JSON: {wrong}"
                ) from None
        return said


def check_type_names(value: ObjectValue) -> None:
    """Hold the names of nested types against the path of fields they are at."""
    wrong = list(_misnamed(value, value.type_name))
    if wrong:
        raise EvaluationError("type mismatch: " + "\n".join(wrong))


def _misnamed(value: Value, path: str) -> Iterator[str]:
    if isinstance(value, ObjectValue):
        if value.type_name != path:
            yield (
                f"unexpected type name {quote(value.type_name)}, expected {quote(path)}, "
                "which matches field name path from root Object type"
            )
        for name, entry in value.fields.items():
            yield from _misnamed(entry, f"{path}.{name}")
    elif is_list(value):
        for entry in value:
            yield from _misnamed(entry, path)
    elif is_map(value):
        for entry in value.values():
            yield from _misnamed(entry, path)


def to_json(value: Value) -> Any:
    """A CEL value as a JSON document; ValueError if there is no way to write it."""
    match value:
        case None | bool() | str() | float():
            return value
        case int() | UInt():
            return int(value) if -_EXACT_IN_JSON < value < _EXACT_IN_JSON else str(int(value))
        case bytes():
            return b64encode(value).decode()
        case Timestamp() | Duration():
            return conversions.to_string(value)
        case ObjectValue():
            return {name: to_json(entry) for name, entry in value.fields.items()}
    if is_list(value):
        return [to_json(entry) for entry in value]
    if is_map(value):
        for key in value:
            if not isinstance(key, str):
                raise ValueError(f"map key {quote(go_string(key))} is of type {go_type_of(key)}, not string")
        return {key: to_json(entry) for key, entry in value.items()}
    raise ValueError(f"unsupported type {go_type_of(value)}")


class _AnyField(Mapping[str, t.Type]):
    """Fields of every name, of unknown type."""

    def __getitem__(self, name: str) -> t.Type:
        return t.DYN

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


class _PatchFields(Mapping[str, t.Type]):
    """Those of an operation; upstream's provider says of every other name that it exists, and gives no type."""

    def __getitem__(self, name: str) -> t.Type:
        return _PATCH_FIELDS.get(name, t.UNSPECIFIED)

    def __contains__(self, name: object) -> bool:
        return True

    def __iter__(self) -> Iterator[str]:
        return iter(_PATCH_FIELDS)

    def __len__(self) -> int:
        return len(_PATCH_FIELDS)


def _make_operation(fields: Mapping[str, Value]) -> JSONPatchValue:
    for name in fields:
        if name not in _PATCH_FIELDS:
            raise EvaluationError(f"unexpected JSONPatchType field: {name}")
    return JSONPatchValue(fields)


class _Messages(Mapping[str, Mapping[str, t.Type]]):
    """The declared messages, and every type whose name starts with Object."""

    def __init__(self, declared: Mapping[str, Mapping[str, t.Type]]) -> None:
        self._declared = {**declared, "JSONPatch": _PatchFields()}

    def __getitem__(self, name: str) -> Mapping[str, t.Type]:
        return _ANY_FIELD if _is_object(name) else self._declared[name]

    def __contains__(self, name: object) -> bool:
        return name in self._declared or (isinstance(name, str) and _is_object(name))

    def __iter__(self) -> Iterator[str]:
        return iter(self._declared)

    def __len__(self) -> int:
        return len(self._declared)


_ANY_FIELD: Final = _AnyField()


def _is_object(name: str) -> bool:
    return name == OBJECT or name.startswith(OBJECT + ".")


class _Constructors(Mapping[str, Any]):
    """How to make a value of each of these types."""

    def __getitem__(self, name: str) -> Any:
        if name == "JSONPatch":
            return _make_operation
        if _is_object(name):
            return lambda fields: ObjectValue(name, fields)
        raise KeyError(name)

    def __iter__(self) -> Iterator[str]:
        return iter((OBJECT, "JSONPatch"))

    def __len__(self) -> int:
        return 2


def _escape_key(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


_JSON_PATCH: Final = Library(
    name="kubernetes.jsonpatch",
    overloads=(
        overload(
            "jsonpatch.escapeKey", "string_jsonpatch_escapeKey_string", "(string) -> string", _escape_key
        ),
    ),
)


def with_mutation_types(environment: Environment) -> Environment:
    """The environment with the types of patches and what helps to write them."""
    extended = replace(environment, messages=_Messages(environment.messages), constructors=_Constructors())
    return extended.with_libraries(_JSON_PATCH)
