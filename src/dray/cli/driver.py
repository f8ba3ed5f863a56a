"""``dray driver``: make a new driver, run one that comes with dray, or check any driver."""

from __future__ import annotations

import asyncio
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from dray.app import datadir
from dray.cli.component import run_component
from dray.cli.config_flags import kubeconfig_option
from dray.cli.files import InputPath

if TYPE_CHECKING:
    from dray.client.client import Client
    from dray.node.hostpaths import HostPaths


@click.group()
def driver() -> None:
    """Make a new driver, run one that comes with dray, or check any driver."""


@driver.command()
@kubeconfig_option
@click.option(
    "--node", "name", default=None, help="The node whose devices these are; default: the host's name."
)
@click.option("--devices", type=click.IntRange(min=0), default=8, show_default=True, help="How many GPUs.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="The kubelet's (or the agent's) root directory.",
)
@click.option("--cdi", type=click.Path(path_type=Path), default=Path("/var/run/cdi"), show_default=True)
@click.option(
    "--partitions", type=click.IntRange(min=0), default=0, help="Cut every GPU into so many parts, MIG-like."
)
@click.option("--shared", is_flag=True, help="Let claims share a GPU, each with the memory it asks for.")
@click.option(
    "--health",
    is_flag=True,
    help="Report health; files ailing/<device> below plugins/<driver> say who is not well.",
)
@click.option("--device-status", is_flag=True, help="Write about allocated GPUs into the claim's status.")
@click.option("--metadata", is_flag=True, help="Write files in which containers read about their GPUs.")
def gpu(
    kubeconfig: Path | None, name: str | None, devices: int, root: Path, cdi: Path, **profile: Any
) -> None:
    """The example GPU driver, under a kubelet or dray's node agent.

    \b
    Example:
      dray driver gpu --node worker-1 --devices 4
      dray driver gpu --partitions 4 --health
    """
    from dray.driver.main import run_program
    from dray.driver.plugin import Options
    from dray.drivers.gpu import GpuDriver, GpuOptions

    options = Options(
        node=name or platform.node().lower(), kubelet_dir=root.absolute(), cdi_dir=cdi.absolute()
    )

    async def serve(client: Client) -> None:
        await run_program(client, GpuDriver(GpuOptions(count=devices, **profile)), options=options)

    run_component(kubeconfig, serve)


@driver.command("new")
@click.argument("name")
@click.option(
    "--directory",
    type=click.Path(path_type=Path),
    help="Where the project is made; default: ./<name>-driver.",
)
def new_project(name: str, directory: Path | None) -> None:
    """Make the project of a new driver: the driver, its tests, a chart, continuous integration.

    NAME is the driver's name, a DNS name of your own such as cats.example.com.

    \b
    Example:
      dray driver new cats.example.com
      cd cats-driver && pip install -e ".[test]" && pytest
    """
    from dray.driver.project import Project, ProjectError

    try:
        project = Project(name)
        target = directory or Path(project.project)
        written = project.write(target)
    except ProjectError as problem:
        raise click.ClickException(str(problem)) from None
    except OSError as problem:
        raise click.ClickException(f"{problem.filename}: {problem.strerror}") from None
    for path in written:
        click.echo(path)
    click.echo(f'\ncd {target} && pip install -e ".[test]" && pytest')


