"""``dray cel``: what does this expression say about these devices?"""

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
def cel(problems: Path) -> None:
    """Evaluate device selectors from a file, one JSON line each.

    \b
    Example:
      dray cel --problems cases.jsonl.gz
    """
    from dray.cel.problems import answer
    from dray.cli.problems import answer_all

    answer_all(problems, answer)
