"""Checks of lists and embedded objects: sets and maps have no duplicates, and an embedded resource is an object."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from dray.api.groups.apiextensions.pruning import (
    EMBEDDED,
    LIST_KEYS,
    LIST_TYPE,
    Schema,
    additional,
    items,
    of_field,
)
from dray.api.scheme.strategy import name_is_path_segment
from dray.api.validation import names, objectmeta
from dray.api.validation.field import ErrorType, FieldError, Path

_NOTHING: Final[Schema] = {}


def check_lists(value: Any, schema: Schema | None, path: str = "") -> Iterator[FieldError]:
    """Doubles in lists that are sets, and in the keys of those that are maps."""
    if schema is None:
        return
    if isinstance(value, dict):
        more = additional(schema)
        for name, inner in value.items() if more is not None else ():
            yield from check_lists(inner, more, f"{path}[{name}]")
        known = schema.get("properties") or _NOTHING
        for name, inner in value.items():
            if name in known:
                yield from check_lists(inner, known[name], f"{path}.{name}" if path else name)
    elif isinstance(value, list):
        match schema.get(LIST_TYPE):
            case "set":
                yield from _check_set(value, path)
            case "map":
                yield from _check_map(value, schema.get(LIST_KEYS) or (), path)
        own = items(schema)
        for i, item in enumerate(value):
            yield from check_lists(item, own, f"{path}[{i}]")


def _check_set(value: Sequence[Any], path: str) -> Iterator[FieldError]:
    for i in _doubles(value):
        yield FieldError(ErrorType.DUPLICATE, f"{path}[{i}]", value[i])


def _check_map(value: Sequence[Any], keys: Sequence[str], path: str) -> Iterator[FieldError]:
    for i, item in enumerate(value):
        if item is not None and not isinstance(item, dict):
            words = "must be an object for an array of list-type map"
            yield FieldError(ErrorType.INVALID, f"{path}[{i}]", item, words)
            return
    found = [{k: item[k] for k in keys if k in item} if item is not None else {} for item in value]
    for i in _doubles(found):
        yield FieldError(ErrorType.DUPLICATE, f"{path}[{i}]", found[i])


def _doubles(value: Sequence[Any]) -> Iterator[int]:
    """Where each thing that occurs more than once occurs for the second time."""
    times: dict[str, int] = {}
    for i, item in enumerate(value):
        key = json.dumps(item, sort_keys=True)
        times[key] = times.get(key, 0) + 1
        if times[key] == 2:
            yield i


def check_embedded(value: Any, schema: Schema | None, path: str = "") -> Iterator[FieldError]:
    """What is wrong with objects embedded in an object."""
    if schema is None:
        return
    if isinstance(value, dict):
        if schema.get(EMBEDDED):
            yield from _check_object(value, Path(path))
        known = schema.get("properties") or _NOTHING
        for name, inner in value.items():
            at = f"{path}.{name}" if path else name
            at = at if name in known else f"{path}[{name}]"
            yield from check_embedded(inner, of_field(schema, name), at)
    elif isinstance(value, list):
        for i, item in enumerate(value):
            yield from check_embedded(item, items(schema), f"{path}[{i}]")


def _check_object(value: Mapping[str, Any], path: Path) -> Iterator[FieldError]:
    for name in ("apiVersion", "kind"):
        found = value.get(name)
        at = str(path.child(name))
        if name not in value:
            yield FieldError(ErrorType.REQUIRED, at)
        elif not isinstance(found, str):
            yield FieldError(ErrorType.INVALID, at, found, "must be a string")
        elif not found:
            yield FieldError(ErrorType.INVALID, at, found, "must not be empty")
        elif name == "apiVersion" and found.count("/") > 1:
            words = f"unexpected GroupVersion string: {found}"
            yield FieldError(ErrorType.INVALID, at, found, words)
        elif name == "kind" and (messages := names.dns1035_label(found.lower())):
            words = "may have mixed case, but should otherwise match: " + ",".join(messages)
            yield FieldError(ErrorType.INVALID, at, found, words)
    about = value.get("metadata")
    if isinstance(about, dict):
        shown = about if about.get("name") else {**about, "name": "fakename"}
        yield from objectmeta.validate_object_meta(
            shown,
            namespaced=bool(about.get("namespace")),
            check_name=name_is_path_segment,
            path=path.child("metadata"),
        )
