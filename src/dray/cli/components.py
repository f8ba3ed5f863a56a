"""``dray scheduler`` and ``dray controllers``: one component on any API server, given a kubeconfig."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

kubeconfig_option = click.option(
    "--kubeconfig",
    type=click.Path(path_type=Path),
    help="default: KUBECONFIG, then the running cluster of dray up",
)
_GATES = click.option("--feature-gates", default="", help="A=true,B=false")
_METRICS = click.option(
    "--metrics-listen",
    default=None,
    metavar="HOST:PORT",
    help="Serve /metrics and /healthz there, in plain HTTP.",
)
_FILE = click.Path(path_type=Path, exists=True, dir_okay=False)
_EMULATE = click.option("--emulate", default="", help="the Kubernetes release whose rules and gates hold")


@click.command()
@kubeconfig_option
@click.option(
    "--config", type=click.Path(path_type=Path, exists=True), help="a KubeSchedulerConfiguration (v1)"
)
@click.option(
    "--leader-elect/--no-leader-elect",
    default=None,
    help="Work only while holding the lease of kube-scheduler. Default: as the configuration says, else yes.",
)
@_METRICS
@_GATES
@_EMULATE
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

    from dray.placement.config import ConfigError, Configuration, parse
    from dray.scheduler import component

    try:
        configuration = parse(_yaml(config)) if config is not None else Configuration()
    except ConfigError as problem:
        raise click.ClickException(f"{config}: {problem}") from None
    if leader_elect is None:
        leader_elect = configuration.leader_election.enabled if config is not None else True
    election = replace(configuration.leader_election, enabled=leader_elect)
    version, gates = _release(emulate, feature_gates)
    options = component.Options(
        configuration=replace(configuration, leader_election=election),
        gates=gates,
        version=version,
    )

    async def run(client: Any) -> None:
        await component.run(client, options=options)

    where = Path(configuration.kubeconfig) if configuration.kubeconfig else None
    run_component(kubeconfig or where, run, metrics_listen=metrics_listen, metrics=options.metrics.text)


@click.command()
@kubeconfig_option
@click.option("--controllers", "names", default="*", help="which to run: *, name, -name, separated by commas")
@click.option(
    "--leader-elect/--no-leader-elect",
    default=True,
    show_default=True,
    help="Work only while holding the lease of kube-controller-manager.",
)
@click.option(
    "--cluster-signing-cert-file", "ca_file", type=_FILE, help="The CA that signs certificate requests, PEM."
)
@click.option("--cluster-signing-key-file", "ca_key_file", type=_FILE, help="That CA's key, PEM.")
@click.option("--root-ca-file", type=_FILE, help="The CA that pods trust; default: the one that signs.")
@_METRICS
@_GATES
@_EMULATE
def controllers(
    kubeconfig: Path | None,
    names: str,
    leader_elect: bool,
    ca_file: Path | None,
    ca_key_file: Path | None,
    root_ca_file: Path | None,
    metrics_listen: str | None,
    feature_gates: str,
    emulate: str,
) -> None:
    """Run controllers: claims, garbage collection, namespaces, workloads and more.

    \b
    Examples:
      dray controllers --kubeconfig ~/.kube/config
      dray controllers --controllers resourceclaim-controller
      dray controllers --controllers '*,bootstrapsigner,tokencleaner' \\
        --cluster-signing-cert-file ca.crt --cluster-signing-key-file ca.key
    """
    from dray.controllers import manager

    version, gates = _release(emulate, feature_gates)
    wanted = tuple(n.strip() for n in names.split(",") if n.strip())
    try:
        manager.enabled_controllers(wanted, gates)
    except manager.UnknownController as problem:
        raise click.ClickException(str(problem)) from None
    options = manager.Options(
        controllers=wanted,
        version=version,
        gates=gates,
        leader_election=leader_elect,
        settings=_signing_settings(ca_file, ca_key_file, root_ca_file),
    )

    async def run(client: Any) -> None:
        await manager.run(client, options=options)

    run_component(kubeconfig, run, metrics_listen=metrics_listen, metrics=options.metrics.registry.text)


def _signing_settings(ca: Path | None, key: Path | None, root: Path | None) -> dict[str, dict[str, str]]:
    """What the controllers around certificates need to know. Those that are told nothing do not run."""
    found: dict[str, dict[str, str]] = {}
    if trusted := root or ca:
        found["root-ca-certificate-publisher-controller"] = {"ca": trusted.read_text()}
    if ca and key:
        signing = {"certificate": ca.read_text(), "key": key.read_text()}
        found["certificatesigningrequest-signing-controller"] = signing
    return found


def _release(emulate: str, feature_gates: str) -> tuple[Any, Any]:
    from dray.api import release as releases

    try:
        release = releases.EffectiveVersion.parse(emulate)
        return release, release.gates(releases.parse_gates(feature_gates))
    except releases.SettingError as problem:
        raise click.ClickException(str(problem)) from None


def _yaml(path: Path) -> Any:
    import yaml

    return yaml.safe_load(path.read_text())


def run_component(
    kubeconfig: Path | None,
    run: Any,
    *,
    metrics_listen: str | None = None,
    metrics: Callable[[], str] | None = None,
) -> None:
    """Run a component until it is told to stop, with a page of its metrics where that is asked for."""
    import asyncio
    import contextlib
    import logging

    from dray.app.options import OptionError, parse_listen
    from dray.app.page import page
    from dray.app.process import run_loop, shutdown_event
    from dray.cli.config_flags import connect
    from dray.client.leaderelection import LeadershipLost

    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname).1s %(name)s %(message)s")
    try:
        listen = parse_listen(metrics_listen) if metrics_listen else None
    except OptionError as problem:
        raise click.ClickException(str(problem)) from None

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
            try:
                await task
            except asyncio.CancelledError:
                pass
            except LeadershipLost as problem:
                raise click.ClickException(str(problem)) from None

    run_loop(main())
