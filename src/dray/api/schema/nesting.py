"""How deep a JSON document nests, from its bytes: without recursion, so that the answer does not depend on the stack."""

from __future__ import annotations

import re
from typing import Final

#: Deeper than any object of Kubernetes. Readers recurse, and Python's own limit lets them go deeper than this.
MOST: Final = 600

_TEXT: Final = re.compile(rb'"(?:[^"\\]++|\\.)*+"', re.DOTALL)
_OTHERS: Final = bytes(byte for byte in range(256) if byte not in b"[]{}")


def is_too_deep(data: bytes) -> bool:
    """Whether sound JSON nests deeper than ``MOST``."""
    # Most documents are too short: a level of lists takes a bracket, a level of objects five bytes, as in ``{"":}``.
    lists = data.count(b"[")
    if lists + len(data) // 5 < MOST or lists + data.count(b"{") <= MOST:
        return False
    depth = 0
    for byte in _TEXT.sub(b"", data).translate(None, _OTHERS):
        if byte in b"[{":
            depth += 1
            if depth > MOST:
                return True
        else:
            depth -= 1
    return False
