"""Numbers that may be given as a percentage (upstream's IntOrString)."""

from __future__ import annotations

from typing import Any, Final

_MAX: Final = (1 << 63) - 1
_DIGITS: Final = 19


def scaled_value(value: Any, total: int, *, up: bool) -> int:
    """A number, or a percentage of the total, rounded up or down."""
    if isinstance(value, str) and value.endswith("%"):
        part = percentage(value) * total
        return -(-part // 100) if up else part // 100
    return int(value)


def percentage(text: str) -> int:
    """The number before the percent sign. One that does not fit into 64 bits is the largest that does, as in Go."""
    digits = text.removesuffix("%").lstrip("0")
    return int(digits or "0") if len(digits) < _DIGITS else _MAX
