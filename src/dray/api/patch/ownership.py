"""How a type's values are owned field by field: which fields a value sets, and which differ between two values.

A tree of small nodes is made from the schema once; structs and maps are owned field by field unless atomic, lists as
sets or by key unless atomic, and free-form JSON by its objects' keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import msgspec

from dray.api.patch.fieldsets import EMPTY, SELF, FieldSet
from dray.api.schema import Field, ListOf, MapOf, Scalar, Struct, Type, UnionOf
from dray.api.schema.model import NO_DEFAULT

_encode: Final = msgspec.json.Encoder().encode


class Changes(NamedTuple):
    """The fields that one value has and another has not, or has differently; no field is in two of them."""

    added: FieldSet
    modified: FieldSet
    removed: FieldSet


UNCHANGED: Final = Changes(EMPTY, EMPTY, EMPTY)
_MISSING: Final = object()
_ADDED: Final = 0
_MODIFIED: Final = 1
_REMOVED: Final = 2


class Node:
    """A leaf: owned as a whole."""

    __slots__ = ()

    def made(self, value: Any) -> FieldSet:
        """The fields of a value that a write makes, which includes the containers themselves."""
        return EMPTY

    def named(self, value: Any) -> FieldSet | None:
        """The fields that a configuration names below a value; None when that is nothing at all."""
        return EMPTY

    def compare(self, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None, FieldSet | None]:
        """(added, modified, removed) below two values that are known to differ."""
        return None, EMPTY, None


LEAF: Final = Node()


class _Container(Node):
    """Values with parts that are owned one by one."""

    __slots__ = ()

    def parts(self, value: Any) -> dict[str, tuple[Node, Any]]:
        """The parts of a value, by path element."""
        return {}

    def always(self, node: Node) -> bool:
        """Whether a part is owned itself besides what is below it, even by a configuration."""
        return True

    def made(self, value: Any) -> FieldSet:
        if not value:
            return EMPTY
        result: FieldSet = {SELF: EMPTY}
        for key, (node, part) in self.parts(value).items():
            result[key] = EMPTY if node is LEAF else node.made(part)
        return result

    def named(self, value: Any) -> FieldSet | None:
        if not value:
            return EMPTY if value is None or isinstance(value, dict) else None
        result: FieldSet = {}
        for key, (node, part) in self.parts(value).items():
            below = node.named(part)
            if below is None:
                if self.always(node):
                    result[key] = EMPTY
            elif below and self.always(node) and SELF not in below:
                result[key] = {SELF: EMPTY, **below}
            else:
                result[key] = below
        return result or None

    def compare(self, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None, FieldSet | None]:
        if not old and not new:
            return None, EMPTY, None
        found: tuple[FieldSet, FieldSet, FieldSet] = ({}, {}, {})
        before = self.parts(old) if old else {}
        after = self.parts(new) if new else {}
        for key, (node, part) in after.items():
            if (was := before.get(key)) is None:
                found[_ADDED][key] = node.made(part)
            elif was[1] is not part and was[1] != part:
                if was[0] is not node:
                    # A list item has become one of several with the same key, which are owned together, or back.
                    found[_ADDED][key] = node.made(part)
                    found[_REMOVED][key] = was[0].made(was[1])
                    continue
                for kind, below in enumerate(node.compare(was[1], part)):
                    if below is not None:
                        found[kind][key] = below
        for key, (node, part) in before.items():
            if key not in after:
                found[_REMOVED][key] = node.made(part)
        added, modified, removed = found
        return added or None, modified or None, removed or None


class _StructNode(_Container):
    """Fields by name. On the way of every write, so it does not go through ``parts``."""

    __slots__ = ("_type", "children")

    def __init__(self, type_: Struct) -> None:
        self._type = type_
        self.children: dict[str, tuple[str, Node]] | None = None

    def known(self) -> dict[str, tuple[str, Node]]:
        if self.children is None:
            self.children = {f.name: (f"f:{f.name}", node_of_field(f)) for f in self._type.fields}
        return self.children

    def parts(self, value: Any) -> dict[str, tuple[Node, Any]]:
        known = self.children or self.known()
        result: dict[str, tuple[Node, Any]] = {}
        for name, part in value.items():
            if (child := known.get(name)) is not None:
                result[child[0]] = (child[1], part)
            elif self._type.open_ended:
                result[f"f:{name}"] = (FREE, part)
        return result

    def always(self, node: Node) -> bool:
        return False

    def made(self, value: Any) -> FieldSet:
        if not value:
            return EMPTY
        known = self.children or self.known()
        result: FieldSet = {SELF: EMPTY}
        for name, part in value.items():
            if (child := known.get(name)) is not None:
                key, node = child
                result[key] = EMPTY if node is LEAF else node.made(part)
            elif self._type.open_ended:
                result[f"f:{name}"] = FREE.made(part)
        return result

    def compare(self, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None, FieldSet | None]:
        if self._type.open_ended or not (old or new):
            return super().compare(old, new)
        old, new = old or EMPTY, new or EMPTY
        known = self.children or self.known()
        added: FieldSet = {}
        modified: FieldSet = {}
        removed: FieldSet = {}
        for name, part in new.items():
            was = old.get(name, _MISSING)
            if was is part or (child := known.get(name)) is None:
                continue
            key, node = child
            if was is _MISSING:
                added[key] = EMPTY if node is LEAF else node.made(part)
            elif was != part:
                if node is LEAF:
                    modified[key] = EMPTY
                    continue
                more, changed, less = node.compare(was, part)
                if more is not None:
                    added[key] = more
                if changed is not None:
                    modified[key] = changed
                if less is not None:
                    removed[key] = less
        if not old.keys() <= new.keys():
            for name, part in old.items():
                if name not in new and (child := known.get(name)) is not None:
                    key, node = child
                    removed[key] = node.made(part)
        return added or None, modified or None, removed or None

    def below(self, name: str) -> tuple[Node, bool]:
        """The node of a field, and whether the schema names it."""
        child = self.known().get(name)
        return (child[1], True) if child is not None else (FREE if self._type.open_ended else LEAF, False)


class _MapNode(_Container):
    __slots__ = ("value",)

    def __init__(self, value: Node) -> None:
        self.value = value

    def parts(self, value: Any) -> dict[str, tuple[Node, Any]]:
        node = self.value
        return {f"f:{key}": (node, part) for key, part in value.items()}


class _RawNode(_Container):
    """Free-form JSON: objects are owned by key, anything else as a whole."""

    __slots__ = ()

    def parts(self, value: Any) -> dict[str, tuple[Node, Any]]:
        return {f"f:{k}": (self if isinstance(part, dict) else LEAF, part) for k, part in value.items()}

    def made(self, value: Any) -> FieldSet:
        return super().made(value) if isinstance(value, dict) else EMPTY

    def named(self, value: Any) -> FieldSet | None:
        return super().named(value) if isinstance(value, dict) else EMPTY

    def compare(self, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None, FieldSet | None]:
        if isinstance(old, dict) and isinstance(new, dict):
            return super().compare(old, new)
        return None, EMPTY, None


class ListNode(_Container):
    """A list whose items are told apart by keys, or by themselves if there are none."""

    __slots__ = ("_defaults", "_only_key", "item", "keys")

    def __init__(self, item: Node, keys: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self.item = item
        self.keys = tuple(sorted(keys))
        self._only_key = keys[0] if len(keys) == 1 else None
        self._defaults = defaults

    def element(self, value: Any) -> str:
        """The path element of an item; ValueError in upstream's words if it cannot have one."""
        if not self.keys:
            if (problem := _BAD_SET_ITEM.get(type(value))) is not None:
                raise ValueError(problem)
            return "v:" + _encode(value).decode()
        if not isinstance(value, dict):
            what = "a null element" if value is None else "non-map elements"
            raise ValueError(f"associative list with keys may not have {what}")
        if self._only_key in value:
            return "k:" + _encode({self._only_key: value[self._only_key]}).decode()
        key: dict[str, Any] = {}
        for name in self.keys:
            if name in value:
                key[name] = value[name]
            elif name in self._defaults:
                key[name] = self._defaults[name]
        if not key:
            shown = " ".join(f'"{k}"' for k in self.keys)
            raise ValueError(
                f"associative list with keys has an element that omits all key fields [{shown}] "
                "(and doesn't have default values for any key fields)"
            )
        return "k:" + _encode(key).decode()

    def element_or_none(self, value: Any) -> str | None:
        """The path element of an item, or None if it cannot have one: the list may be older than its keys."""
        try:
            return self.element(value)
        except ValueError:
            return None

    def _keyed(self, items: Iterable[Any]) -> Iterator[tuple[str, Any]]:
        """The items that can have a path element, each with it."""
        for item in items:
            if (key := self.element_or_none(item)) is not None:
                yield key, item

    def made(self, value: Any) -> FieldSet:
        if not value:
            return EMPTY
        result: FieldSet = {SELF: EMPTY}
        node = self.item
        for item in value:
            if (key := self.element_or_none(item)) is not None:
                # Several items with one key are owned together.
                result[key] = EMPTY if node is LEAF or key in result else node.made(item)
        return result

    def parts(self, value: Any) -> dict[str, tuple[Node, Any]]:
        result: dict[str, tuple[Node, Any]] = {}
        node = self.item
        for key, item in self._keyed(value):
            if (seen := result.get(key)) is None:
                result[key] = (node, item)
            else:
                # Several items with one key are owned together.
                same = seen[1] if seen[0] is LEAF and isinstance(seen[1], _Several) else _Several((seen[1],))
                result[key] = (LEAF, _Several((*same, item)))
        return result