@driver.command("run", context_settings={"ignore_unknown_options": True})
@click.argument("program", metavar="FILE", type=InputPath(dir_okay=False))
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
@click.option("--node", "name", required=True, help="A node of the cluster.")
@click.option("--data", type=click.Path(path_type=Path), help="Data directory of the cluster.")
def run_file(program: Path, arguments: tuple[str, ...], name: str, data: Path | None) -> None:
    """Run a driver written in Python on a node of the cluster of dray up.

    Sets what the driver would otherwise be told in its environment: NODE_NAME, KUBELET_DIRECTORY_PATH, CDI_ROOT and
    KUBECONFIG. `dray node list` shows the nodes and their directories.

    \b
    Example:
      dray driver run cats.py --node node-1
    """
    import os
    import runpy
    import sys
    import traceback

    from dray.cli.node import running_cluster
    from dray.node.hostpaths import HostPaths

    try:
        compile(program.read_bytes(), str(program), "exec")
    except SyntaxError as problem:
        raise click.ClickException(f"{program}:{problem.lineno or 1}: {problem.msg}") from None
    except ValueError as problem:
        raise click.ClickException(f"{program}: not a Python program: {problem}") from None
    folder, cluster = running_cluster(data)
    if name not in cluster.nodes:
        raise click.ClickException(
            f"there is no node {name} on this machine; there are: {', '.join(cluster.nodes) or 'none'}"
        )
    paths = HostPaths.below(datadir.node_directory(folder, name))
    os.environ |= {
        "NODE_NAME": name,
        "KUBELET_DIRECTORY_PATH": str(paths.kubelet),
        "CDI_ROOT": str(paths.cdi[0]),
        "KUBECONFIG": cluster.kubeconfig,
    }
    sys.argv = [str(program), *arguments]
    sys.path.insert(0, str(program.absolute().parent))
    try:
        runpy.run_path(str(program), run_name="__main__")
    except Exception:  # the author of the program wants to see where it failed
        traceback.print_exc()
        raise SystemExit(1) from None


@driver.command()
@kubeconfig_option
@click.option(
    "--registry",
    type=click.Path(path_type=Path),
    help="Where drivers register; default: that of --node in the running cluster of dray up, or "
    "/var/lib/kubelet/plugins_registry.",
)
@click.option("--driver", "name", default="", help="Which driver, if several are registered.")
@click.option("--node", default="", help="The node it runs on; default: the host's name.")
@click.option(
    "--cdi",
    type=click.Path(path_type=Path),
    multiple=True,
    help="CDI directories; may be repeated; default: that of the node, or /etc/cdi and /var/run/cdi.",
)
@click.option(
    "--restart", default="", help="A command that restarts the driver; without it restarts are not tried."
)
def verify(
    kubeconfig: Path | None, registry: Path | None, name: str, node: str, cdi: tuple[Path, ...], restart: str
) -> None:
    """Check a driver, whatever it is written in, for what a kubelet relies on.

    Registration, well-formed slices, idempotent prepare and unprepare, unknown claims, partial failure, restarts.
    Exit code 1 if something is wrong.

    \b
    Examples:
      dray driver verify --node node-1 --driver gpu.example.com      # on the cluster of dray up
      dray driver verify --registry /var/lib/kubelet/plugins_registry --driver gpu.example.com
    """
    from dray.cli.config_flags import connect
    from dray.driver.verify import Options, Outcome, Report, run

    paths = _paths_of(node) if registry is None else None
    more: dict[str, Any] = {}
    if paths is not None:
        more = {"registry": paths.kubelet / "plugins_registry", "cdi_dirs": paths.cdi}
    elif registry is not None:
        more = {"registry": registry}
    if cdi:
        more["cdi_dirs"] = cdi
    options = Options(driver=name, node=node or platform.node().lower(), restart=restart, **more)

    async def check() -> Report:
        async with connect(kubeconfig) as client:
            return await run(client, options=options)

    report = asyncio.run(check())
    marks = {Outcome.PASSED: "ok  ", Outcome.FAILED: "FAIL", Outcome.SKIPPED: "-   ", Outcome.NOTE: "note"}
    for one in report.checks:
        click.echo(f"{marks[one.outcome]} {one.name}{f': {one.detail}' if one.detail else ''}")
    failed = sum(1 for one in report.checks if one.outcome is Outcome.FAILED)
    click.echo(f"{report.driver or 'driver'}: {len(report.checks)} checks, {failed} failed")
    if not report.ok:
        raise SystemExit(1)


def _paths_of(node: str) -> HostPaths | None:
    """The directories of a node of the cluster of ``dray up``; None for a node that is none of its own."""
    from dray.app.options import default_data
    from dray.node.hostpaths import HostPaths

    folder = default_data().absolute()
    found = datadir.read_state(folder) if datadir.is_running(folder) else None
    if found is None or node not in found.nodes:
        return None
    return HostPaths.below(datadir.node_directory(folder, node))
