"""``dray node``: the node agent on any API server."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import click

from dray.cli.components import kubeconfig_option, until_signal


@click.command()
@kubeconfig_option
@click.option("--name", default=None, help="The node's name; default: the host's.")
@click.option(
    "--root",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="Where plugins register and pods live, as a kubelet's --root-dir.",
)
@click.option("--runtime", default="process", show_default=True, help="simulated, process or cri:SOCKET.")
@click.option(
    "--simulated", type=click.IntRange(min=1), help="Run that many simulated nodes instead of this one."
)
def node(kubeconfig: Path | None, name: str | None, root: Path, runtime: str, simulated: int | None) -> None:
    """Run pods on this machine: register drivers, prepare claims, hand devices to containers.

    \b
    Examples:
      dray node --runtime cri:/run/containerd/containerd.sock
      dray node --simulated 1000
    """
    from dray.node.hostpaths import HostPaths
    from dray.node.options import NodeOptions
    from dray.node.run import Options, run

    own = name or platform.node().lower()
    if simulated:
        nodes = [NodeOptions.simulated(f"{own}-{i + 1}") for i in range(simulated)]
        runtime = "simulated"
    else:
        nodes = [NodeOptions(name=own, paths=HostPaths.of_machine(root.absolute()))]
    options = Options(nodes=nodes, runtime=runtime, runtime_dir=root.absolute() / "dray-runtime")

    async def serve(client: Any) -> None:
        await run(client, options=options)

    until_signal(kubeconfig, serve)
