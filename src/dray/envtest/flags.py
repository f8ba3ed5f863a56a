"""Flags as Go programs take them: ``--name=value``, ``--name value``, ``--name``; the same flag may come several times."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def usage(program: str, about: str, known: Mapping[str, str]) -> str:
    """What ``--help`` prints. envtest looks here for a flag at the start of a line before it passes the flag."""
    width = max(map(len, known))
    lines = "".join(f"      --{name:<{width}}   {meaning}\n" for name, meaning in sorted(known.items()))
    return f"{about}\n\nUsage:\n  {program} [flags]\n\nFlags:\n{lines}"


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
