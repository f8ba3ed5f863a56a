"""``dray snapshot``: a cluster's devices, claims, nodes and pods in one file."""

from __future__ import annotations

from pathlib import Path

import click

from dray.cli.options import source_options
from dray.cli.source import load_snapshot


@click.command()
@source_options
@click.option(
    "-f",
    "--file",
    "target",
    type=click.Path(path_type=Path, allow_dash=True),
    default="-",
    help="Where to write it; compressed if the name ends in .gz. Default: standard output.",
)
@click.option("--anonymous", is_flag=True, help="Replace every name that could tell something.")
def snapshot(
    kubeconfig: Path | None, context: str, snapshot_file: Path | None, target: Path, anonymous: bool
) -> None:
    """Write what explain, devices, allocate, cel and check need to know about a cluster into one file.

    \b
    Examples:
      dray snapshot -f cluster.json.gz
      dray snapshot --anonymous -f for-the-bug-report.json
      dray explain pod train --snapshot cluster.json.gz
    """
    from dray.explain.model import snapshot as snapshots

    found = load_snapshot(kubeconfig, context, snapshot_file)
    if anonymous:
        from dray.explain.model.anonymizer import anonymize

        found = anonymize(found)
    if str(target) == "-":
        click.echo(found.dump())
        return
    snapshots.save(found, target)
    click.echo(
        f"{target}: {len(found.nodes)} nodes, {len(found.slices)} slices, {len(found.claims)} claims, "
        f"{len(found.pods)} pods",
        err=True,
    )
