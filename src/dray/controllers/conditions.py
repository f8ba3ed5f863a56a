"""Conditions in the statuses of objects."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.api.types.meta import Condition


def with_condition(conditions: Sequence[Condition], wanted: Condition) -> list[Condition]:
    """The conditions with one of them replaced or added; while its status stays, so does its time."""
    known = next((c for c in conditions if c["type"] == wanted["type"]), None)
    if known is None:
        return [*conditions, wanted]
    if known["status"] == wanted["status"]:
        wanted = {**wanted, "lastTransitionTime": known["lastTransitionTime"]}
    return [wanted if c is known else c for c in conditions]
