"""``dray scheduler``: the scheduler on any API server."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.component import (
    effective_version,
    emulate_option,
    gates_option,
    metrics_option,
    run_component,
    version_for,
)
from dray.cli.config_flags import kubeconfig_option
from dray.cli.files import InputPath, read_yaml
from dray.cli.policy_option import POLICY_NAMES, PolicyName

if TYPE_CHECKING:
    from dray.client.client import Client
    from dray.placement.config import Configuration


def device_policy_options(command: Callable[..., None]) -> Callable[..., None]:
    """``--device-policy`` and ``--device-preemption``: what a KubeSchedulerConfiguration can say, too."""
    policy = click.option(
        "--device-policy",
        type=PolicyName(),
        default="default",
        show_default=True,
        metavar="NAME",
        help=f"Which of the fitting nodes and devices to take: {POLICY_NAMES}, or one of another package.",
    )
    preemption = click.option(
        "--device-preemption", is_flag=True, help="Let pods of higher priority take devices from others."
    )
    return policy(preemption(command))


@click.command()
@kubeconfig_option
@click.option("--config", type=InputPath(dir_okay=False), help="A KubeSchedulerConfiguration (v1).")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Work only while holding the lease of kube-scheduler. Default: as the configuration says, else yes.",
)
@device_policy_options
@metrics_option
@gates_option
@emulate_option
def scheduler(
    kubeconfig: Path | None,
    config: Path | None,
    leader_elect: bool | None,
    device_policy: str,
    device_preemption: bool,
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

    from dray.app.quirks import Quirks
    from dray.scheduler import component
    from dray.scheduler.metrics import Metrics

    configuration = read_configuration(
        config, device_policy=device_policy, device_preemption=device_preemption
    )
    if leader_elect is None:
        leader_elect = configuration.leader_election.enabled if config is not None else True
    election = replace(configuration.leader_election, enabled=leader_elect)
    effective_version(
        emulate, feature_gates if emulate else ""
    )  # a bad release is refused before anything starts
    metrics = Metrics()

    async def run(client: Client) -> None:
        version, gates = (
            effective_version(emulate, feature_gates) if emulate else await version_for(client, feature_gates)
        )
        options = component.Options(
            configuration=replace(configuration, leader_election=election),
            gates=gates,
            version=version,
            nominates_before_every_bind=Quirks.of(version).scheduler_nominates_before_every_bind,
            metrics=metrics,
        )
        await component.run(client, options=options)

    where = Path(configuration.kubeconfig) if configuration.kubeconfig else None
    run_component(kubeconfig or where, run, metrics_listen=metrics_listen, metrics=metrics.text)


def read_configuration(
    path: Path | None, *, device_policy: str = "default", device_preemption: bool = False
) -> Configuration:
    """A KubeSchedulerConfiguration, or the default one with these device options."""
    from dray.placement.config import ConfigError, Configuration, SchedulerProfile, parse

    if path is None:
        profile = SchedulerProfile(device_policy=device_policy, device_preemption=device_preemption)
        return Configuration(profiles=(profile,))
    if device_policy != "default" or device_preemption:
        raise click.UsageError(
            "--device-policy and --device-preemption are devicePolicy and devicePreemption in the pluginConfig of "
            f"DynamicResources: write them into {path}"
        )
    try:
        return parse(read_yaml(path))
    except ConfigError as problem:
        raise click.ClickException(f"{path}: {problem}") from None
