"""What the looking tools share: where the cluster comes from, and how answers are shown."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

if TYPE_CHECKING:
    from dray.explain import Snapshot

Command = Callable[..., Any]

#: Exit codes: click uses 2 for mistakes on the command line, 1 is for everything that keeps a tool from answering.
EXIT_NEGATIVE = 3

_LARGE = 1 << 20
_ERASE = "\r\x1b[K"


def source_options(command: Command) -> Command:
    """``--kubeconfig``, ``--context`` and ``--snapshot``: the cluster that is looked at."""
    for option in (
        click.option(
            "--snapshot",
            "snapshot_file",
            type=click.Path(path_type=Path, exists=True, allow_dash=True),
            help="Look at this file instead of a cluster: of dray snapshot, or of kubectl get -o yaml.",
        ),
        click.option("--context", default="", help="The kubeconfig's context to use."),
        click.option(
            "--kubeconfig",
            type=click.Path(path_type=Path),
            help="Default: KUBECONFIG, then the running cluster of dray up.",
        ),
    ):
        command = option(command)
    return command


namespace_option = click.option(
    "-n", "--namespace", default="", help="Default: that of the kubeconfig's context, or default."
)


def files_option(help: str) -> Callable[[Command], Command]:
    """``-f``, as often as wanted; ``-`` is the standard input."""
    path = click.Path(path_type=Path, exists=True, allow_dash=True)
    return click.option("-f", "--file", "files", multiple=True, type=path, help=help)


def resolve_namespace(given: str, kubeconfig: Path | None, context: str, *, offline: bool) -> str:
    """The namespace of what names none."""
    from dray.cli.config_flags import current_namespace

    return given or ("default" if offline else current_namespace(kubeconfig, context))


output_option = click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "json", "yaml"]),
    default="text",
    show_default=True,
    help="How to show the answer.",
)


#: Kinds without which there is little to say.
_NEEDED = ("ResourceSlice", "DeviceClass", "ResourceClaim", "Node", "Pod")


def load_snapshot(
    kubeconfig: Path | None, context: str, snapshot_file: Path | None, *, namespace: str = ""
) -> Snapshot:
    """The cluster as it is now, or as the file has it. ``namespace``: the one to look at if all are not allowed."""
    from dray.explain import SnapshotError
    from dray.explain.model import snapshot

    if snapshot_file is not None:
        try:
            with _notice_large_file(snapshot_file):
                return snapshot.load(snapshot_file)
        except SnapshotError as problem:
            raise click.ClickException(str(problem)) from None
    import asyncio

    found = asyncio.run(_gather(kubeconfig, context, namespace))
    missing = [kind for kind in _NEEDED if kind in found.unread]
    if missing:
        click.echo(
            f"You may not read every {', '.join(missing)} of the cluster: this is less than the whole.",
            err=True,
        )
    return found


async def _gather(kubeconfig: Path | None, context: str, namespace: str) -> Snapshot:
    from dray.cli.config_flags import connect, current_namespace
    from dray.explain.model.collector import collect_snapshot

    namespace = namespace or current_namespace(kubeconfig, context)

    try:
        async with connect(kubeconfig, context=context) as client, _notice_slow_cluster():
            return await collect_snapshot(client, namespace=namespace)
    except ExceptionGroup as several:
        raise api_failure(several.exceptions[0]) from None


@contextmanager
def _notice_large_file(path: Path) -> Iterator[None]:
    """Say on a terminal that a large file is being read."""
    slow = sys.stderr.isatty() and path.is_file() and path.stat().st_size > _LARGE
    if slow:
        click.echo(f"reading {path.name} …", err=True, nl=False)
    try:
        yield
    finally:
        if slow:
            click.echo(_ERASE, err=True, nl=False)


@asynccontextmanager
async def _notice_slow_cluster() -> AsyncIterator[None]:
    """Say on a terminal what takes so long, if it does."""
    import asyncio

    async def ask() -> None:
        await asyncio.sleep(1)
        click.echo("reading the cluster …", err=True, nl=False)

    if not sys.stderr.isatty():
        yield
        return
    asking = asyncio.ensure_future(ask())
    try:
        yield
    finally:
        if not asking.cancel():
            click.echo(_ERASE, err=True, nl=False)


def api_failure(problem: Exception) -> Exception:
    """What to say about an API server that does not answer, or answers with a refusal."""
    from dray.api.errors import StatusError
    from dray.client.transport import Unreachable

    if isinstance(problem, StatusError):
        return click.ClickException(problem.message)
    if isinstance(problem, Unreachable | OSError):
        return click.ClickException(str(problem))
    return problem


def emit(document: Any, output: str) -> None:
    """JSON or YAML for programs."""
    if output == "json":
        import msgspec

        click.echo(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    import yaml

    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def disable_gc() -> None:
    """A tool lives for one answer: what it has loaded stays until the end, and collecting garbage only costs time."""
    import gc

    gc.disable()
    click.get_current_context().call_on_close(gc.enable)


def exit_process(code: int = 0) -> NoReturn:
    """End a tool that has answered. Giving back piece by piece what it has loaded would take a third of its time."""
    import os

    from dray import cli

    if not cli.alone:
        raise SystemExit(code)
    with suppress(OSError):  # nobody reads on
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


_ANSI = {"bold": 1, "dim": 2, "red": 31, "green": 32, "yellow": 33, "blue": 34, "magenta": 35, "cyan": 36}


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
