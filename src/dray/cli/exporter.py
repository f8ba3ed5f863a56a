"""``dray exporter``: the cluster's devices, claims and pods as metrics for Prometheus, without the page."""

from __future__ import annotations

from pathlib import Path

import click

from dray.cli.config_flags import context_option, kubeconfig_option

DEFAULT_PORT = 9466


@click.command()
@kubeconfig_option
@context_option
@click.option(
    "--listen",
    metavar="HOST:PORT",
    help=f"Where /metrics and /healthz are served. Default 127.0.0.1:{DEFAULT_PORT}, or the next free port.",
)
def exporter(kubeconfig: Path | None, context: str, listen: str | None) -> None:
    """Serve metrics of devices, claims and pods, for Prometheus. It only reads.

    \b
    Examples:
      dray exporter
      dray exporter --kubeconfig ~/.kube/config --listen 0.0.0.0:9466
    """
    from dray.app.options import listen as listening
    from dray.app.options import parse_listen
    from dray.app.page import page
    from dray.app.process import run_loop, setup_logging, shutdown_event
    from dray.cli.config_flags import connect, current_namespace
    from dray.ui.board import Board
    from dray.ui.cluster import LiveCluster
    from dray.ui.informers import COUNTED, informed, readable
    from dray.ui.metrics import Metrics

    setup_logging()
    address = parse_listen(listen, port=DEFAULT_PORT)
    listener = listening(address)
    namespace = current_namespace(kubeconfig, context)

    async def main() -> None:
        end = shutdown_event()
        async with connect(kubeconfig, context=context) as client:
            found = await readable(client, namespace=namespace, fields=COUNTED)
            cluster = LiveCluster(release=found.release, gates=found.gates, unread=found.unread)
            metrics = Metrics(Board(cluster))
            async with (
                informed(client, cluster, found),
                page(address.host, address.port, metrics.text, listener=listener) as port,
            ):
                click.echo(f"Metrics are at http://{address.host}:{port}/metrics")
                await end.wait()

    run_loop(main())
