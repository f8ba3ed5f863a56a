"""Numbers that may be given as a percentage (upstream's IntOrString)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    pass


def scaled_value(value: Any, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        part = int(value[:-1]) * total
        return -(-part // 100) if up else part // 100
    return int(value)
