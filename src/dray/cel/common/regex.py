"""Regular expressions with RE2's syntax and guarantees: time linear in the text, whatever the pattern."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from dray.cel.errors import EvaluationError


@lru_cache(maxsize=64)  # one may take megabytes
def compile_pattern(pattern: str) -> Any:
    """A compiled pattern; EvaluationError in Go's words if it is none."""
    if "\\C" in pattern and _takes_single_bytes(pattern):  # Go's regexp, unlike RE2, splits no characters
        raise EvaluationError("error parsing regexp: invalid escape sequence: `\\C`")
    import re2  # 2.6 MB with C++'s library, and few selectors have a pattern

    options = re2.Options()
    options.log_errors = False
    # Go's regexp reads UTF-8 and knows no other options by default.
    options.max_mem = 8 << 20
    try:
        return re2.compile(pattern, options)
    except re2.error as wrong:
        raise EvaluationError(f"error parsing regexp: {_reason(wrong, pattern)}") from None


def _takes_single_bytes(pattern: str) -> bool:
    """Whether ``\\C`` stands in the pattern as an operator, neither quoted nor behind another backslash."""
    at = 0
    while (at := pattern.find("\\", at)) >= 0:
        escaped = pattern[at + 1 : at + 2]
        if escaped == "C":
            return True
        if escaped == "Q":
            end = pattern.find("\\E", at)
            if end < 0:
                return False
            at = end
        at += 2
    return False


# RE2's reasons in the words of Go's regexp package.
_REASONS: Final = {
    "unexpected error": "regexp/syntax: internal error",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "trailing \\": "trailing backslash at end of expression",
    "no argument for repetition operator": "missing argument to repetition operator",
    "invalid repetition size": "invalid repeat count",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid named capture group": "invalid named capture",
}


def _reason(wrong: Exception, pattern: str) -> str:
    said = wrong.args[0] if wrong.args else ""
    if isinstance(said, bytes):
        said = said.decode(errors="replace")
    kind, colon, detail = str(said).partition(": ")
    kind = _REASONS.get(kind, kind)
    if kind.startswith("trailing backslash"):
        return f"{kind}: ``"
    return f"{kind}: `{detail if colon else pattern}`"


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
