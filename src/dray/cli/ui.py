"""``dray ui``: the dashboard of any cluster that a kubeconfig reaches."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.app.dashboard import DEFAULT_PORT, page_url
from dray.cli.options import source_options

if TYPE_CHECKING:
    from dray.ui.guard import Guard


@click.command()
@source_options
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Where to listen. Default 127.0.0.1:{DEFAULT_PORT}, or the next free port.",
)
@click.option(
    "--token",
    default="",
    envvar="DRAY_UI_TOKEN",
    help="The secret that a browser must know. Default: a new one, in the printed address.",
)
@click.option(
    "--allowed-host",
    "hosts",
    multiple=True,
    metavar="NAME",
    help="A name beside localhost under which browsers reach the dashboard, such as that of an ingress.",
)
@click.option(
    "--listen-fd", type=int, default=None, hidden=True, help="A socket of the parent that listens already."
)
@click.option(
    "--idle", type=float, default=None, hidden=True, help="End after so many seconds without a viewer."
)
def ui(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    listen: str | None,
    token: str,
    hosts: tuple[str, ...],
    listen_fd: int | None,
    idle: float | None,
) -> None:
    """Show devices, claims and pods in a browser, live. It only reads.

    \b
    Examples:
      dray ui
      dray ui --kubeconfig ~/.kube/config --listen 127.0.0.1:9000
      dray ui --snapshot cluster.json.gz
    """
    from dray.app.options import listen as listening
    from dray.app.options import parse_listen
    from dray.ui.guard import Guard, new_token

    address = parse_listen(listen, port=DEFAULT_PORT)
    given, token = token.strip(), token.strip() or new_token()
    if listen_fd is None:
        listener = listening(address)
    else:
        listener = socket.socket(fileno=listen_fd)
    host, port = listener.getsockname()[:2]
    guard = Guard.of(token, listen=host, hosts=hosts)
    # A token that somebody else has made is theirs to tell, and need not be in logs.
    url = page_url(host, port, "" if given else token)
    _serve(kubeconfig, context, snapshot_file, listener, guard, url=url, idle=idle)


def _serve(
    kubeconfig: Path | None,
    context: str,
    snapshot_file: Path | None,
    listener: socket.socket,
    guard: Guard,
    *,
    url: str,
    idle: float | None,
) -> None:
    import asyncio
    import contextlib
    import os

    from dray.app.process import run_loop, setup_logging, shutdown_event
    from dray.cli.config_flags import connect, current_namespace, server_url
    from dray.explain import load_snapshot
    from dray.ui.server import Options, serve

    setup_logging()
    options = Options(
        guard=guard,
        namespace=current_namespace(kubeconfig, context),
        cluster=snapshot_file.name if snapshot_file is not None else server_url(kubeconfig, context),
        idle=idle,
    )
    started_by = os.getppid()

    def ready() -> None:
        if idle is None:
            click.echo(f"The dashboard is at {url}")
            if guard.addresses:
                click.echo("It is plain HTTP on more than loopback: put TLS in front of it.", err=True)

    async def orphaned() -> None:
        """A dashboard that was started for a cluster ends with it, however that ends."""
        while os.getppid() == started_by:  # noqa: ASYNC110
            await asyncio.sleep(0.5)

    async def main() -> None:
        end = shutdown_event()
        async with contextlib.AsyncExitStack() as stack:
            if snapshot_file is not None:
                work = serve(load_snapshot(snapshot_file), listener, options, ready=ready)
            else:
                client = await stack.enter_async_context(connect(kubeconfig, context=context))
                work = serve(client, listener, options, ready=ready)
            tasks = [asyncio.ensure_future(work), asyncio.ensure_future(end.wait())]
            if idle is not None:
                tasks.append(asyncio.ensure_future(orphaned()))
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in tasks[1:]:
                task.cancel()
            if not tasks[0].done():
                tasks[0].cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await tasks[0]

    run_loop(main())
