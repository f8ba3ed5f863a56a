"""Regular expressions with RE2's syntax and guarantees: time linear in the text, whatever the pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import re2

from dray.cel.errors import EvaluationError


def _options() -> Any:
    options = re2.Options()
    options.log_errors = False
    # Go's regexp reads UTF-8 and knows no other options by default.
    options.max_mem = 8 << 20
    return options


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """A compiled pattern; EvaluationError in Go's words if it is none."""
    try:
        return re2.compile(pattern, _options())
    except re2.error as wrong:
        raise EvaluationError(f"error parsing regexp: {_reason(wrong, pattern)}") from None


def _reason(wrong: Exception, pattern: str) -> str:
    reason = wrong.args[0] if wrong.args else ""
    if isinstance(reason, bytes):
        reason = reason.decode(errors="replace")
    kind, _, detail = str(reason).partition(": ")
    return f"{kind}: `{detail or pattern}`"


def matches(text: str, pattern: str) -> bool:
    """Whether the pattern is found anywhere in the text."""
    return compile_pattern(pattern).search(text) is not None


def find_all(pattern: Any, text: str, limit: int) -> list[str]:
    """Every match in order, at most ``limit`` unless negative; an empty match right behind another is none."""
    found: list[str] = []
    end_of_last = -1
    for match in pattern.finditer(text):
        if limit >= 0 and len(found) >= limit:
            break
        start, end = match.span()
        if start == end == end_of_last:
            continue
        found.append(text[start:end])
        end_of_last = end
    return found
