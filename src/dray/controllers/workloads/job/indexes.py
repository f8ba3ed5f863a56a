"""The completion indexes of a Job: how they are written, and which index a pod works on. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from dray.api.types.batch import (
        Job,
    )
    from dray.api.types.core import Pod


COMPLETION_INDEX: Final = "batch.kubernetes.io/job-completion-index"


#: How often an index has failed before, as its pod remembers it.
INDEX_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-failure-count"


INDEX_IGNORED_FAILURE_COUNT: Final = "batch.kubernetes.io/job-index-ignored-failure-count"


def is_indexed(job: Job) -> bool:
    return bool(job["spec"].get("completionMode") == "Indexed")


def completion_index(pod: Pod) -> int:
    """The index a pod works on; -1 for none."""
    return annotated_number(pod, COMPLETION_INDEX, -1)


def index_failure_count(pod: Pod) -> int:
    return annotated_number(pod, INDEX_FAILURE_COUNT, 0)


def annotated_number(pod: Pod, name: str, otherwise: int) -> int:
    try:
        return int((pod["metadata"].get("annotations") or {}).get(name, ""))
    except ValueError:
        return otherwise


def has_valid_index(job: Job, pod: Pod) -> bool:
    """Whether a pod counts: one of an indexed job must work on an index that it has."""
    return not is_indexed(job) or 0 <= completion_index(pod) < (job["spec"].get("completions") or 0)


def parse_indexes(text: str) -> set[int]:
    """``1,3-5,7`` as numbers."""
    found: set[int] = set()
    for part in (text or "").split(","):
        if part:
            low, _, high = part.partition("-")
            found.update(range(int(low), int(high or low) + 1))
    return found


def format_indexes(numbers: Iterable[int]) -> str:
    """The other way round; two neighbours are written one by one."""
    parts: list[str] = []
    ordered = sorted(numbers)
    start = 0
    while start < len(ordered):
        end = start
        while end + 1 < len(ordered) and ordered[end + 1] == ordered[end] + 1:
            end += 1
        low, high = ordered[start], ordered[end]
        parts.append(str(low) if low == high else f"{low}-{high}" if high > low + 1 else f"{low},{high}")
        start = end + 1
    return ",".join(parts)
