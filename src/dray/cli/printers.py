"""How answers are shown: JSON, YAML, colours and columns."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

import click

_ANSI = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


def emit(document: object, output: str) -> None:
    """JSON or YAML for programs."""
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def paint(text: str, style: str) -> str:
    """Coloured on a terminal."""
    return f"\x1b[{_ANSI[style]}m{text}\x1b[0m" if style and coloured() else text


def coloured() -> bool:
    import os

    return sys.stdout.isatty() and not os.environ.get("NO_COLOR")


def columns(rows: Sequence[Sequence[str]], style: Callable[[int, int], str] | None = None) -> list[str]:
    """Rows under one another, the first being the heading; quick enough for a hundred thousand of them."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    last = len(widths) - 1
    plain = not coloured()
    lines = []
    for number, row in enumerate(rows):
        cells = [cell.ljust(width) for cell, width in zip(row, widths, strict=True)]
        cells[last] = cells[last].rstrip()
        if not plain:
            chosen = (lambda r, c: "bold") if number == 0 else style
            if chosen is not None:
                cells = [paint(cell, chosen(number, position)) for position, cell in enumerate(cells)]
        lines.append("  ".join(cells).rstrip())
    return lines
