"""``dray snapshot``: a cluster's devices, claims, nodes and pods in one file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.options import source_options
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.explain import Snapshot


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
@click.option(
    "--node-template",
    metavar="NODE",
    help="Write a node group with nodes like this one instead (YAML), for dray simulate.",
)
@click.option(
    "--template-form",
    type=click.Choice(["node-group", "cluster-api"]),
    default="node-group",
    show_default=True,
    help="Of --node-template: for dray simulate, or annotations of a MachineDeployment for cluster-autoscaler.",
)
@click.option(
    "--follow",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE.jsonl[.gz]",
    help="Record what happens to nodes, pods, claims and devices into this file, until it is interrupted.",
)
@click.option(
    "--for",
    "period",
    metavar="DURATION",
    help="With --follow: end after this time, such as 90s, 30m or 24h.",
)
def snapshot(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    target: Path,
    anonymous: bool,
    node_template: str | None,
    template_form: str,
    follow: Path | None,
    period: str | None,
) -> None:
    """Write what explain, devices, allocate, cel and check need to know about a cluster into one file.

    \b
    Examples:
      dray snapshot -f cluster.json.gz
      dray snapshot --anonymous -f for-the-bug-report.json
      dray explain pod train --snapshot cluster.json.gz
      dray snapshot --node-template worker-3 -f group.yaml     # for dray simulate scale-up --groups group.yaml
      dray snapshot --follow monday.jsonl.gz --for 24h         # for dray simulate run -f monday.jsonl.gz --policy pack
    """
    if follow is not None:
        if snapshot_file is not None or anonymous or node_template is not None or str(target) != "-":
            raise click.UsageError(
                "--follow records a live cluster: of the other options it takes only --for"
            )
        _record(kubeconfig, context, follow, _seconds(period) if period is not None else None)
        return
    if period is not None:
        raise click.UsageError("--for says how long to --follow: give both")
    from dray.explain.model import snapshot as snapshots

    found = load_snapshot(kubeconfig, context, snapshot_file)
    if anonymous:
        from dray.explain.model.anonymizer import anonymize

        found = anonymize(found)
    if node_template is not None:
        _write_template(found, node_template, template_form, target)
        return
    if str(target) == "-":
        click.echo(found.dump())
        return
    snapshots.save(found, target)
    click.echo(
        f"{target}: {len(found.nodes)} nodes, {len(found.slices)} slices, {len(found.claims)} claims, "
        f"{len(found.pods)} pods",
        err=True,
    )


def _write_template(found: Snapshot, node: str, form: str, target: Path) -> None:
    import yaml

    from dray import atomicfile
    from dray.simulate.scale_up import cluster_api_annotations, node_template

    made = cluster_api_annotations if form == "cluster-api" else node_template
    text = yaml.safe_dump(made(node, found.nodes, found.slices), sort_keys=False)
    if str(target) == "-":
        click.echo(text, nl=False)
    else:
        atomicfile.write(target, text.encode())


def _seconds(period: str) -> float:
    from dray.api.times import parse_duration

    try:
        seconds = parse_duration(period) / 1e9
    except ValueError:
        seconds = 0.0
    if seconds <= 0:
        raise click.BadParameter(f"{period!r} is not a duration such as 90s, 30m or 24h", param_hint="--for")
    return seconds


def _record(kubeconfig: Path | None, context: str, path: Path, seconds: float | None) -> None:
    import asyncio
    import time

    from dray.app.process import run_loop, shutdown_event
    from dray.cli.config_flags import connect
    from dray.simulate.recorder import Recorder, check_recording_name

    check_recording_name(path)
    if not path.absolute().parent.is_dir():
        raise click.BadParameter(
            f"{path}: there is no directory {path.absolute().parent}", param_hint="--follow"
        )

    def started(first: Snapshot) -> None:
        click.echo(
            f"{path}: recording {len(first.nodes)} nodes and {len(first.pods)} pods; interrupt it to end",
            err=True,
        )

    async def main() -> None:
        end = shutdown_event()
        if seconds is not None:
            asyncio.get_running_loop().call_later(seconds, end.set)
        async with connect(kubeconfig, context=context) as client:
            recorder = Recorder(client, path, clock=time.monotonic)
            began = time.monotonic()
            await recorder.run(end, started=started)
            click.echo(f"{path}: {recorder.changes} changes in {time.monotonic() - began:.0f} s", err=True)

    run_loop(main())
