"""How claims that are made from templates are called."""

from __future__ import annotations

from typing import Final

_MAX_BASE: Final = 57  # leaves room for a hyphen and five random characters in a name of 63


def claim_generate_name(pod: str, entry: str) -> str:
    """``<pod>-<entry>-``, both cut in proportion where that is too long."""
    whole = f"{pod}-{entry}-"
    if len(whole) <= _MAX_BASE:
        return whole
    return f"{pod[: len(pod) * _MAX_BASE // len(whole)]}-{entry[: len(entry) * _MAX_BASE // len(whole)]}"
