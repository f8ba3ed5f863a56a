"""The text of an expression: where an offset is, and how an error in it is shown."""

from __future__ import annotations

from bisect import bisect_right
from typing import Final, NamedTuple

_MAX_SNIPPET: Final = 16384
_MAX_ERRORS: Final = 100


class Issue(NamedTuple):
    """One error: where (an offset, or None for the expression as a whole) and what."""

    offset: int | None
    message: str


class Source:
    """An expression's text."""

    __slots__ = ("_lines", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._lines: list[int] | None = None

    def location(self, offset: int) -> tuple[int, int]:
        """Line from 1 and column from 0; before the text, where upstream places the end of an empty one, -1."""
        if offset < 0:
            return 1, -1
        starts = self._starts()
        line = bisect_right(starts, offset)
        return line, offset - starts[line - 1]

    def render(self, issues: list[Issue]) -> str:
        """All problems in the order of their places, each with the line it is in."""
        placed = [(self.location(p.offset) if p.offset is not None else (-1, -1), p) for p in issues]
        placed.sort(key=lambda entry: entry[0])
        shown = [self._show(line, column, p.message) for (line, column), p in placed[:_MAX_ERRORS]]
        if len(issues) > _MAX_ERRORS:
            shown.append(f"{len(issues) - _MAX_ERRORS} more errors were truncated")
        return "\n".join(shown)

    def _show(self, line: int, column: int, message: str) -> str:
        head = f"ERROR: <input>:{line}:{column + 1}: {message}"
        if line < 1 or not self.text:
            return head
        starts = self._starts()
        end = starts[line] - 1 if line < len(starts) else len(self.text)
        snippet = self.text[starts[line - 1] : end].replace("\t", " ")
        if len(snippet.encode()) > _MAX_SNIPPET:
            return head
        dots = "".join("." if c.isascii() else "\uff0e" for c in snippet[:column])
        wide = column < len(snippet) and not snippet[column].isascii()
        return f"{head}\n | {snippet}\n | {dots}{chr(0xFF3E) if wide else '^'}"

    def _starts(self) -> list[int]:
        if self._lines is None:
            self._lines = [0] + [i + 1 for i, c in enumerate(self.text) if c == "\n"]
        return self._lines
