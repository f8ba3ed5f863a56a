"""``dray up``, ``dray down`` and ``dray status``: a whole cluster in one process."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

import click

from dray.app import datadir
from dray.app.options import OptionError, ServerOptions, default_data, split_list
from dray.cli.server import ServerFlags, server_flags, server_options

if TYPE_CHECKING:
    from dray.app.quirks import Quirks
    from dray.app.up import RunningCluster

_START_SECONDS = 30.0
_STOP_SECONDS = 20.0

_data = click.option("--data", type=click.Path(path_type=Path), help="Data directory of the cluster.")


class UpFlags(ServerFlags):
    nodes: int
    devices: int
    drivers: str | None
    runtime: str
    withdraw_after: float
    device_policy: str
    device_preemption: bool


@click.command()
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
    "--runtime",
    default="process",
    show_default=True,
    metavar="NAME",
    help="simulated, process or cri:SOCKET.",
)
@click.option(
    "--withdraw-after",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    metavar="SECONDS",
    help="When the slices of a driver that is gone are withdrawn (from 1.33 on).",
)
@click.option(
    "--device-policy",
    type=click.Choice(["default", "pack", "spread"]),
    default="default",
    help="Which of the fitting devices to take: upstream's choice, or one that packs or spreads.",
)
@click.option(
    "--device-preemption", is_flag=True, help="Let pods of higher priority take devices from others."
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

    setup_logging()
    options = UpOptions(
        server=_with_nodes(server_options(flags)),
        nodes=flags["nodes"],
        devices=flags["devices"],
        drivers=None if flags["drivers"] is None else split_list(flags["drivers"]),
        runtime=flags["runtime"],
        withdraw_after=flags["withdraw_after"],
        device_policy=flags["device_policy"],
        device_preemption=flags["device_preemption"],
    )

    def ready(cluster: RunningCluster) -> None:
        from dray.app.up import published_devices

        _print_next_steps(
            cluster.server.url,
            str(options.server.kubeconfig_path),
            published_devices(cluster),
            cluster.quirks,
        )
        notify_parent()

    try:
        run_loop(run_up(options, hooks=Hooks(ready)))
    except OptionError as e:
        notify_parent(str(e))
        raise click.ClickException(str(e)) from None


def _with_nodes(server: ServerOptions) -> ServerOptions:
    """A cluster has nodes, and others may join: NodeRestriction is on unless the user has switched it off."""
    if "NodeRestriction" in server.disable_plugins:
        return server
    return replace(server, enable_plugins=(*server.enable_plugins, "NodeRestriction"))


def _detached(flags: UpFlags) -> None:
    from dray.app.daemon import StartFailed, detach

    data = (flags["data"] or default_data()).absolute()
    arguments = [a for a in sys.argv[1:] if a != "--detach"]
    try:
        detach(arguments, log=data / "dray.log", seconds=_START_SECONDS)
    except StartFailed as e:
        raise click.ClickException(str(e)) from None
    found = datadir.read_state(data)
    if found is not None:
        from dray.api.release import EffectiveVersion
        from dray.app.quirks import Quirks

        version = EffectiveVersion.parse(found.release)
        _print_next_steps(found.url, found.kubeconfig, found.devices, Quirks.of(version))


def _print_next_steps(url: str, kubeconfig: str, devices: Sequence[str], quirks: Quirks) -> None:
    click.echo(f"The cluster is ready on {url}")
    for line in devices:
        click.echo(f"  {line}")
    click.echo("Type next:")
    if (home := _bin_dir_off_path()) is not None:
        click.echo(f'  export PATH="{home}:$PATH"')
    click.echo(f"  export KUBECONFIG={kubeconfig}")
    kinds = (
        "deviceclasses,resourceslices" if quirks.serves_device_classes else "resourceclasses,resourceclaims"
    )
    click.echo(f"  kubectl get nodes,{kinds}")
    if devices and quirks.serves_device_classes:
        click.echo("  dray demo       # a pod gets a device, scene by scene")
        click.echo("  dray devices    # which are free, and who has the others")
    click.echo("Stop it with: dray down")
    sys.stdout.flush()


def _bin_dir_off_path() -> Path | None:
    """Where ``dray`` is, if a shell would not find it: ``make`` runs it out of its virtual environment."""
    home = Path(sys.executable).parent
    is_there = (home / "dray").exists()
    return home if is_there and shutil.which("dray") != str(home / "dray") else None


@click.command()
@_data
def down(data: Path | None) -> None:
    """Stop the cluster. What it stored stays for the next time."""
    folder = (data or default_data()).absolute()
    if not datadir.is_running(folder):
        click.echo("No cluster is running.")
        return
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
    click.echo(f"  release     {found.release or 'all'}")
    click.echo(f"  kubeconfig  {found.kubeconfig}")
    for name in found.nodes:
        click.echo(f"  {name:<10}  {datadir.node_directory(folder, name)}")
    if not ready:
        raise SystemExit(2)


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
