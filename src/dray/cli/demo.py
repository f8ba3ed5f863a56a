"""``dray demo``: the tour, on the running cluster."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import click

from dray.cli.config_flags import kubeconfig_option


@click.command()
@kubeconfig_option
@click.option("--namespace", "-n", default="default", show_default=True)
def demo(kubeconfig: Path | None, namespace: str) -> None:
    """Give a pod a GPU and take it back, scene by scene, with the kubectl command that shows the same."""
    asyncio.run(_play(kubeconfig, namespace))


async def _play(kubeconfig: Path | None, namespace: str) -> None:
    from dray.cli.config_flags import connect
    from dray.drivers.demo import Options, play

    # Closed before the connection is, so that what was made is removed even if nobody reads on.
    async with (
        connect(kubeconfig) as client,
        aclosing(play(client, options=Options(namespace=namespace))) as scenes,
    ):
        async for scene in scenes:
            click.secho(scene.title, bold=True)
            click.secho(f"  $ {scene.command}", fg="cyan")
            for line in scene.lines:
                click.echo(f"  {line}")
            click.echo()
