"""Bringing a custom resource into the shape of its schema: prune what it does not know, fill in its defaults.

Schemas are the plain ``openAPIV3Schema`` documents of definitions. Objects are changed in place.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from dray.api import schema as types
from dray.api.errors import RequestEntityTooLarge
from dray.api.objects import MOST_STORED, clone
from dray.api.scheme.kinds import Object

Schema = Mapping[str, Any]

META: Final = ("apiVersion", "kind", "metadata")
PRESERVE: Final = "x-kubernetes-preserve-unknown-fields"
EMBEDDED: Final = "x-kubernetes-embedded-resource"
INT_OR_STRING: Final = "x-kubernetes-int-or-string"
LIST_TYPE: Final = "x-kubernetes-list-type"
LIST_KEYS: Final = "x-kubernetes-list-map-keys"
MAP_TYPE: Final = "x-kubernetes-map-type"
RULES: Final = "x-kubernetes-validations"

_NOTHING: Final[Schema] = {}
_META_TYPE: Final = "meta/v1.PartialObjectMetadata"


def additional(schema: Schema) -> Schema | None:
    """The schema of the values of a map; None where additionalProperties is absent or a mere true."""
    found = schema.get("additionalProperties")
    return found if isinstance(found, dict) else None


def items(schema: Schema) -> Schema | None:
    found = schema.get("items")
    return found if isinstance(found, dict) else None


def of_field(schema: Schema, name: str) -> Schema | None:
    """The schema of a field or of a key of a map."""
    found: Schema | None = (schema.get("properties") or _NOTHING).get(name)
    return found if found is not None else additional(schema)


def prune(obj: Object, schema: Schema) -> list[str]:
    """Remove what the schema of a whole object does not know, and nulls where none belong; the paths of the former."""
    gone: list[str] = []
    _prune(obj, {**schema, EMBEDDED: True}, "", gone)
    drop_nulls({k: v for k, v in obj.items() if k not in META}, schema, into=obj)
    return sorted(gone)


def prune_value(value: Any, schema: Schema) -> list[str]:
    """Remove what the schema of a value inside an object does not know; the paths of what was removed."""
    gone: list[str] = []
    _prune(value, schema, "", gone)
    return gone


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _prune(value: Any, schema: Schema | None, path: str, gone: list[str]) -> None:
    if isinstance(value, list):
        if schema is not None and schema.get(PRESERVE):
            inner = items(schema)
            for i, item in enumerate(value):
                if inner is not None:
                    _prune(item, {**inner, PRESERVE: True}, f"{path}[{i}]", gone)
        else:
            inner = None if schema is None else items(schema)
            for i, item in enumerate(value):
                _prune(item, inner, f"{path}[{i}]", gone)
        return
    if not isinstance(value, dict):
        return
    keep = schema is not None and schema.get(PRESERVE)
    schema = schema or _NOTHING
    known = schema.get("properties") or _NOTHING
    has_more = "additionalProperties" in schema
    for name in list(value):
        if schema.get(EMBEDDED) and name in META:
            continue
        if name in known:
            _prune(value[name], known[name], _below(path, name), gone)
        elif has_more:
            _prune(value[name], additional(schema), _below(path, name), gone)
        elif not keep:
            gone.append(_below(path, name))
            del value[name]


def drop_nulls(value: Any, schema: Schema | None, *, into: Any = None) -> None:
    """Remove nulls that the schema neither allows nor replaces by a default."""
    if isinstance(value, dict):
        target = value if into is None else into
        for name, inner in list(value.items()):
            own = None if schema is None else of_field(schema, name)
            if inner is None and own is not None and not own.get("nullable") and own.get("default") is None:
                del target[name]
            else:
                drop_nulls(inner, own)
    elif isinstance(value, list):
        own = None if schema is None else items(schema)
        for inner in value:
            drop_nulls(inner, own)


def apply_defaults(value: Any, schema: Schema | None) -> None:
    """Fill in the defaults of a schema; RequestEntityTooLarge if they take more room than an object may have."""
    _fill(value, schema, [MOST_STORED])


def _fill(value: Any, schema: Schema | None, room: list[int]) -> None:
    if schema is None:
        return
    if isinstance(value, dict):
        known = schema.get("properties") or _NOTHING
        for name, own in known.items():
            default = own.get("default")
            if default is not None and _absent(value, name, own):
                value[name] = _taken(default, room)
        more = additional(schema)
        for name in value:
            if name in known:
                _fill(value[name], known[name], room)
            elif more is not None:
                if value[name] is None and not more.get("nullable"):
                    value[name] = _taken(more.get("default"), room)
                _fill(value[name], more, room)
    elif isinstance(value, list):
        own = items(schema)
        for i, item in enumerate(value):
            if item is None and own is not None and not own.get("nullable"):
                value[i] = _taken(own.get("default"), room)
            _fill(value[i], own, room)


def _taken(default: Any, room: list[int]) -> Any:
    room[0] -= _size(default)
    if room[0] < 0:
        raise RequestEntityTooLarge(
            f"the defaults of the schema would take more than the {MOST_STORED} bytes that an object may have"
        )
    return clone(default)


def _size(value: Any) -> int:
    """About as many bytes as a value has in JSON."""
    match value:
        case str():
            return len(value) + 2
        case dict():
            return 2 + sum(len(k) + 4 + _size(v) for k, v in value.items())
        case list():
            return 2 + sum(1 + _size(v) for v in value)
    return 8


def _absent(value: Object, name: str, schema: Schema) -> bool:
    return name not in value or (value[name] is None and not schema.get("nullable"))


def coerce_metadata(obj: Object) -> list[str]:
    """Read the metadata as what it is, strictly; problems are unknown fields. Raises BadRequest for wrong types."""
    head = {"kind": "", "apiVersion": "", "metadata": obj.get("metadata")}
    if not isinstance(head["metadata"], dict):
        head.pop("metadata")
    read = types.decode(types.type_of(_META_TYPE), head, strict=True)
    if "metadata" in head:
        obj["metadata"] = read.object.get("metadata") or {}
        if obj["metadata"].get("creationTimestamp", "") is None:
            del obj["metadata"]["creationTimestamp"]
    return list(read.problems)


def coerce_embedded(value: Any, schema: Schema | None, path: str = "") -> list[str]:
    """Do the same for objects embedded in the object."""
    if schema is None:
        return []
    found: list[str] = []
    if isinstance(value, dict):
        if schema.get(EMBEDDED) and isinstance(value.get("metadata"), dict):
            found += [
                p.replace('"metadata', f'"{_below(path, "metadata")}', 1) for p in coerce_metadata(value)
            ]
        for name, inner in value.items():
            found += coerce_embedded(inner, of_field(schema, name), _below(path, name))
    elif isinstance(value, list):
        own = items(schema)
        for i, item in enumerate(value):
            found += coerce_embedded(item, own, f"{path}[{i}]")
    return found
