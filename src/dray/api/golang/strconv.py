"""Numbers as Go reads them from text, for texts of any length: ``int`` takes digits of every script, and fails on
thousands of them."""

from __future__ import annotations

import re
from typing import Final

_INTEGER: Final = re.compile(r"[+-]?[0-9]+")
_MIN: Final = -(1 << 63)
_MAX: Final = (1 << 63) - 1
_DIGITS: Final = 19


def parse_int64(text: str) -> int | None:
    """What ``strconv.ParseInt(text, 10, 64)`` gives; None where it gives an error."""
    if not _INTEGER.fullmatch(text):
        return None
    digits = text.lstrip("+-0") or "0"
    if len(digits) > _DIGITS:
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if _MIN <= number <= _MAX else None


def parse_problem(text: str) -> str:
    """Go's words for a text that ``parse_int64`` could not read."""
    return "value out of range" if _INTEGER.fullmatch(text) else "invalid syntax"
