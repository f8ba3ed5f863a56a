"""Files that the user names: they are there, or the command says so and ends with 1 (2 is for senseless options)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click


class InputPath(click.Path):
    """A file or folder to be read. ``-`` is the standard input where ``allow_dash`` says so."""

    def __init__(self, *, dir_okay: bool = True, allow_dash: bool = False) -> None:
        super().__init__(path_type=Path, exists=True, readable=True, dir_okay=dir_okay, allow_dash=allow_dash)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as problem:
            raise click.ClickException(problem.message) from None


def read_text(path: Path) -> str:
    try:
        return path.read_text()
    except UnicodeDecodeError as problem:
        raise click.ClickException(f"{path}: not text: {problem.reason} at byte {problem.start}") from None


def read_yaml(path: Path) -> Any:
    from dray.api import yamldocs

    try:
        return yamldocs.load(read_text(path))
    except yamldocs.InvalidYAML as problem:
        raise click.ClickException(f"{path}: not YAML: {' '.join(str(problem).split())}") from None
