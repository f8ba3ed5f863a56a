"""``dray simulate scale-up``: which nodes would let pending pods run, and what they cost."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.config_flags import namespace_option, resolve_namespace
from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.files import InputPath
from dray.cli.options import files_option, source_options, table_option
from dray.cli.policy_option import POLICY_NAMES, PolicyName
from dray.cli.printers import columns
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.simulate.scale_up import ScaleUp


@click.command(name="scale-up")
@source_options
@click.option(
    "--cluster",
    "cluster_file",
    type=InputPath(dir_okay=False),
    help="Node groups (YAML) or a list of nodes (CSV) instead of a cluster.",
)
@click.option(
    "--groups",
    "group_files",
    type=InputPath(dir_okay=False),
    multiple=True,
    required=True,
    help="Node groups (YAML) that nodes could be added of; dray snapshot --node-template writes one.",
)
@files_option("More pods that are to run, besides those that are pending in the cluster.")
@namespace_option
@click.option(
    "--policy",
    type=PolicyName(),
    default="default",
    show_default=True,
    metavar="NAME",
    help=f"How nodes and devices are chosen: {POLICY_NAMES}.",
)
@click.option(
    "--at-most", type=click.IntRange(min=1), default=1000, show_default=True, help="Nodes of each group."
)
@table_option("A table, or one JSON line.")
def scale_up(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    cluster_file: Path | None,
    group_files: tuple[Path, ...],
    files: tuple[Path, ...],
    namespace: str,
    policy: str,
    at_most: int,
    output: str,
) -> None:
    """Say which node group, and how many nodes of it, would let pending pods run, and at what price.

    \b
    Examples:
      dray simulate scale-up --groups groups.yaml
      dray simulate scale-up --groups groups.yaml -f job.yaml --snapshot cluster.json.gz

    \b
    Exit codes: 0 every pod can run; 3 some cannot, whatever is added; 1 the cluster or the files cannot be read.
    """
    disable_gc()
    from dray.explain.model import manifests
    from dray.simulate.capacity import with_classes
    from dray.simulate.model import Arrival
    from dray.simulate.scale_up import scale_up as answer
    from dray.simulate.sources.files import read_cluster, read_groups_to_add
    from dray.simulate.sources.manifests import Manifests
    from dray.simulate.sources.snapshot import SnapshotSource

    candidates = [read_groups_to_add(path) for path in group_files]
    groups = [group for one in candidates for group in one.groups]
    pending: list[Arrival] = []
    if cluster_file is not None:
        cluster = read_cluster(cluster_file)
    else:
        source = SnapshotSource(load_snapshot(kubeconfig, context, snapshot_file))
        cluster = source.cluster()
        pending += source.events(0)
    if files:
        offline = cluster_file is not None or snapshot_file is not None
        where = resolve_namespace(namespace, kubeconfig, context, offline=offline)
        pending += Manifests([one.document for one in manifests.read_files(files)], where).arrivals()
    arrivals = [Arrival(0.0, one.pod, one.claims) for one in pending]
    # Classes of the candidates count where the cluster has none of their name.
    classes = [device_class for one in candidates for device_class in one.cluster().classes]
    cluster = with_classes(with_classes(cluster, classes), cluster.classes)
    found = answer(cluster, arrivals, groups, policy=policy, at_most=at_most)
    if output == "json":
        import msgspec

        click.echo(
            msgspec.json.encode(
                {**msgspec.to_builtins(found), "pending": found.pending, "price": found.price}
            )
        )
    else:
        _print(found)
    exit_process(EXIT_NEGATIVE if found.pending else 0)


def _print(found: ScaleUp) -> None:
    if found.fit == found.pods:
        click.echo(f"No node is needed: all {found.pods} pods fit.")
        return
    table = [("GROUP", "NODES", "PODS THAT RUN", "STILL PENDING", "PRICE/HOUR")]
    table += [
        (
            one.group,
            str(one.nodes or "-"),
            str(one.pods),
            str(one.pending),
            f"{one.price:.2f}" if one.nodes else "-",
        )
        for one in found.options
    ]
    click.echo("\n".join(columns(table)))
    if found.plan:
        added = " and ".join(f"{one.nodes} × {one.group}" for one in found.plan)
        now = sum(one.pods for one in found.plan)
        click.echo(f"Add {added} for {found.price:.2f} an hour: {now} of {found.pods - found.fit} pods run.")
    if found.pending:
        pods = "1 pod runs" if found.pending == 1 else f"{found.pending} pods run"
        click.echo(f"{pods} on none of these groups.")
