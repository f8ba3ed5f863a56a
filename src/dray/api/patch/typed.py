"""Configurations checked against the schema and merged into objects, as server-side apply does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from dray.api.golang.fmt import show, type_name
from dray.api.patch.fieldsets import show_element
from dray.api.patch.ownership import ListNode, Node, is_container, node_of, node_of_field, step
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type

_STRINGS: Final = frozenset({"string", "bytes"})
_NUMBERS: Final = frozenset({"int32", "int64", "float64"})


def problems(type_: Struct, value: dict[str, Any]) -> str:
    """What is wrong with a configuration, in upstream's words; empty if nothing is."""
    if _fits(type_, None, value):
        return ""
    found = list(_check(type_, None, value, ""))
    if len(found) < 2:
        return found[0] if found else ""
    return "\n".join(["errors:", *(f"  {problem}" for problem in found)])


def _fits(type_: Type, field: Field | None, value: Any) -> bool:
    """Whether nothing at all is wrong, which is the rule: saying what is wrong takes longer."""
    if value is None:
        return True
    if isinstance(type_, Scalar):
        return not _check_scalar(type_, value)
    if isinstance(type_, Struct):
        if not isinstance(value, dict):
            return False
        known = type_.by_name
        for name, item in value.items():
            found = known.get(name)
            if not (type_.open_ended if found is None else _fits(found.type, found, item)):
                return False
        return True
    if isinstance(type_, MapOf):
        return isinstance(value, dict) and all(_fits(type_.value, None, item) for item in value.values())
    if not isinstance(type_, ListOf):
        return True
    if not isinstance(value, list):
        return False
    for item in value:
        if not _fits(type_.item, None, item):
            return False
    node = node_of_field(field) if field is not None else node_of(type_)
    if not isinstance(node, ListNode):
        return True
    try:
        return len(set(map(node.element, value))) == len(value)
    except ValueError:
        return False


def _check(type_: Type, field: Field | None, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    match type_:
        case Scalar():
            if words := _check_scalar(type_, value):
                yield f"{path}: {words}"
        case Struct():
            yield from _check_struct(type_, value, path)
        case MapOf():
            if not isinstance(value, dict):
                yield f"{path}: expected map, got {_boxed(value)}"
                return
            for key, item in value.items():
                yield from _check(type_.value, None, item, f"{path}.{key}")
        case ListOf():
            yield from _check_list(type_, field, value, path)


def _check_struct(type_: Struct, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, dict):
        yield f"{path}: expected map, got {_boxed(value)}"
        return
    for name, item in value.items():
        if (field := type_.by_name.get(name)) is None:
            if type_.open_ended:
                continue
            yield f"{path}.{name}: field not declared in schema"
            return
        yield from _check(field.type, field, item, f"{path}.{name}")


def _check_list(type_: ListOf, field: Field | None, value: Any, path: str) -> Iterator[str]:
    if not isinstance(value, list):
        yield f"{path}: expected list, got {_boxed(value)}"
        return
    node = node_of_field(field) if field is not None else node_of(type_)
    seen: set[str] = set()
    for i, item in enumerate(value):
        at = f"[{i}]"
        if isinstance(node, ListNode):
            try:
                key = node.element(item)
            except ValueError as e:
                yield f"{path}: element {i}: {e}"
                return
            at = show_element(key)
            if key in seen:
                yield f"{path}: duplicate entries for key {at}"
            seen.add(key)
        yield from _check(type_.item, None, item, path + at)


def _check_scalar(type_: Scalar, value: Any) -> str:
    base = type_.base
    if base == "raw":
        return ""
    if base in _STRINGS:
        if not isinstance(value, str):
            return f"expected string, got &value.valueUnstructured{{Value:{_literal(value)}}}"
    elif base == "bool":
        if not isinstance(value, bool):
            return f"expected boolean, got {_boxed(value)}"
    elif base in _NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            return f"expected numeric (int or float), got {type_name(value)}"
    elif isinstance(value, dict | list):
        return f"expected any scalar, got {_boxed(value)}"
    return ""


def _boxed(value: Any) -> str:
    return f"&{{{show(value)}}}"


def _literal(value: Any) -> str:
    """Go's %#v."""
    if isinstance(value, dict):
        members = ", ".join(f'"{k}":{_literal(value[k])}' for k in sorted(value))
        return f"map[string]interface {{}}{{{members}}}"
    if isinstance(value, list):
        return f"[]interface {{}}{{{', '.join(map(_literal, value))}}}"
    if isinstance(value, str):
        return f'"{value}"'
    return "interface {}(nil)" if value is None else show(value)


def merge(node: Node, live: Any, config: Any) -> Any:
    """A configuration laid over a live value; lists keep the live order where the configuration does not object."""
    if not is_container(node) or (not live and not config):
        return config
    if isinstance(node, ListNode):
        return _merge_list(node, live or [], config or [])
    if not isinstance(live or {}, dict) or not isinstance(config or {}, dict):
        return config
    merged = dict(live or {})
    for name, value in (config or {}).items():
        if name in merged:
            value = merge(step(node, f"f:{name}")[0], merged[name], value)
        merged[name] = value
    return merged


def _merge_list(node: ListNode, live: list[Any], config: list[Any]) -> list[Any]:
    ours = [(node.element(item), item) for item in config]
    given = dict(ours)
    # What has no key is nobody's, and stays where it is.
    theirs = [(node.element_or_none(item) or f"i:{i}", item) for i, item in enumerate(live)]
    existing: dict[str, Any] = {}
    for key, item in theirs:
        # Of several items with one key none is merged with.
        existing[key] = None if key in existing else item
    shared = [key for key, _ in ours if key in existing]
    done: set[str] = set()
    merged: list[Any] = []

    def take(key: str) -> None:
        done.add(key)
        was = existing.get(key)
        merged.append(given[key] if was is None else merge(node.item, was, given[key]))
        if shared and shared[0] == key:
            shared.pop(0)

    left = right = 0
    while left < len(theirs) or right < len(ours):
        if left < len(theirs):
            key, item = theirs[left]
            if right < len(ours) and key == ours[right][0]:
                take(key)
                left, right = left + 1, right + 1
                continue
            if right < len(ours) and key in given and shared and shared[0] != key:
                left += 1  # it comes where the configuration wants it
                continue
            if key not in given:
                merged.append(item)
                left += 1
                continue
            if key in done:
                left += 1
        if right < len(ours):
            take(ours[right][0])
            right += 1
    return merged
