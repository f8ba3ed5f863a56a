"""Structural schemas as CEL sees them: the types they declare, the sizes they allow, the values of documents.

Fields whose names are no CEL identifiers are reached by escaped names (``a-b`` as ``a__dash__b``). What a schema
does not describe cannot be seen.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dray.api.validation.expressions import RESERVED
from dray.cel.common import conversions, timestamps
from dray.cel.common import types as t
from dray.cel.common.values import KeyedList, Value
from dray.cel.cost.sizes import Path, Range
from dray.cel.environment.base import MAX_REQUEST
from dray.cel.errors import EvaluationError

if TYPE_CHECKING:
    from dray.api.types.apiextensions import JSONSchemaProps as Schema

_ESCAPES: Final = {"__": "__underscores__", ".": "__dot__", "-": "__dash__", "/": "__slash__"}
_ESCAPED: Final = re.compile(r"__|[-./]")
_ESCAPABLE: Final = re.compile(r"[a-zA-Z_.\-/][a-zA-Z0-9_.\-/]*")
_DATE_SIZE: Final = 12
_TIME_SIZE: Final = 32


def escape(name: str) -> str | None:
    """The identifier by which a field is reached, None if there is none."""
    if name in RESERVED:
        return f"__{name}__"
    if not _ESCAPABLE.fullmatch(name):
        return None
    return _ESCAPED.sub(lambda found: _ESCAPES[found[0]], name)


@dataclass(frozen=True, slots=True)
class Declared:
    """A type with the bounds its schema gives: at most so many elements, at least so many bytes of JSON."""

    type: t.Type
    max_elements: int = 0
    min_size: int = 0
    element: Declared | None = None
    key: Declared | None = None
    fields: Mapping[str, Declared] = field(default_factory=dict)

    def messages(self) -> Iterator[tuple[str, Mapping[str, t.Type]]]:
        """The object types in here, by name."""
        if self.type.kind == "struct":
            yield self.type.name, {name: part.type for name, part in self.fields.items()}
        for part in (self.element, *self.fields.values()):
            if part is not None:
                yield from part.messages()

    def hint(self, path: Path) -> Range | None:
        """How large what is at a path may be; the first step of the path is the variable of this type."""
        current: Declared | None = self
        for step in path[1:]:
            assert current is not None
            match step:
                case "@items" | "@values":
                    current = current.element
                case "@keys":
                    current = current.key
                case _:
                    current = current.fields.get(step)
            if current is None:
                return None
        assert current is not None
        return Range(0, current.max_elements)


_STRING_KEY: Final = Declared(t.STRING)


def declare(schema: Schema, name: str, *, resource: bool = False) -> Declared | None:
    """The declaration of a schema, None if expressions cannot see such values.

    ``resource`` marks the root of an object with apiVersion, kind and metadata, which are always visible.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return Declared(t.DYN, _max_length(schema), 1)
    if resource:
        schema = with_metadata(schema)
    match schema.get("type"):
        case "array":
            return _declare_list(schema, name)
        case "object":
            return _declare_object(schema, name)
        case "string":
            return _declare_string(schema)
        case "boolean":
            return Declared(t.BOOL, min_size=4)
        case "number":
            return Declared(t.DOUBLE, min_size=1)
        case "integer":
            return Declared(t.INT, min_size=1)
    return None


def with_metadata(schema: Schema) -> Schema:
    """The schema with the fields every resource has."""
    text: Schema = {"type": "string"}
    metadata: Schema = {"type": "object", "properties": {"name": text, "generateName": text}}
    own = schema.get("properties") or {}
    return {**schema, "properties": {**own, "kind": text, "apiVersion": text, "metadata": metadata}}


def _embedded(schema: Schema) -> bool:
    return bool(schema.get("x-kubernetes-embedded-resource"))


def _declare_list(schema: Schema, name: str) -> Declared | None:
    items: Schema | None = schema.get("items")  # type: ignore[assignment]  # a structural schema has one
    if not items:
        return None
    element = declare(items, f"{name}.@idx", resource=_embedded(items))
    if element is None:
        return None
    most = schema.get("maxItems")
    if most is None:
        most = (MAX_REQUEST - 2) // (element.min_size + 1)
    return Declared(t.list_of(element.type), max(most, 0), 2, element=element)


