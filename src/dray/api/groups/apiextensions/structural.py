"""Whether a schema is structural: every field has one type, told apart from the conditions on its value."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from dray.api.groups.apiextensions import values
from dray.api.groups.apiextensions.pruning import (
    EMBEDDED,
    INT_OR_STRING,
    LIST_KEYS,
    LIST_TYPE,
    MAP_TYPE,
    PRESERVE,
    RULES,
    Schema,
    additional,
    items,
)
from dray.api.validation import field
from dray.api.validation.field import FieldError, Path

_EITHER: Final = [{"type": "integer"}, {"type": "string"}]
_ROOT, _ITEM, _FIELD = "root", "item", "field"
_NO_TYPE: Final = {
    _ROOT: "must not be empty at the root",
    _ITEM: "must not be empty for specified array items",
    _FIELD: "must not be empty for specified object fields",
}
#: What a condition must not set, and how it is told so.
_FORBIDDEN: Final[Mapping[str, str]] = {
    "type": "empty",
    "additionalProperties": "undefined",
    "default": "undefined",
    "title": "empty",
    "description": "empty",
    "nullable": "false",
    PRESERVE: "false",
    EMBEDDED: "false",
    INT_OR_STRING: "false",
    LIST_KEYS: "empty",
    LIST_TYPE: "undefined",
    MAP_TYPE: "undefined",
    RULES: "empty",
}


def check_structural(schema: Schema, path: Path) -> list[FieldError]:
    """Everything that keeps a definition's schema from being structural, sorted by message."""
    found = [*_check(schema, _ROOT, path), *_check_complete(schema, schema, path, path)]
    return sorted(found, key=str)


