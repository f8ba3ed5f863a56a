"""Whether a Job's successPolicy is met. Pure."""

from __future__ import annotations

from collections.abc import Set
from typing import TYPE_CHECKING

from dray.controllers.workloads.job.indexes import parse_indexes

if TYPE_CHECKING:
    from dray.api.types.batch import Job


def match_success_policy(job: Job, completed: Set[int]) -> str:
    """The message for the first rule of the success policy that the completed indexes meet; empty for none."""
    for at, rule in enumerate((job["spec"].get("successPolicy") or {}).get("rules") or ()):
        indexes = rule.get("succeededIndexes")
        succeeded = completed & parse_indexes(indexes) if indexes is not None else completed
        needed = rule.get("succeededCount")
        if needed is None:
            needed = len(parse_indexes(indexes or ""))
        if len(succeeded) >= needed:
            return f"Matched rules at index {at}"
    return ""
