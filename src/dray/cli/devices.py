"""``dray devices``: the devices of a cluster with their state and holders."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import click

from dray.cli.exit import disable_gc, exit_process
from dray.cli.options import output_option, source_options
from dray.cli.printers import columns, emit, paint
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from dray.allocation.devices import Device
    from dray.api.types.core import Node
    from dray.client.resources import Resource
    from dray.explain import Cluster
    from dray.explain.devices.states import DeviceView, Summary

_STATES = ("free", "allocated", "shared", "tainted", "unhealthy", "blocked", "withheld")

_TOO_OLD = 410
_BREATH = 0.2  # changes come in bunches


class Selection(TypedDict):
    """The options that say which devices to show, and how."""

    node: tuple[str, ...]
    driver: tuple[str, ...]
    pool: tuple[str, ...]
    device_class: str
    cel: str
    state: tuple[str, ...]
    by: str | None
    wide: bool


@click.command()
@source_options
@output_option
@click.option("--node", multiple=True, help="Only devices of this node.")
@click.option("--driver", multiple=True, help="Only devices of this driver.")
@click.option("--pool", multiple=True, help="Only devices of this pool.")
@click.option("--class", "device_class", default="", help="Only devices that this class selects.")
@click.option("--cel", default="", metavar="EXPR", help="Only devices on which this selector is true.")
@click.option("--state", multiple=True, type=click.Choice(_STATES), help="Only devices in this state.")
@click.option(
    "--by",
    type=click.Choice(["node", "class", "driver", "pool"]),
    help="Count instead of listing, under these headings.",
)
@click.option("--wide", is_flag=True, help="Show attributes and capacity as well.")
@click.option("-w", "--watch", is_flag=True, help="Show the list again whenever something changes.")
def devices(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    output: str,
    watch: bool,
    **chosen: Unpack[Selection],
) -> None:
    """List devices with their state and who has them.

    \b
    Examples:
      dray devices
      dray devices --state free --class gpu.example.com
      dray devices --by node
      dray devices --cel 'device.capacity["gpu.example.com"].memory.isGreaterThan(quantity("40Gi"))'
      dray devices -o json | jq '.devices[] | select(.state == "tainted")'

    \b
    Exit code: 0, or 1 if the cluster cannot be read or an expression does not compile.
    """
    from dray.explain import Cluster

    if watch and snapshot_file is None:
        _watch(kubeconfig, context, output, chosen)
        return
    disable_gc()
    cluster = Cluster(load_snapshot(kubeconfig, context, snapshot_file))
    _show(cluster, output, chosen)
    exit_process()


def _show(cluster: Cluster, output: str, chosen: Selection) -> None:
    from dray.explain.classic import why_no_devices

    views = _views(cluster, chosen)
    if chosen["by"]:
        summaries = _summaries(cluster, views, chosen["by"])
        if output == "text":
            _print_summaries(summaries, chosen["by"])
        else:
            emit({"by": chosen["by"], "groups": [one.as_document() for one in summaries]}, output)
    elif output == "text":
        _print(views, wide=chosen["wide"])
        if not views and (why := why_no_devices(cluster)):
            click.echo(why, err=True)
    else:
        emit({"devices": [view.as_document() for view in views]}, output)


def _views(cluster: Cluster, chosen: Selection) -> list[DeviceView]:
    from dray.cel import CompileError
    from dray.explain.devices import states as found

    tests: list[Callable[[Device], bool]] = []
    if drivers := chosen["driver"]:
        tests.append(lambda device: device.id.driver in drivers)
    if pools := chosen["pool"]:
        tests.append(lambda device: device.id.pool in pools)
    if chosen["node"]:
        unknown = [name for name in chosen["node"] if name not in cluster.nodes]
        if unknown and cluster.nodes:  # a user who may not read nodes sees none
            raise click.ClickException(f"there is no node {unknown[0]}")
        nodes = [(name, _labels(cluster.nodes.get(name))) for name in chosen["node"]]
        tests.append(lambda device: any(device.available_on.matches(name, labels) for name, labels in nodes))
    if chosen["device_class"]:
        if chosen["device_class"] not in cluster.classes:
            raise click.ClickException(f"there is no device class {chosen['device_class']}")
        tests.append(found.in_class(cluster, chosen["device_class"]))
    if chosen["cel"]:
        try:
            tests.append(found.selected_by(chosen["cel"], cluster.features))
        except CompileError as problem:
            raise click.ClickException(f"the expression does not compile: {problem}") from None
    views = [*found.list_devices(cluster, wanted=tests), *_named_resources(cluster, chosen)]
    states = chosen["state"]
    return [view for view in views if not states or view.state.value in states]


def _named_resources(cluster: Cluster, chosen: Selection) -> list[DeviceView]:
    """Those of 1.30's slices, to which neither device classes nor selectors apply; other releases have devices."""
    from dray.explain.classic import list_instances, shows_devices_as_named_resources

    if chosen["device_class"] or chosen["cel"] or not shows_devices_as_named_resources(cluster):
        return []

    def wanted(view: DeviceView) -> bool:
        asked = (
            (view.node, chosen["node"]),
            (view.id.driver, chosen["driver"]),
            (view.id.pool, chosen["pool"]),
        )
        return all(not names or value in names for value, names in asked)

    return [view for view in list_instances(cluster) if wanted(view)]


