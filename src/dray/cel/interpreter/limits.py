"""Bounds on what one operation may produce.

Upstream prices some operations by their input alone, so that a short expression within its cost can ask for more
memory than there is. Beyond these sizes an evaluation ends as if it had passed its cost limit.
"""

from __future__ import annotations

from typing import Final

from dray.cel.errors import CostExceeded

MAX_SIZE: Final = 10_000_000
"""Characters, bytes or elements of one value."""

MAX_COPIED: Final = 2_000_000
"""Elements that concatenations may copy during one evaluation."""


def check_size(size: int) -> None:
    """Refuse to make a value of this size."""
    if size > MAX_SIZE:
        raise CostExceeded
