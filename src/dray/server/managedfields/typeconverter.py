"""The type of a custom resource, made from its structural schema, so that ownership of its fields can be tracked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.api import schema
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type
from dray.api.scheme.kinds import Kind, Version

Part = Mapping[str, Any]

_RAW: Final = Scalar("raw", "interface {}")
_SCALARS: Final = {
    "string": Scalar("string", "string"),
    "integer": Scalar("int64", "int64"),
    "number": Scalar("float64", "float64"),
    "boolean": Scalar("bool", "bool"),
}
_KEEP: Final = "x-kubernetes-preserve-unknown-fields"


def type_of(kind: Kind, version: Version) -> Struct:
    """The struct that stands for objects of one version of a custom resource."""
    root: Part = version.schema or {}
    name = f"{kind.group}/{version.name}.{kind.kind}"

    def fields() -> tuple[Field, ...]:
        text = _SCALARS["string"]
        fixed = (
            Field("kind", text, "omitempty"),
            Field("apiVersion", text, "omitempty"),
            Field("metadata", schema.type_of("meta/v1.ObjectMeta"), "always"),
        )
        named = {f.name for f in fixed}
        return (*fixed, *(f for f in _fields(name, root) if f.name not in named))

    return Struct(name, name, atomic=False, fields=fields, open_ended=bool(root.get(_KEEP)) or not root)


def _fields(name: str, part: Part) -> tuple[Field, ...]:
    return tuple(_field(key, f"{name}.{key}", inner) for key, inner in (part.get("properties") or {}).items())


def _field(key: str, name: str, part: Part) -> Field:
    keys = tuple(part.get("x-kubernetes-list-map-keys") or ())
    kind = part.get("type")
    return Field(
        key,
        _type(name, part),
        "omitempty",
        pointer=True,
        list_type=part.get("x-kubernetes-list-type", "atomic") if kind == "array" else "",
        list_keys=keys,
        atomic=part.get("x-kubernetes-map-type") == "atomic",
    )


def _type(name: str, part: Part) -> Type:
    kind = part.get("type", "")
    if part.get("x-kubernetes-int-or-string") or not kind:
        return _RAW
    if kind in _SCALARS:
        return _SCALARS[kind]
    if kind == "array":
        return ListOf(_type(f"{name}.items", part.get("items") or {}), "[]interface {}")
    more = part.get("additionalProperties")
    if isinstance(more, dict):
        return MapOf(_type(f"{name}.values", more), "map[string]interface {}")
    if not part.get("properties"):
        return _RAW
    return Struct(
        name,
        name,
        atomic=part.get("x-kubernetes-map-type") == "atomic",
        fields=lambda: _fields(name, part),
        open_ended=bool(part.get(_KEEP)),
    )
