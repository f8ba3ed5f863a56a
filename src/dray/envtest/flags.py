"""Flags as Go programs take them: ``--name=value``, ``--name value``, ``--name``; the same flag may come several times."""

from __future__ import annotations

from collections.abc import Sequence


def parse(arguments: Sequence[str]) -> dict[str, list[str]]:
    """Values by name. A flag without a value is ``true``, as Go's boolean flags are."""
    found: dict[str, list[str]] = {}
    waiting = list(arguments)
    while waiting:
        word = waiting.pop(0)
        if not word.startswith("-"):
            continue
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            value = waiting.pop(0) if waiting and not waiting[0].startswith("-") else "true"
        found.setdefault(name, []).append(value)
    return found
