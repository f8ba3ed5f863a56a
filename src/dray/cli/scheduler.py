"""``dray scheduler``: the scheduler on any API server."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.component import effective_version, emulate_option, gates_option, metrics_option, run_component
from dray.cli.config_flags import kubeconfig_option
from dray.cli.files import InputPath, read_yaml

if TYPE_CHECKING:
    from dray.client.client import Client
    from dray.placement.config import Configuration


@click.command()
@kubeconfig_option
@click.option("--config", type=InputPath(dir_okay=False), help="a KubeSchedulerConfiguration (v1)")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Work only while holding the lease of kube-scheduler. Default: as the configuration says, else yes.",
)
@metrics_option
@gates_option
@emulate_option
def scheduler(
    kubeconfig: Path | None,
    config: Path | None,
    leader_elect: bool | None,
    metrics_listen: str | None,
    feature_gates: str,
    emulate: str,
) -> None:
    """Schedule pods, with devices as first-class citizens.

    \b
    Examples:
      dray scheduler --kubeconfig ~/.kube/config
      dray scheduler --config scheduler.yaml      # profiles beside kube-scheduler
    """
    from dataclasses import replace

    from dray.placement.config import Configuration
    from dray.scheduler import component

    configuration = read_configuration(config) if config is not None else Configuration()
    if leader_elect is None:
        leader_elect = configuration.leader_election.enabled if config is not None else True
    election = replace(configuration.leader_election, enabled=leader_elect)
    version, gates = effective_version(emulate, feature_gates)
    options = component.Options(
        configuration=replace(configuration, leader_election=election), gates=gates, version=version
    )

    async def run(client: Client) -> None:
        await component.run(client, options=options)

    where = Path(configuration.kubeconfig) if configuration.kubeconfig else None
    run_component(kubeconfig or where, run, metrics_listen=metrics_listen, metrics=options.metrics.text)


def read_configuration(path: Path) -> Configuration:
    """A KubeSchedulerConfiguration."""
    from dray.placement.config import ConfigError, parse

    try:
        return parse(read_yaml(path))
    except ConfigError as problem:
        raise click.ClickException(f"{path}: {problem}") from None
