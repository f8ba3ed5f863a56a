"""What ``dray scheduler``, ``controllers``, ``node`` and ``driver`` share: one component on any API server, until a
signal ends it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from dray.api.release import EffectiveVersion, Gates
    from dray.client.client import Client

gates_option = click.option("--feature-gates", default="", help="A=true,B=false")
metrics_option = click.option(
    "--metrics-listen",
    default=None,
    metavar="HOST:PORT",
    help="Serve /metrics and /healthz there, in plain HTTP.",
)
emulate_option = click.option(
    "--emulate", default="", help="the Kubernetes release whose rules and gates hold"
)


def effective_version(emulate: str, feature_gates: str) -> tuple[EffectiveVersion, Gates]:
    from dray.api import release as releases

    version = releases.EffectiveVersion.parse(emulate)
    return version, version.gates(releases.parse_gates(feature_gates))


async def version_for(client: Client, feature_gates: str) -> tuple[EffectiveVersion, Gates]:
    """What suits the server: its release decides where no other was asked for. A server that is away is waited for."""
    import asyncio
    import logging

    from dray.api import release as releases
    from dray.api.errors import StatusError
    from dray.client.discovery import server_release
    from dray.client.informers import RELIST_BACKOFF

    for pause in RELIST_BACKOFF.pauses():
        try:
            release = await server_release(client)
        except StatusError as problem:
            logging.getLogger(__name__).warning(
                "the server does not tell its release, trying again: %s", problem
            )
            await asyncio.sleep(pause)
            continue
        version = releases.EffectiveVersion.of_server(release)
        return version, await gates_for(client, version, feature_gates)
    raise AssertionError("pauses never end")


async def gates_for(client: Client, version: EffectiveVersion, feature_gates: str) -> Gates:
    """The user's choice first, then what the server says of itself, where it may be asked; then the release's defaults."""
    from dray.api import release as releases
    from dray.client.discovery import server_gates

    chosen = releases.parse_gates(feature_gates)
    told, known = await server_gates(client), version.known_gates()
    others = {name: on for name, on in told.items() if name in known and name not in chosen}
    return version.gates(chosen).with_changes(others)


def run_component(
    kubeconfig: Path | None,
    run: Callable[[Client], Awaitable[None]],
    *,
    metrics_listen: str | None = None,
    metrics: Callable[[], str] | None = None,
) -> None:
    """Run a component until SIGINT or SIGTERM, and serve its metrics where the user asked for that."""
    import asyncio
    import contextlib

    from dray.app.options import parse_listen
    from dray.app.page import page
    from dray.app.process import run_loop, setup_logging, shutdown_event
    from dray.cli.config_flags import connect

    setup_logging()
    listen = parse_listen(metrics_listen) if metrics_listen else None

    async def main() -> None:
        end = shutdown_event()
        async with contextlib.AsyncExitStack() as stack:
            client = await stack.enter_async_context(connect(kubeconfig))
            if listen is not None and metrics is not None:
                await stack.enter_async_context(page(listen.host, listen.port, metrics))
            task = asyncio.ensure_future(run(client))
            waiting = asyncio.ensure_future(end.wait())
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task

    run_loop(main())
