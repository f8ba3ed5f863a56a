"""``dray allocate``: which devices would these claims get?"""

from __future__ import annotations

from pathlib import Path

import click


@click.command()
@click.option(
    "--problems",
    required=True,
    type=click.Path(path_type=Path),
    help="cases, one JSON document a line (may be .gz)",
)
def allocate(problems: Path) -> None:
    """Answer allocation problems from a file, one JSON line each.

    \b
    Example:
      dray allocate --problems cases.jsonl.gz
    """
    from dray.allocation.problems import solve
    from dray.cli.problems import answer_all

    answer_all(problems, solve)
