"""Changes to YAML trees that keep order and take comments along. They work on plain dictionaries just as well."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

Tree = MutableMapping[str, Any]


def put_in_place(tree: Tree, old: str, new: str, value: Any) -> None:
    """``new: value`` where ``old`` was, under the comments of ``old``."""
    insert = getattr(tree, "insert", None)
    if insert is None:
        items = [(new, value) if key == old else (key, kept) for key, kept in tree.items()]
        tree.clear()
        tree.update(items)
        return
    position = list(tree).index(old)
    comments = tree.ca.items.pop(old, None)  # type: ignore[attr-defined]
    del tree[old]
    insert(position, new, value)
    if comments is not None:
        tree.ca.items[new] = comments  # type: ignore[attr-defined]


def move(source: Tree, key: str, target: Tree, *, to: str = "") -> None:
    """Take an entry from one mapping to the end of another."""
    comments = getattr(source, "ca", None)
    token = comments.items.pop(key, None) if comments is not None else None
    target[to or key] = source.pop(key)
    if token is not None and hasattr(target, "ca"):
        target.ca.items[to or key] = token


def new_like(tree: Tree) -> Tree:
    """An empty mapping of the same class, which may keep comments."""
    return type(tree)()


def into_child(tree: Tree, child: str, keys: tuple[str, ...]) -> None:
    """Move those of ``keys`` that are there into a mapping ``child``, which stands where the first of them was."""
    present = [key for key in tree if key in keys]
    if not present:
        return
    inner = new_like(tree)
    position = list(tree).index(present[0])
    for key in present:
        move(tree, key, inner)
    insert = getattr(tree, "insert", None)
    if insert is not None:
        insert(position, child, inner)
        return
    items = list(tree.items())
    items.insert(position, (child, inner))
    tree.clear()
    tree.update(items)


def out_of_child(tree: Tree, child: str) -> None:
    """The reverse: a child's entries become the tree's own, in its place."""
    inner = tree[child]
    keys = list(tree)
    after = keys[keys.index(child) + 1 :]
    del tree[child]
    for key in list(inner):
        move(inner, key, tree)
    for key in after:  # whatever came after the child comes after what was in it
        value = tree.pop(key)
        tree[key] = value
