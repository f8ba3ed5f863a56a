"""Pods, and whatever holds a pod template: the claim's nested ``source`` became flat in 1.31."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

from dray.convert.trees import Tree, out_of_child


def flatten_sources(document: Tree) -> bool:
    """Flatten each entry of resourceClaims; whether anything changed."""
    changed = False
    for spec in pod_specs(document):
        for entry in spec.get("resourceClaims") or ():
            if isinstance(entry, MutableMapping) and isinstance(entry.get("source"), MutableMapping):
                out_of_child(entry, "source")
                changed = True
    return changed


def pod_specs(tree: Any) -> Iterator[Tree]:
    """Every pod specification in a document: its own, or one below ``template`` or ``jobTemplate`` anywhere in it."""
    if not isinstance(tree, MutableMapping):
        if isinstance(tree, list):
            for item in tree:
                yield from pod_specs(item)
        return
    if isinstance(tree.get("containers"), list):
        yield tree
    for key, value in tree.items():
        if key not in ("status", "metadata"):
            yield from pod_specs(value)
