"""Kubernetes' regular expression functions: ``find`` and ``findAll``."""

from __future__ import annotations

from typing import Any, Final

from dray.cel.common import regex
from dray.cel.common.decls import Library, overload
from dray.cel.errors import EvaluationError


def _compiled(pattern: str) -> Any:
    try:
        return regex.compile_pattern(pattern)
    except EvaluationError as wrong:
        raise EvaluationError(f"Illegal regex: {wrong.message}") from None


def _find(text: str, pattern: str) -> str:
    found = _compiled(pattern).search(text)
    return found.group() if found is not None else ""


def _find_all(text: str, pattern: str, limit: int = -1) -> list[str]:
    return regex.find_all(_compiled(pattern), text, limit)


REGEX: Final = Library(
    name="kubernetes.regex",
    overloads=(
        overload("find", "string_find_string", "string.(string) -> string", _find),
        overload("findAll", "string_find_all_string", "string.(string) -> list(string)", _find_all),
        overload("findAll", "string_find_all_string_int", "string.(string, int) -> list(string)", _find_all),
    ),
)
