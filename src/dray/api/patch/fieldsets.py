"""Sets of fields in the form of the wire (FieldsV1), and the algebra on them.

A set is a nested dict. Keys name the way down: ``f:name`` a field or map key, ``k:{...}`` the list item with these
keys, ``v:...`` the item of a set. ``"."`` says that a node with children belongs to the set itself; a node without
children always does. Sets are never changed once made, so results share parts with their operands.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, Final, TypeAlias

from dray.api.validation.field import quote

FieldSet: TypeAlias = dict[str, Any]

EMPTY: Final[FieldSet] = {}
SELF: Final = "."


def member(node: FieldSet) -> bool:
    """Whether the node itself belongs to the set, not only something below it."""
    return not node or SELF in node


def _node(children: FieldSet, is_member: bool) -> FieldSet:
    if not children or not is_member:
        return children
    return {SELF: {}, **children}


def _children(node: FieldSet) -> FieldSet:
    return {k: v for k, v in node.items() if k != SELF} if SELF in node else node


def union(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in either."""
    if not a or a is b:
        return b
    if not b:
        return a
    result = dict(a)
    for key, other in b.items():
        mine = result.get(key)
        if mine is None:
            result[key] = other
        elif key != SELF and mine is not other:
            both = union(_children(mine), _children(other))
            result[key] = _node(both, member(mine) or member(other))
    return result


def difference(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in ``a`` but not in ``b``; what lies below a field of ``b`` stays."""
    if not a or not b:
        return a
    result: FieldSet = {}
    for key, mine in a.items():
        if key == SELF:
            continue
        other = b.get(key)
        if other is None:
            result[key] = mine
            continue
        rest = difference(_children(mine), _children(other))
        stays = member(mine) and not member(other)
        if rest or stays:
            result[key] = _node(rest, stays)
    return result


def without(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in ``a`` but neither in ``b`` nor below anything in ``b``."""
    if not a or not b:
        return a
    result: FieldSet = {}
    for key, mine in a.items():
        if key == SELF:
            continue
        other = b.get(key)
        if other is None:
            result[key] = mine
        elif not member(other):
            rest = without(_children(mine), _children(other))
            if rest or member(mine):
                result[key] = _node(rest, member(mine))
    return result


def intersection(a: FieldSet, b: FieldSet) -> FieldSet:
    """What is in both."""
    result: FieldSet = {}
    if not b:
        return result
    for key, mine in a.items():
        other = b.get(key)
        if key == SELF or other is None:
            continue
        common = intersection(_children(mine), _children(other))
        in_both = member(mine) and member(other)
        if common or in_both:
            result[key] = _node(common, in_both)
    return result


def contains(a: FieldSet, path: Iterable[str]) -> bool:
    node = a
    for key in path:
        found = node.get(key)
        if found is None:
            return False
        node = found
    return member(node)


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """The set of some named fields: ``of_paths(("metadata", "name"), ("status",))``."""
    result: FieldSet = {}
    for path in paths:
        leaf: FieldSet = {}
        for name in reversed(path):
            leaf = {f"f:{name}": leaf}
        result = union(result, leaf)
    return result


def paths(a: FieldSet) -> Iterator[tuple[str, ...]]:
    """Every path in the set in upstream's order: the members of a level before what lies below them."""
    keys = sorted((k for k in a if k != SELF), key=_rank)
    for key in keys:
        if member(a[key]):
            yield (key,)
    for key in keys:
        for rest in paths(_children(a[key])):
            yield (key, *rest)


def _rank(key: str) -> tuple[int, str]:
    return ("fkvi".find(key[0]), key[2:])


def show_path(path: Iterable[str]) -> str:
    """A path as conflicts show it: ``.spec.containers[name="a"].image``."""
    return "".join(map(show_element, path))


def show_element(key: str) -> str:
    kind, text = key[0], key[2:]
    if kind == "f":
        return "." + text
    if kind == "i":
        return f"[{text}]"
    value = json.loads(text)
    if kind == "k":
        return "[" + ",".join(f"{k}={_show(v)}" for k, v in value.items()) + "]"
    return f"[={_show(value)}]"


def _show(value: Any) -> str:
    if isinstance(value, str):
        return quote(value)
    return json.dumps(value)


def valid(fields: Any) -> bool:
    """Whether a document from outside is such a set."""
    return isinstance(fields, dict) and all(
        (key == SELF or (key[1:2] == ":" and key[0] in "fkvi" and _readable(key))) and valid(inner)
        for key, inner in fields.items()
    )


def _readable(key: str) -> bool:
    if key[0] == "f":
        return True
    try:
        value = json.loads(key[2:])
    except ValueError:
        return False
    return key[0] != "k" or isinstance(value, dict)
