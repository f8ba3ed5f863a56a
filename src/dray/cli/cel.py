"""``dray cel``: what does this expression say about these devices?"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.app.options import default_data
from dray.cli.exit import EXIT_NEGATIVE, disable_gc, exit_process
from dray.cli.options import output_option, source_options
from dray.cli.printers import emit, paint
from dray.cli.prompt import line_editing
from dray.cli.source import load_snapshot

if TYPE_CHECKING:
    from dray.allocation.devices import Device
    from dray.explain import Cluster
    from dray.explain.devices.evaluation import Evaluation

_SHOWN = 20


@click.command()
@click.argument("expression", required=False)
@source_options
@output_option
@click.option("--class", "device_class", default="", metavar="NAME", help="Only the devices of this class.")
@click.option("--all", "everything", is_flag=True, help="List every matching device.")
@click.option(
    "--problems",
    type=click.Path(path_type=Path),
    help="Answer these cases instead, one JSON document a line (may be .gz), one JSON line each.",
)
def cel(
    expression: str | None,
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    output: str,
    device_class: str,
    everything: bool,
    problems: Path | None,
) -> None:
    """Try a device selector against the devices of a cluster or a file; without one, at a prompt.

    \b
    Examples:
      dray cel 'device.attributes["gpu.example.com"].model == "LATEST-GPU-MODEL"' --class gpu.example.com
      dray cel                                        # a prompt
      dray cel 'device.driver == "x"' --snapshot cluster.json.gz -o json
      dray cel --problems cases.jsonl.gz

    \b
    Exit codes: 0 some device matches and none fails; 3 none matches, or one fails; 1 it does not compile.
    """
    if problems is not None:
        from dray.cel.problems import answer
        from dray.cli.problems import answer_all

        answer_all(problems, answer)
        return
    from dray.explain import Cluster

    disable_gc()
    cluster = Cluster(load_snapshot(kubeconfig, context, snapshot_file))
    devices = _devices(cluster, device_class)
    if expression is None:
        _prompt(cluster, devices)
        return
    from dray.cel import CompileError
    from dray.explain.devices.evaluation import evaluate

    try:
        found = evaluate(expression, devices, cluster.features)
    except CompileError as problem:
        raise click.ClickException(f"the expression does not compile: {problem}") from None
    if output == "text":
        click.echo(_render(found, everything=everything))
    else:
        emit(found.as_document(), output)
    exit_process(EXIT_NEGATIVE if found.errors or not found.matching else 0)


def _devices(cluster: Cluster, device_class: str) -> list[Device]:
    """All devices, or those of a class; of incomplete pools too."""
    from dray.explain.devices.states import in_class

    devices = [device for pool in cluster.pools.values() for device in (*pool.devices, *pool.withheld)]
    if not device_class:
        return devices
    if device_class not in cluster.classes:
        known = ", ".join(sorted(cluster.classes)) or "none"
        raise click.ClickException(f"there is no device class {device_class}; there are: {known}")
    return list(filter(in_class(cluster, device_class), devices))


def _render(found: Evaluation, *, everything: bool = False) -> str:
    from dray.cel.environment.devices import MAX_COST

    total = len(found.matching) + found.others + sum(count for _, count, _ in found.errors)
    lines = [f"{paint(str(len(found.matching)), 'green')} of {total} devices match"]
    shown = found.matching if everything else found.matching[:_SHOWN]
    lines += [f"  {device}" for device in shown]
    if len(shown) < len(found.matching):
        lines.append(f"  … and {len(found.matching) - len(shown)} more (--all lists them)")
    for message, count, example in found.errors:
        lines.append(f"{paint(str(count), 'red')} fail, such as {example}: {message}")
    for one in found.asked:
        values = ", ".join(f"{value} ({count})" for value, count in one.values)
        missing = f"none ({one.missing})" if one.missing else ""
        hint = f"   ← did you mean {one.suggestion}?" if one.suggestion else ""
        lines.append(f"{one.name}: {', '.join(filter(None, (values, missing)))}{hint}")
    cost = f"cost at most {found.estimate} by estimate, {found.cost} really, limit {MAX_COST}"
    lines.append(f"{cost}; {found.seconds * 1000:.1f} ms")
    return "\n".join(lines)


def _prompt(cluster: Cluster, devices: list[Device]) -> None:
    """Expressions one by one, with line editing, completion and a history where the terminal has them."""
    from dray.cel import CompileError
    from dray.explain.devices.evaluation import evaluate

    click.echo(f"{len(devices)} devices. An expression over `device`, or nothing to leave.", err=True)
    history = default_data() / "cel-history" if sys.stdin.isatty() else None
    with line_editing(words(devices), history=history):
        while True:
            try:
                text = input("cel> ").strip()
            except EOFError:
                return
            except KeyboardInterrupt:  # as in a shell: this line is given up, the prompt stays
                click.echo(err=True)
                continue
            if text in ("", "exit", "quit"):
                return
            try:
                click.echo(_render(evaluate(text, devices, cluster.features)))
            except CompileError as problem:
                click.echo(paint(str(problem), "red"))


def words(devices: Iterable[Device]) -> list[str]:
    """What an expression about these devices may be made of, for completion."""
    found = {"device.driver", "device.attributes[", "device.capacity[", "device.allowMultipleAllocations"}
    found |= {"quantity(", "semver(", "cel.bind(", "true", "false"}
    for device in devices:
        driver = device.id.driver
        found.add(f'"{driver}"')
        for field, values in (
            ("attributes", device.document.get("attributes")),
            ("capacity", device.document.get("capacity")),
        ):
            for name in values or ():
                domain, _, rest = name.rpartition("/")
                found.add(f'device.{field}["{domain or driver}"].{rest}')
    return sorted(found)
