"""``dray up``, ``dray down`` and ``dray status``: a whole cluster in one process."""

from __future__ import annotations

import shlex
import shutil
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from dray.app import datadir
from dray.app.dashboard import DEFAULT_PORT
from dray.app.options import ServerOptions, default_data, parse_listen, split_list
from dray.cli.configfile import config_option
from dray.cli.files import InputPath
from dray.cli.options import pod_network_option
from dray.cli.scheduler import device_policy_options, read_configuration
from dray.cli.server import ServerFlags, server_flags, server_options

if TYPE_CHECKING:
    from dray.app.up import RunningCluster

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0

_data = click.option("--data", type=click.Path(path_type=Path), help="Data directory of the cluster.")


class UpFlags(ServerFlags):
    nodes: int
    devices: int
    drivers: str | None
    without: str
    runtime: str
    pod_network: str
    withdraw_after: float
    device_policy: str
    device_preemption: bool
    scheduler_config: Path | None
    ui: str


@click.command()
@config_option
@server_flags
@click.option(
    "--nodes", type=click.IntRange(min=0), default=3, show_default=True, help="How many nodes; 0 for none."
)
@click.option("--devices", type=click.IntRange(min=0), default=8, show_default=True, help="Devices a node.")
@click.option(
    "--drivers",
    default=None,
    metavar="A,B|none",
    help="gpu, nic, cats or none; default: what fits the release.",
)
@click.option(
    "--without",
    default="",
    metavar="A,B",
    help="scheduler, controllers or both: leave them to others, such as kube-scheduler.",
)
@click.option(
    "--runtime",
    default="process",
    show_default=True,
    metavar="NAME",
    help="simulated, process or cri:SOCKET.",
)
@pod_network_option
@click.option(
    "--withdraw-after",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When the slices of a driver that is gone are withdrawn (from 1.33 on).",
)
@device_policy_options
@click.option(
    "--scheduler-config",
    type=InputPath(dir_okay=False),
    help="A KubeSchedulerConfiguration (v1) for the cluster's scheduler.",
)
@click.option(
    "--ui",
    default="",
    metavar="HOST:PORT|none",
    help=f"Where the dashboard is served. Default 127.0.0.1:{DEFAULT_PORT}, or the next free port.",
)
@click.option(
    "--detach", is_flag=True, help="Return once the cluster is ready; it goes on in the background."
)
def up(detach: bool, **flags: Unpack[UpFlags]) -> None:
    """Start a cluster: everything in one process, until a signal ends it."""
    if detach:
        _detached(flags)
        return
    from dray.app.daemon import notify_parent
    from dray.app.process import pause_gc, run_loop, setup_logging

    pause_gc()
    from dray.app.up import Hooks, UpOptions, run_up
    from dray.placement.config import LeaderElection

    setup_logging()
    scheduler = read_configuration(
        flags["scheduler_config"],
        device_policy=flags["device_policy"],
        device_preemption=flags["device_preemption"],
    )
    options = UpOptions(
        server=_with_nodes(server_options(flags)),
        nodes=flags["nodes"],
        devices=flags["devices"],
        drivers=None if flags["drivers"] is None else split_list(flags["drivers"]),
        without=split_list(flags["without"]),
        runtime=flags["runtime"],
        pod_network=flags["pod_network"],
        withdraw_after=flags["withdraw_after"],
        scheduler=replace(scheduler, leader_election=LeaderElection()),  # it is the only one
        ui=None if flags["ui"] == "none" else parse_listen(flags["ui"], port=DEFAULT_PORT),
        scheduler_flags=tuple(_scheduler_flags(flags)),
    )

    def ready(cluster: RunningCluster) -> None:
        from dray.app.up import cluster_state

        _print_next_steps(cluster_state(cluster), flags["data"])
        notify_parent()

    run_loop(run_up(options, hooks=Hooks(ready)))


def _scheduler_flags(flags: UpFlags) -> Iterator[str]:
    """With these options ``dray scheduler`` does what the scheduler of this cluster does."""
    if flags["scheduler_config"] is not None:
        yield f"--config={flags['scheduler_config'].absolute()}"
    if flags["device_policy"] != "default":
        yield f"--device-policy={flags['device_policy']}"
    if flags["device_preemption"]:
        yield "--device-preemption"


