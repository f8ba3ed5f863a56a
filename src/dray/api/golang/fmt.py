"""Values as Go's ``%v`` prints them; some of upstream's errors show documents that way."""

from __future__ import annotations

from typing import Any


def show(value: Any) -> str:
    """``map[a:1 b:[x y]]``: keys in order, strings bare."""
    if value is None:
        return "<nil>"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"map[{' '.join(f'{k}:{show(value[k])}' for k in sorted(value))}]"
    if isinstance(value, list):
        return f"[{' '.join(map(show, value))}]"
    return str(value)


def type_name(value: Any) -> str:
    """The Go type that a decoded JSON value has."""
    if value is None:
        return "%!s(<nil>)"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, dict):
        return "map[string]interface {}"
    if isinstance(value, list):
        return "[]interface {}"
    if isinstance(value, str):
        return "string"
    return "int64" if isinstance(value, int) else "float64"