class _Several(tuple[Any, ...]):
    """List items that share their key."""

    __slots__ = ()


_BAD_SET_ITEM: Final[dict[type, str]] = {
    dict: "associative list without keys has an element that's a map type",
    list: "not supported: associative list with lists as elements",
    type(None): "associative list without keys has an element that's an explicit null",
}
FREE: Final = _RawNode()


@cache
def node_of(type_: Type) -> Node:
    """How values of a type are owned where the field that holds them says nothing else."""
    match type_:
        case Struct():
            return LEAF if type_.atomic else _StructNode(type_)
        case MapOf():
            return _MapNode(node_of(type_.value))
        case Scalar(base="raw"):
            return FREE
        case UnionOf():
            return FREE
    return LEAF


def node_of_field(field: Field) -> Node:
    if field.atomic:
        return LEAF
    if field.granular and isinstance(field.type, Struct):
        return _StructNode(field.type)
    if not isinstance(field.type, ListOf):
        return node_of(field.type)
    keys = field.list_keys
    if field.list_type == "atomic" or not (field.list_type or "merge" in field.patch):
        return LEAF
    if not field.list_type and field.merge_key:
        keys = (field.merge_key,)
    item = field.type.item
    defaults: dict[str, Any] = {}
    if isinstance(item, Struct):
        defaults = {f.name: f.default for f in item.fields if f.name in keys and f.default is not NO_DEFAULT}
    return ListNode(node_of(item), keys, defaults)