def _declare_object(schema: Schema, name: str) -> Declared | None:
    additional = schema.get("additionalProperties")
    if isinstance(additional, Mapping):
        element = declare(additional, f"{name}.@elem", resource=_embedded(additional))
        if element is None:
            return None
        most = schema.get("maxProperties")
        if most is None:
            most = (MAX_REQUEST - 2) // (element.min_size + 6)
        return Declared(t.map_of(t.STRING, element.type), max(most, 0), 2, element=element, key=_STRING_KEY)
    required = set(schema.get("required") or ())
    fields: dict[str, Declared] = {}
    smallest = 2
    for field_name, part in (schema.get("properties") or {}).items():
        found = declare(part, f"{name}.{field_name}", resource=_embedded(part))
        if found is None:
            continue
        escaped = escape(field_name)
        if escaped is not None:
            fields[escaped] = found
        if field_name in required and part.get("default") is None:
            smallest += len(field_name.encode()) + found.min_size + 4
    return Declared(t.object_type(name), min_size=smallest, fields=fields)


def _declare_string(schema: Schema) -> Declared:
    match schema.get("format"):
        case "byte":
            most = schema.get("maxLength")
            return Declared(t.BYTES, MAX_REQUEST - 2 if most is None else max(most, 0), 2)
        case "duration":
            return Declared(t.DURATION, _TIME_SIZE, 3)
        case "date":
            return Declared(t.TIMESTAMP, _DATE_SIZE, _DATE_SIZE)
        case "date-time":
            return Declared(t.TIMESTAMP, _TIME_SIZE, 21)
    if schema.get("maxLength") is None and schema.get("enum"):
        longest = max((len(v.encode()) for v in schema["enum"] if isinstance(v, str)), default=0)
        return Declared(t.STRING, longest, 2)
    return Declared(t.STRING, _max_length(schema), 2)


def _max_length(schema: Schema) -> int:
    # A code point may take four bytes.
    most = schema.get("maxLength")
    return MAX_REQUEST - 2 if most is None else max(most, 0) * 4


def value_of(document: Any, schema: Schema) -> Value:
    """A document as a CEL value; an EvaluationError takes the place of what does not fit its schema."""
    if document is None:
        if schema.get("nullable"):
            return None
        return EvaluationError("invalid data, got null for schema with nullable=false")
    if schema.get("x-kubernetes-int-or-string"):
        if isinstance(document, str) or type(document) is int:
            return document
        return EvaluationError("invalid data, expected XIntOrString value to be either a string or integer")
    match schema.get("type"):
        case "object":
            return _object_value(document, schema)
        case "array":
            return _list_value(document, schema)
        case "string":
            return _string_value(document, schema)
        case "number":
            return float(document) if isinstance(document, int | float) else document
    return document


def _object_value(document: Any, schema: Schema) -> Value:
    if not isinstance(document, Mapping):
        return EvaluationError("invalid data, expected a map for the provided schema with type=object")
    if _embedded(schema):
        schema = with_metadata(schema)
    properties = schema.get("properties")
    if properties is None:
        additional = schema.get("additionalProperties")
        if not isinstance(additional, Mapping):
            return {}
        return {name: value_of(entry, additional) for name, entry in document.items()}
    found: dict[str, Value] = {}
    for name, entry in document.items():
        escaped = escape(name) if name in properties else None
        if escaped is not None:
            found[escaped] = value_of(entry, properties[name])
    return found


def _list_value(document: Any, schema: Schema) -> Value:
    if not isinstance(document, list):
        return EvaluationError("invalid data, expected an array for the provided schema with type=array")
    items: Schema | None = schema.get("items")  # type: ignore[assignment]  # a structural schema has one
    if not items:
        return EvaluationError("invalid array type, expected Items with a non-empty Schema")
    values = [value_of(entry, items) for entry in document]
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return KeyedList(values, _hashable)
        case "map":
            keys = [escape(name) or name for name in schema.get("x-kubernetes-list-map-keys") or ()]
            return KeyedList(values, _by_fields(keys))
    return values


def _hashable(value: Value) -> Hashable:
    if isinstance(value, list):
        return tuple(map(_hashable, value))
    if isinstance(value, dict):
        return frozenset((name, _hashable(entry)) for name, entry in value.items())
    return (type(value), value)


def _by_fields(keys: Sequence[str]) -> Callable[[Value], Hashable]:
    def key(element: Value) -> Hashable:
        return tuple(_hashable(element.get(name)) for name in keys) if isinstance(element, dict) else ()

    return key


def _string_value(document: Any, schema: Schema) -> Value:
    if not isinstance(document, str):
        return EvaluationError(f"invalid data, expected string, got {type(document).__name__}")
    try:
        match schema.get("format"):
            case "duration":
                return timestamps.parse_duration(document) or EvaluationError(
                    f"Invalid duration {document} expected format is accepted by Go's time.ParseDuration"
                )
            case "date":
                return conversions.to_timestamp(document + "T00:00:00Z")
            case "date-time":
                return conversions.to_timestamp(document)
            case "byte":
                return b64decode(document, validate=True)
    except EvaluationError as failed:
        return failed
    except ValueError:
        return EvaluationError(f"Invalid byte formatted string {document}: illegal base64 data")
    return document
