"""``dray demo``: the tour, on the running cluster."""

from __future__ import annotations

import asyncio
from pathlib import Path

import click

from dray.cli.config_flags import kubeconfig_option


@click.command()
@kubeconfig_option
@click.option("--namespace", "-n", default="default", show_default=True)
def demo(kubeconfig: Path | None, namespace: str) -> None:
    """Give a pod a GPU and take it back, scene by scene, with the kubectl command that shows the same."""
    try:
        asyncio.run(_play(kubeconfig, namespace))
    except OSError as problem:
        raise click.ClickException(
            f"{problem}\nIs a cluster running? Start one with: dray up --detach"
        ) from None


async def _play(kubeconfig: Path | None, namespace: str) -> None:
    from dray.api.errors import StatusError
    from dray.cli.config_flags import connect
    from dray.drivers.demo import DemoError, Options, play

    try:
        async with connect(kubeconfig) as client:
            async for scene in play(client, options=Options(namespace=namespace)):
                click.secho(scene.title, bold=True)
                click.secho(f"  $ {scene.command}", fg="cyan")
                for line in scene.lines:
                    click.echo(f"  {line}")
                click.echo()
    except (DemoError, StatusError) as problem:
        raise click.ClickException(f"{problem}") from None