def field_set(type_: Struct, value: dict[str, Any]) -> FieldSet:
    """The fields that a configuration names."""
    return node_of(type_).named(value) or {}


def compare(type_: Struct, old: dict[str, Any], new: dict[str, Any]) -> Changes:
    """What must be written to get from one object to the other, field by field."""
    if old is new:
        return UNCHANGED
    added, modified, removed = node_of(type_).compare(old, new)
    return Changes(added or EMPTY, modified or EMPTY, removed or EMPTY)


def children(type_: Struct) -> Mapping[str, tuple[str, Node]]:
    """The path element of each field of a struct, and how the field is owned."""
    return _StructNode(type_).known()


def with_named_fields(node: Node, fields: FieldSet) -> FieldSet:
    """The set with every struct field on the way to its members; map keys and list items stay as they are."""
    result: FieldSet = {}
    for key, below in fields.items():
        if key == SELF:
            result[key] = below
            continue
        inner, named = step(node, key)
        deeper = with_named_fields(inner, below)
        if deeper and named and SELF not in deeper:
            deeper = {SELF: {}, **deeper}
        result[key] = deeper
    return result


def is_container(node: Node) -> bool:
    """Whether values are owned by their parts."""
    return isinstance(node, _Container)


def step(node: Node, key: str) -> tuple[Node, bool]:
    """The node below a path element, and whether that names a field of a struct."""
    if isinstance(node, _StructNode):
        return node.below(key[2:]) if key.startswith("f:") else (LEAF, False)
    if isinstance(node, _MapNode):
        return node.value, False
    if isinstance(node, ListNode) and key.startswith("k:"):
        return node.item, False
    return (node if isinstance(node, _RawNode) else LEAF), False


def remove(node: Node, value: Any, fields: FieldSet) -> Any:
    """The value without these fields; what becomes empty that way becomes null."""
    if not isinstance(node, _Container):
        return None if isinstance(value, dict | list) else value
    if isinstance(node, ListNode):
        return list(_remaining(node, value or [], fields)) or None
    result: dict[str, Any] = {}
    for name, part in (value or {}).items():
        key = f"f:{name}"
        below = fields.get(key)
        if below is None:
            result[name] = part
        elif below and SELF not in below:
            result[name] = remove(step(node, key)[0], part, below)
    return result or None


def _remaining(node: ListNode, items: list[Any], fields: FieldSet) -> Iterator[Any]:
    for item in items:
        key = node.element_or_none(item)
        below = fields.get(key) if key is not None else None
        if below is None:
            yield item
        elif below and SELF not in below:
            yield remove(node.item, item, below)