def _labels(node: Node | None) -> Mapping[str, str]:
    return (node or {}).get("metadata", {}).get("labels") or {}


def _summaries(cluster: Cluster, views: list[DeviceView], by: str) -> list[Summary]:
    from dray.explain.devices.states import by_class, summaries

    match by:
        case "class":
            return by_class(cluster, views)
        case "node":
            return summaries((view.node, view.state) for view in views)
        case "driver":
            return summaries((view.id.driver, view.state) for view in views)
        case _:
            return summaries((str(view.id.pool_id), view.state) for view in views)


def _print(views: list[DeviceView], *, wide: bool) -> None:
    from collections import Counter

    from dray.explain.devices.states import DeviceState

    rows = [("NODE", "DEVICE", "STATE", "CLAIM (POD)", "NOTE")]
    for view in views:
        holders = ", ".join(map(str, view.holders))
        rows.append((view.node, str(view.id), view.state.value, holders or "-", view.note))
    lines = columns(rows, lambda row, column: DeviceState(rows[row][2]).colour if column == 2 else "")
    if wide:
        lines = [
            lines[0],
            *(
                line
                for shown, view in zip(lines[1:], views, strict=True)
                for line in (shown, *_details(view))
            ),
        ]
    counts = Counter(view.state.value for view in views)
    summary = ", ".join(f"{counts[state]} {state}" for state in _STATES if counts[state])
    lines.append(f"{len(views)} device{'s' * (len(views) != 1)}" + (f": {summary}" if summary else ""))
    click.echo("\n".join(lines))


def _details(view: DeviceView) -> list[str]:
    """Attributes and capacity, a line each."""
    from dray.explain.devices.selectors import format_value

    lines = []
    for what, values in (("attributes", view.attributes), ("capacity", view.capacity)):
        if values:
            text = "  ".join(f"{name}={format_value(value)}" for name, value in values.items())
            lines.append(paint(f"    {what}: {text}", "dim"))
    return lines


def _print_summaries(summaries: list[Summary], by: str) -> None:
    from dray.explain.devices.states import DeviceState

    present = [state for state in DeviceState if any(one.states.get(state) for one in summaries)]
    rows = [(by.upper(), "TOTAL", *(state.value.upper() for state in present))]
    rows += [
        (one.name, str(one.total), *(str(one.states.get(state, 0)) for state in present)) for one in summaries
    ]
    colours = ["", "", *(state.colour for state in present)]
    click.echo(
        "\n".join(columns(rows, lambda row, column: colours[column] if rows[row][column] != "0" else "dim"))
    )


def _watch(kubeconfig: Path | None, context: str, output: str, chosen: Selection) -> None:
    """Show the devices anew when slices, claims or taint rules have changed."""
    import asyncio

    from dray.api.errors import StatusError
    from dray.cli.config_flags import connect
    from dray.explain import Cluster
    from dray.explain.model.collector import collect_snapshot, device_state_resources

    async def follow() -> None:
        async with connect(kubeconfig, context=context) as client:
            changed = asyncio.Event()

            async def listen(resource: Resource[Any]) -> None:
                while True:
                    version = (await client.list(resource)).resource_version
                    try:
                        async with client.watch(
                            resource, resource_version=version, bookmarks=False
                        ) as stream:
                            async for _ in stream:
                                changed.set()
                    except StatusError as error:
                        if error.code != _TOO_OLD:
                            raise

            async with asyncio.TaskGroup() as group:
                for resource in await device_state_resources(client):
                    group.create_task(listen(resource))
                while True:
                    changed.clear()
                    seen = Cluster(await collect_snapshot(client))
                    click.clear()
                    _show(seen, output, chosen)
                    await changed.wait()
                    await asyncio.sleep(_BREATH)

    try:
        asyncio.run(follow())
    except KeyboardInterrupt:
        raise SystemExit(0) from None
