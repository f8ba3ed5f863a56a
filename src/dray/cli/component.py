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
