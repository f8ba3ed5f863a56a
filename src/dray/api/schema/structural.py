"""Types of custom resources, made from the structural schemas of their definitions.

They serve ownership and server-side apply; defaulting, pruning and validation work on the schemas themselves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.api.schema.loader import type_of
from dray.api.schema.model import NO_DEFAULT, Field, ListOf, MapOf, Scalar, Struct, Type

_SCALARS: Final = {
    "string": Scalar("string", "string"),
    "integer": Scalar("int64", "int64"),
    "number": Scalar("float64", "float64"),
    "boolean": Scalar("bool", "bool"),
}
_INT_OR_STRING: Final = Scalar("intorstring", "intstr.IntOrString")
_RAW: Final = Scalar("raw", "interface {}")


def structural_type(name: str, schema: Mapping[str, Any] | None) -> Struct:
    """The type of a custom resource; without a schema everything but the metadata is free-form."""
    own = _fields(name, schema or {})
    head = type_of("meta/v1.PartialObjectMetadata").fields
    taken = {f.name for f in head}
    fields = (*head, *(f for f in own if f.name not in taken))
    return Struct(name, name, atomic=False, fields=lambda: fields, open_ended=schema is None or _open(schema))


def _open(schema: Mapping[str, Any]) -> bool:
    return bool(schema.get("x-kubernetes-preserve-unknown-fields"))


def _fields(name: str, schema: Mapping[str, Any]) -> tuple[Field, ...]:
    required = schema.get("required") or ()
    return tuple(
        _field(f"{name}.{key}", key, inner, key in required)
        for key, inner in (schema.get("properties") or {}).items()
    )


def _field(path: str, name: str, schema: Mapping[str, Any], required: bool) -> Field:
    list_type = schema.get("x-kubernetes-list-type", "") if schema.get("type") == "array" else ""
    return Field(
        name,
        _type(path, schema),
        "required" if required else "omitempty",
        list_type=list_type,
        list_keys=tuple(schema.get("x-kubernetes-list-map-keys") or ()),
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        default=schema.get("default", NO_DEFAULT),
    )


def _type(path: str, schema: Mapping[str, Any]) -> Type:
    if schema.get("x-kubernetes-int-or-string"):
        return _INT_OR_STRING
    match schema.get("type"):
        case "array":
            item = _type(path, schema.get("items") or {})
            return ListOf(item, f"[]{item.go}")
        case "object":
            return _object(path, schema)
        case kind:
            return _SCALARS.get(str(kind), _RAW)


def _object(path: str, schema: Mapping[str, Any]) -> Type:
    extra = schema.get("additionalProperties")
    if isinstance(extra, Mapping):
        value = _type(path, extra)
        return MapOf(value, f"map[string]{value.go}")
    if extra or not schema.get("properties"):
        return _RAW
    fields = _fields(path, schema)
    if schema.get("x-kubernetes-embedded-resource"):
        taken = {f.name for f in fields}
        head = (
            Field("apiVersion", _SCALARS["string"], "omitempty"),
            Field("kind", _SCALARS["string"], "omitempty"),
        )
        fields = (*(f for f in head if f.name not in taken), *fields)
    return Struct(
        path,
        "map[string]interface {}",
        atomic=schema.get("x-kubernetes-map-type") == "atomic",
        fields=lambda: fields,
        open_ended=_open(schema) or bool(schema.get("x-kubernetes-embedded-resource")),
    )