def _with_nodes(server: ServerOptions) -> ServerOptions:
    """A cluster has nodes, and others may join: NodeRestriction is on unless the user has switched it off."""
    if "NodeRestriction" in server.disable_plugins:
        return server
    return replace(server, enable_plugins=(*server.enable_plugins, "NodeRestriction"))


def _detached(flags: UpFlags) -> None:
    from dray.app.daemon import StartFailed, detach

    data = (flags["data"] or default_data()).absolute()
    arguments = [a for a in sys.argv[1:] if a != "--detach"]
    server_options(flags)  # what makes no sense is refused before a process is started
    datadir.ensure_private(data)
    try:
        detach(arguments, log=data / "dray.log", seconds=_START_SECONDS)
    except StartFailed as e:
        raise click.ClickException(str(e)) from None
    found = datadir.read_state(data)
    if found is not None:
        _print_next_steps(found, flags["data"])


def _print_next_steps(state: datadir.ClusterState, data: Path | None) -> None:
    click.echo(f"The cluster is ready on {state.url}")
    for line in state.devices:
        click.echo(f"  {line}")
    click.echo("Type next:")
    if (home := _bin_dir_off_path()) is not None:
        click.echo(f'  export PATH="{home}:$PATH"')
    click.echo(f"  export KUBECONFIG={shlex.quote(state.kubeconfig)}")
    for command in state.commands:
        click.echo(f"  {command}")
    if state.dashboard:
        click.echo(f"See it live: {state.dashboard}")
    click.echo(f"Stop it with: dray down{f' --data {shlex.quote(str(data))}' if data else ''}")
    sys.stdout.flush()


def _bin_dir_off_path() -> Path | None:
    """Where ``dray`` is, if a shell would not find it: ``make`` runs it out of its virtual environment."""
    home = Path(sys.executable).parent
    is_there = (home / "dray").exists()
    return home if is_there and shutil.which("dray") != str(home / "dray") else None


@click.command()
@_data
def down(data: Path | None) -> None:
    """Stop the cluster. What it stored stays for the next time. Exit code 1 if none runs."""
    folder = (data or default_data()).absolute()
    if not datadir.is_running(folder):
        click.echo(f"No cluster is running on {folder}.")
        raise SystemExit(1)
    if not datadir.stop(folder, seconds=_STOP_SECONDS):
        raise click.ClickException(f"the cluster did not end within {_STOP_SECONDS:g} s")
    click.echo("The cluster has stopped.")


@click.command()
@_data
def status(data: Path | None) -> None:
    """Say whether a cluster runs, and where. Exit code 1 if none does, 2 if it is not ready."""
    folder = (data or default_data()).absolute()
    found = datadir.read_state(folder) if datadir.is_running(folder) else None
    if found is None:
        click.echo(f"No cluster is running on {folder}.")
        raise SystemExit(1)
    ready = _ready(found.url, folder)
    click.echo(
        f"{'Ready' if ready else 'Not ready'} on {found.url}, pid {found.pid}, up {_age(found.started)}"
    )
    click.echo(f"  store       {found.store}")
    click.echo(f"  release     {found.release or 'all'}, reports {_git_version(found.release)}")
    click.echo(f"  kubeconfig  {found.kubeconfig}")
    if found.dashboard:
        click.echo(f"  dashboard   {found.dashboard}")
    for name in found.nodes:
        click.echo(f"  {name:<10}  {datadir.node_directory(folder, name)}")
    if not ready:
        raise SystemExit(2)


def _git_version(release: str) -> str:
    from dray.api.release import EffectiveVersion

    return EffectiveVersion.parse(release).git_version


def _ready(url: str, data: Path) -> bool:
    import ssl
    import urllib.error
    import urllib.request

    keys = data / "pki"
    context = ssl.create_default_context(cafile=str(keys / "ca.crt"))
    context.load_cert_chain(keys / "admin.crt", keys / "admin.key")
    try:
        with urllib.request.urlopen(f"{url}/readyz", context=context, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def _age(started: float) -> str:
    seconds = int(time.time() - started)
    hours, rest = divmod(seconds, 3600)
    minutes, seconds = divmod(rest, 60)
    return f"{hours}h{minutes}m" if hours else f"{minutes}m{seconds}s" if minutes else f"{seconds}s"
