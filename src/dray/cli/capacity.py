"""``dray simulate capacity``: how many more of a job fit, what runs out first, and what if."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.cli.config_flags import namespace_option, resolve_namespace
from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.files import InputPath
from dray.cli.options import files_option, source_options, table_option
from dray.cli.policy_option import POLICY_NAMES, PolicyName
from dray.cli.printers import columns
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.simulate.capacity import Capacity

_CURRENT_POLICY = "default"


class GroupAndCount(click.ParamType[tuple[Path, int]]):
    """A file with a node group, and how many nodes of it: ``group.yaml:10``."""

    name = "file:count"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[Path, int]:
        if isinstance(value, tuple):
            return value
        name, _, count = str(value).rpartition(":")
        if not name or not count.isdecimal():
            self.fail(f"{value!r} is not a file and a number of nodes, such as group.yaml:10", param, ctx)
        path = Path(name)
        if not path.is_file():
            self.fail(f"there is no file {name}", param, ctx)
        return path, int(count)


@click.command()
@source_options
@click.option(
    "--cluster",
    "groups",
    type=InputPath(dir_okay=False),
    help="Node groups (YAML) or a list of nodes (CSV) instead of a cluster.",
)
@files_option("The job: pods and workloads with the claims and claim templates that they name.")
@namespace_option
@click.option(
    "--add-nodes",
    type=GroupAndCount(),
    multiple=True,
    metavar="FILE:COUNT",
    help="What if there were so many nodes more of the node group in this file?",
)
@click.option("--remove-node", multiple=True, metavar="NODE", help="What if this node were gone?")
@click.option(
    "--class",
    "class_files",
    type=InputPath(dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="What if these DeviceClasses were there, instead of those of the same name?",
)
@click.option(
    "--policy",
    type=PolicyName(),
    metavar="NAME",
    help=f"What if devices were chosen by this policy instead of default: {POLICY_NAMES}.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Of policies that draw.")
@click.option(
    "--at-most",
    type=click.IntRange(min=1),
    default=10_000,
    show_default=True,
    help="Stop counting at so many copies.",
)
@table_option("A table, or a JSON line for each row.")
def capacity(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    groups: Path | None,
    files: tuple[Path, ...],
    namespace: str,
    add_nodes: tuple[tuple[Path, int], ...],
    remove_node: tuple[str, ...],
    class_files: tuple[Path, ...],
    policy: str | None,
    seed: int,
    at_most: int,
    output: str,
) -> None:
    """Say how many more of a job fit and what runs out first; with a what-if, before and after it.

    \b
    Examples:
      dray simulate capacity -f job.yaml
      dray simulate capacity -f job.yaml --add-nodes group.yaml:10
      dray simulate capacity -f job.yaml --remove-node worker-3 --policy fgd --snapshot cluster.json.gz

    \b
    Exit codes: 0 at least one more fits; 3 none does; 1 the cluster or the files cannot be read.
    """
    if not files:
        raise click.UsageError("give the job: -f FILE")
    disable_gc()
    from dray.explain.model import manifests
    from dray.simulate import capacity as questions
    from dray.simulate.model import Arrival
    from dray.simulate.sources.files import read_cluster, read_groups_to_add
    from dray.simulate.sources.snapshot import SnapshotSource

    documents = [one.document for one in manifests.read_files(files)]
    before = (
        read_cluster(groups)
        if groups is not None
        else SnapshotSource(load_snapshot(kubeconfig, context, snapshot_file)).cluster()
    )
    after = before
    displaced: list[Arrival] = []
    for name in remove_node:
        after, of_node = questions.without_node(after, name)
        displaced += of_node
    for path, count in add_nodes:
        for group in read_groups_to_add(path).groups:
            after = questions.with_nodes(after, group, count)
    if class_files:
        classes = [one.document for one in manifests.read_files(class_files)]
        wrong = next((one for one in classes if one.get("kind") != "DeviceClass"), None)
        if wrong is not None:
            raise click.UsageError(f"--class takes DeviceClasses, not {wrong.get('kind')}")
        after = questions.with_classes(after, classes)

    common: Any = {
        "seed": seed,
        "at_most": at_most,
        "namespace": resolve_namespace(
            namespace, kubeconfig, context, offline=groups is not None or snapshot_file is not None
        ),
    }
    rows = {"now": questions.capacity(before, documents, policy=_CURRENT_POLICY, **common)}
    if after is not before or policy is not None:
        then = questions.capacity(
            after, documents, policy=policy or _CURRENT_POLICY, displaced=displaced, **common
        )
        rows = {"before": rows["now"], "after": then}
    if output == "json":
        _print_json(rows)
    else:
        _print_table(rows)
    exit_process(0 if list(rows.values())[-1].fit else EXIT_NEGATIVE)


def _print_json(rows: dict[str, Capacity]) -> None:
    import msgspec

    for name, one in rows.items():
        click.echo(msgspec.json.encode({"when": name, **msgspec.to_builtins(one)}))


def _print_table(rows: dict[str, Capacity]) -> None:
    table = [("", "NODES", "DEVICES", "ALLOCATED", "MORE FIT", "THEN ALLOCATED", "RUNS OUT FIRST")]
    for name, one in rows.items():
        table.append(
            (
                name,
                str(one.nodes),
                str(one.devices),
                f"{one.allocated_percent:.1f}%" if one.devices else "-",
                f"{one.fit}{'+' if one.limited else ''}",
                f"{one.full_percent:.1f}%" if one.devices else "-",
                _shortage(one),
            )
        )
    click.echo("\n".join(columns(table)))
    last = list(rows.values())[-1]
    if last.displaced:
        click.echo(
            f"{last.displaced} pods of removed nodes need another place; {last.homeless} of them find none."
        )


def _shortage(one: Capacity) -> str:
    if one.limited:
        return "nothing up to --at-most"
    if not one.runs_out:
        return one.message
    parts = [f"{what} on {nodes} of {one.nodes} nodes" for what, nodes in one.runs_out.items()]
    return ", ".join(parts)
