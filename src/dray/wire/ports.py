"""Ports as others write them."""

from __future__ import annotations

_DIGITS = 5


def port_number(text: str) -> int | None:
    """The number of a port; None if the text is no such number. Digits of other scripts are none, and ``int`` refuses
    numbers of thousands of digits."""
    if not (text.isascii() and text.isdigit()):
        return None
    digits = text.lstrip("0")
    number = int(digits) if 0 < len(digits) <= _DIGITS else 0
    return number if 0 < number < 65536 else None