def properties(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """The fields of a schema by name."""
    known: Mapping[str, Schema] = schema.get("properties") or {}
    for name in sorted(known):
        yield name, known[name]


def _check(schema: Schema, level: str, path: Path) -> Iterator[FieldError]:
    kind = schema.get("type", "")
    own = items(schema)
    if kind == "array" and own is None:
        yield field.required(path.child("items"), "must be specified")
    if own is not None:
        yield from _check(own, _ITEM, path.child("items"))
    for name, inner in properties(schema):
        yield from _check(inner, _FIELD, path.child("properties").key(name))
    has_more = "additionalProperties" in schema
    if has_more:
        if level == _ROOT:
            yield field.forbidden(path.child("additionalProperties"), "must not be used at the root")
        if (more := additional(schema)) is not None:
            yield from _check(more, _FIELD, path.child("additionalProperties"))
    if schema.get(INT_OR_STRING):
        for extension in (PRESERVE, EMBEDDED):
            if schema.get(extension):
                words = f"must be false if {INT_OR_STRING} is true"
                yield field.invalid(path.child(extension), True, words)
    yield from _check_conditions(schema, path, spare_any=True, spare_all=True)
    yield from _check_own_type(schema, kind, level, path)
    if schema.get(EMBEDDED) and has_more:
        words = f"must not be used if {EMBEDDED} is set"
        yield field.forbidden(path.child("additionalProperties"), words)
    if level == _ROOT and kind not in ("", "object"):
        yield field.invalid(path.child("type"), kind, "must be object at the root")
    yield from _check_meta(schema, level, path)
    if schema.get(EMBEDDED) and not schema.get(PRESERVE) and not schema.get("properties"):
        words = f"must not be empty if {EMBEDDED} is true without {PRESERVE}"
        yield field.required(path.child("properties"), words)


def _check_own_type(schema: Schema, kind: str, level: str, path: Path) -> Iterator[FieldError]:
    if schema.get(EMBEDDED) and kind != "object":
        words = f"must be object if {EMBEDDED} is true"
        at = path.child("type")
        yield field.invalid(at, kind, words) if kind else field.required(at, words)
    elif not kind and not schema.get(INT_OR_STRING) and not schema.get(PRESERVE):
        yield field.required(path.child("type"), _NO_TYPE[level])


def _check_meta(schema: Schema, level: str, path: Path) -> Iterator[FieldError]:
    known: Mapping[str, Schema] = schema.get("properties") or {}
    whole = level == _ROOT or schema.get(EMBEDDED)
    for name, kind in (("kind", "string"), ("apiVersion", "string"), ("metadata", "object")):
        if whole and name in known and known[name].get("type", "") != kind:
            at = path.child("properties").key(name).child("type")
            yield field.invalid(at, known[name].get("type", ""), f"must be {kind}")
    if level == _ROOT and "metadata" in known:
        meta = {k: v for k, v in known["metadata"].items() if k not in ("type", "default")}
        if meta.get("properties", {}).keys() <= {"name", "generateName"}:
            meta.pop("properties", None)
        if meta:
            words = "must not specify anything other than name and generateName, but metadata is implicitly specified"
            yield field.forbidden(path.child("properties").key("metadata"), words)


def _check_conditions(
    schema: Schema, path: Path, *, spare_any: bool = False, spare_all: bool = False
) -> Iterator[FieldError]:
    """``spare_*``: the two ways of spelling "an integer or a string" are allowed here."""
    any_of = schema.get("anyOf") or ()
    if not (spare_any and any_of == _EITHER):
        for i, inner in enumerate(any_of):
            yield from _check_condition(inner, path.child("anyOf").index(i))
    for i, inner in enumerate(schema.get("allOf") or ()):
        spared = spare_all and i == 0 and inner.get("anyOf") == _EITHER
        yield from _check_condition(inner, path.child("allOf").index(i), spare_any=spared)
    for i, inner in enumerate(schema.get("oneOf") or ()):
        yield from _check_condition(inner, path.child("oneOf").index(i))
    if (inner := schema.get("not")) is not None:
        yield from _check_condition(inner, path.child("not"))
    if pattern := schema.get("pattern"):
        try:
            values.compiled(pattern)
        except ValueError as e:
            words = f"must be a valid regular expression, but isn't: {e}"
            yield field.invalid(path.child("pattern"), pattern, words)


def _check_condition(schema: Schema, path: Path, *, spare_any: bool = False) -> Iterator[FieldError]:
    yield from _check_conditions(schema, path, spare_any=spare_any)
    if (own := items(schema)) is not None:
        yield from _check_condition(own, path.child("items"))
    for name, inner in properties(schema):
        yield from _check_condition(inner, path.child("properties").key(name))
    for part, words in _FORBIDDEN.items():
        if schema.get(part):
            yield field.forbidden(path.child(part), f"must be {words} to be structural")
    if "metadata" in (schema.get("properties") or {}):
        words = "must not be specified in a nested context"
        yield field.forbidden(path.child("properties").key("metadata"), words)


def _check_complete(schema: Schema, structure: Schema, path: Path, at: Path) -> Iterator[FieldError]:
    """Whatever a condition at ``at`` speaks about must be part of the structure at ``path`` too."""
    for condition, where in _conditions(schema, at):
        yield from _check_spoken_of(condition, structure, path, where)


def _check_spoken_of(
    condition: Schema, structure: Schema | None, path: Path, at: Path
) -> Iterator[FieldError]:
    if structure is None:
        yield field.required(path, f"because it is defined in {at}")
        return
    yield from _check_complete(condition, structure, path, at)
    if (own := items(condition)) is not None:
        yield from _check_spoken_of(own, items(structure), path.child("items"), at.child("items"))
    known: Mapping[str, Schema] = structure.get("properties") or {}
    for name, inner in properties(condition):
        here, there = (p.child("properties").key(name) for p in (path, at))
        yield from _check_spoken_of(inner, known.get(name), here, there)


def _conditions(schema: Schema, at: Path) -> Iterator[tuple[Schema, Path]]:
    if (inner := schema.get("not")) is not None:
        yield inner, at.child("not")
    for part in ("allOf", "anyOf", "oneOf"):
        for i, inner in enumerate(schema.get(part) or ()):
            yield inner, at.child(part).index(i)
