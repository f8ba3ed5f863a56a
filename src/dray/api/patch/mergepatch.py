"""JSON merge patch (RFC 7386): members overwrite, nulls remove, lists are replaced whole."""

from __future__ import annotations

from typing import Any

import msgspec

_encode = msgspec.json.Encoder(order="deterministic").encode


def apply(document: Any, patch: Any) -> Any:
    """The merged document; parts that the patch leaves alone are shared with the original."""
    if not isinstance(document, dict):
        return without_nulls(patch)
    if not isinstance(patch, dict):
        return patch
    merged = dict(document)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif merged.get(key) is None:
            merged[key] = without_nulls(value)
        else:
            merged[key] = apply(merged[key], value)
    return merged


def without_nulls(value: Any) -> Any:
    """A new part of a document: a null in a patch never becomes a member."""
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [without_nulls(v) for v in value]
    return value


def diff(old: Any, new: Any) -> Any:
    """A patch that turns one document into another (which must hold no nulls)."""
    if not (isinstance(old, dict) and isinstance(new, dict)):
        return new
    patch: dict[str, Any] = {k: None for k in old if k not in new}
    for key, value in new.items():
        if key not in old:
            patch[key] = value
        elif _encode(old[key]) != _encode(value):  # Python takes 0 for False
            patch[key] = diff(old[key], value)
    return patch
