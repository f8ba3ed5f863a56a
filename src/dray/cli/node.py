"""``dray node``: the node agent on any API server; ``dray node join``: a new node of a cluster."""

from __future__ import annotations

import ipaddress
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import click

from dray.cli.component import effective_version, gates_option, run_component
from dray.cli.config_flags import kubeconfig_option
from dray.cli.files import InputPath
from dray.cli.options import Command, pod_network_option

if TYPE_CHECKING:
    from dray.app.datadir import ClusterState
    from dray.app.join import JoinConfiguration
    from dray.client.client import Client
    from dray.client.config import Config
    from dray.node.bootstrap.cluster_info import BootstrapTokenDiscovery
    from dray.node.run import Options


def _addresses(context: click.Context, option: click.Parameter, given: str) -> tuple[str, ...]:
    addresses = tuple(text.strip() for text in given.split(",") if text.strip())
    for address in addresses:
        try:
            ipaddress.ip_address(address)
        except ValueError:
            raise click.BadParameter(f"{address} is no IP address") from None
    return addresses


_runtime = click.option(
    "--runtime", default="process", show_default=True, help="simulated, process or cri:SOCKET."
)
_cdi = click.option(
    "--cdi-spec-dir",
    "cdi",
    multiple=True,
    type=click.Path(path_type=Path, file_okay=False),
    help="Where drivers leave their CDI files; may be repeated. Default: /etc/cdi and /var/run/cdi.",
)
_logs = click.option(
    "--pod-log-dir",
    "logs",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/log/pods"),
    show_default=True,
    help="Where the logs of containers are written.",
)
_cluster_dns = click.option(
    "--cluster-dns",
    default="",
    metavar="IP,…",
    callback=_addresses,
    help="The cluster's DNS, as its pods on containerd or CRI-O are told. Default: they resolve names as this machine does.",
)
_cluster_domain = click.option(
    "--cluster-domain",
    default="cluster.local",
    show_default=True,
    help="The domain of the names of Services, for pods that ask the cluster's DNS.",
)


def _dns(command: Command) -> Command:
    """``--cluster-dns`` and ``--cluster-domain``."""
    for option in (_cluster_domain, _cluster_dns):
        command = option(command)
    return command


_name = click.option("--name", default=None, help="The node's name; default: the host's.")
_port = click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=None,
    help="For logs, exec, attach and port-forward; default: 10250 if it is free, 0: not offered.",
)
_withdraw = click.option(
    "--withdraw-after",
    type=click.FloatRange(min=0),
    default=30.0,
    show_default=True,
    help="Seconds after which the slices of a driver that is gone are withdrawn.",
)


@click.group(invoke_without_command=True)
@kubeconfig_option
@_name
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("/var/lib/kubelet"),
    show_default=True,
    help="Where plugins register and pods live, as a kubelet's --root-dir.",
)
@_runtime
@pod_network_option
@_cdi
@_logs
@click.option(
    "--simulated", type=click.IntRange(min=1), help="Run that many simulated nodes instead of this one."
)
@click.option("--address", default="", help="Where API servers reach this node; default: found out.")
@_port
@_dns
@_withdraw
@gates_option
@click.pass_context
def node(
    context: click.Context,
    kubeconfig: Path | None,
    name: str | None,
    root: Path,
    runtime: str,
    pod_network: str,
    cdi: tuple[Path, ...],
    logs: Path,
    simulated: int | None,
    address: str,
    port: int | None,
    cluster_dns: tuple[str, ...],
    cluster_domain: str,
    withdraw_after: float,
    feature_gates: str,
) -> None:
    """Run pods on this machine: register drivers, prepare claims, hand devices to containers.

    \b
    Examples:
      dray node --runtime cri:/run/containerd/containerd.sock
      dray node --simulated 1000
      dray node join HOST:PORT --token TOKEN --discovery-token-ca-cert-hash sha256:HASH
    """
    if context.invoked_subcommand is not None:
        return
    from dray.app.nodeserver import host_and_port, node_ip, service_variables
    from dray.node.container.dns import ClusterDNS
    from dray.node.hostpaths import HostPaths
    from dray.node.options import NodeOptions
    from dray.node.run import Options, run

    _, gates = effective_version("", feature_gates)
    own, root = name or platform.node().lower(), root.absolute()
    if simulated:
        nodes = [
            NodeOptions.simulated(f"{own}-{i + 1}", gates=gates, address=address) for i in range(simulated)
        ]
        options = Options(nodes=nodes, runtime="simulated")
    else:
        config = _config(kubeconfig)
        options = Options(
            nodes=[
                NodeOptions(
                    name=own,
                    paths=HostPaths.of_machine(
                        root, cdi=[path.absolute() for path in cdi], logs=logs.absolute()
                    ),
                    address=address or node_ip(config.server),
                    services=service_variables(config.server),
                    dns=ClusterDNS(cluster_dns, cluster_domain),
                    withdraw_after=withdraw_after,
                    gates=gates,
                )
            ],
            runtime=runtime,
            runtime_dir=root / "dray-runtime",
            pod_network=pod_network == "bridge",
            api_server=host_and_port(config.server),
        )
        options = _with_endpoint(options, folder=root / "pki", authority=config.ca, port=port)

    async def serve(client: Client) -> None:
        await run(client, options=options)

    run_component(kubeconfig, serve)


def _config(kubeconfig: Path | None) -> Config:
    from dray.cli.config_flags import kubeconfig_path
    from dray.client.kubeconfig import load

    return load(kubeconfig_path(kubeconfig))


def _with_endpoint(options: Options, *, folder: Path, authority: bytes | None, port: int | None) -> Options:
    """Let API servers reach the node's containers, if they can prove who they are."""
    from dray.app.nodeserver import with_endpoint

    if port == 0 or authority is None:
        return options
    return with_endpoint(options, folder=folder, client_ca=authority, port=port)


def running_cluster(data: Path | None) -> tuple[Path, ClusterState]:
    """The data directory and the state of the cluster of ``dray up``."""
    from dray.app import datadir
    from dray.app.options import default_data

    folder = (data or default_data()).absolute()
    found = datadir.read_state(folder) if datadir.is_running(folder) else None
    if found is None:
        raise click.ClickException(f"no cluster is running on {folder}; start one with: dray up --detach")
    return folder, found


@node.command("list")
@click.option("--data", type=click.Path(path_type=Path), help="Data directory of the cluster.")
def list_nodes(data: Path | None) -> None:
    """Show the nodes of the cluster of dray up and their kubelet and CDI directories."""
    from dray.app.datadir import node_directory
    from dray.cli.printers import columns
    from dray.node.hostpaths import HostPaths

    folder, cluster = running_cluster(data)
    paths = {name: HostPaths.below(node_directory(folder, name)) for name in cluster.nodes}
    rows = [(name, str(p.kubelet), str(p.cdi[0])) for name, p in paths.items()]
    click.echo("\n".join(columns([("NODE", "KUBELET DIRECTORY", "CDI DIRECTORY"), *rows])))


@node.command()
@click.argument("server", metavar="HOST:PORT")
@click.option("--token", default="", envvar="DRAY_TOKEN", metavar="ID.SECRET", help="A bootstrap token.")
@click.option(
    "--ca-cert-hash",
    "--discovery-token-ca-cert-hash",
    "pins",
    multiple=True,
    metavar="sha256:HEX",
    help="Hash of the public key of the cluster's certificate authority; may be repeated.",
)
@click.option(
    "--ca-file",
    type=InputPath(dir_okay=False),
    help="The cluster's certificate authority itself, instead of its hash.",
)
@click.option(
    "--unsafe-skip-ca-verification",
    "--discovery-token-unsafe-skip-ca-verification",
    "trusting",
    is_flag=True,
    help="Trust whoever knows the token.",
)
@click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("/var/lib/dray-node"),
    show_default=True,
    help="Where the node keeps its certificate, its kubeconfig and its pods.",
)
@_name
@click.option(
    "--root",
    type=click.Path(path_type=Path, file_okay=False),
    default=None,
    help="The kubelet directory of a node that has the machine to itself; default: below --data.",
)
@_runtime
@pod_network_option
@click.option(
    "--address", default="", help="The node's address; default: the one it reaches the server from."
)
@_port
@_dns
@click.option(
    "--timeout", type=float, default=300.0, show_default=True, help="Seconds to wait for the certificate."
)
@gates_option
def join(
    server: str,
    token: str,
    pins: tuple[str, ...],
    ca_file: Path | None,
    trusting: bool,
    data: Path,
    name: str | None,
    root: Path | None,
    runtime: str,
    pod_network: str,
    address: str,
    port: int | None,
    cluster_dns: tuple[str, ...],
    cluster_domain: str,
    timeout: float,
    feature_gates: str,
) -> None:
    """Make this machine a node of a cluster and run pods on it.

    The node gets a certificate of its own with the token, and renews it by itself. It needs the token no more when it
    starts again on the same --data. `dray token create --print-join-command` prints what to type here.

    \b
    Examples:
      dray node join 192.0.2.1:6443 --token abcdef.0123456789abcdef --ca-cert-hash sha256:…
      DRAY_TOKEN=… dray node join 192.0.2.1:6443 --ca-file ca.crt --runtime cri:/run/containerd/containerd.sock
    """
    from dray.app import join as joining_node
    from dray.app.datadir import ensure_private
    from dray.node.container.dns import ClusterDNS

    member = joining_node.JoinConfiguration(
        name=name or platform.node().lower(),
        server=_url(server),
        data=data.absolute(),
        root=root.absolute() if root else None,
        runtime=runtime,
        pod_network=pod_network == "bridge",
        address=address,
        dns=ClusterDNS(cluster_dns, cluster_domain),
        gates=effective_version("", feature_gates)[1],
    )
    ensure_private(member.data)
    if not member.keeper.usable():
        _join(member, _introduction(member.server, token, pins, ca_file, trusting=trusting), timeout)
    options = _with_endpoint(
        member.options(), folder=member.data / "pki", authority=_config(member.kubeconfig).ca, port=port
    )

    async def serve(client: Client) -> None:
        await joining_node.serve(client, member, options)

    run_component(member.kubeconfig, serve)


def _url(server: str) -> str:
    return (server if "://" in server else f"https://{server}").rstrip("/")


def _introduction(
    server: str, token: str, pins: tuple[str, ...], ca_file: Path | None, *, trusting: bool
) -> BootstrapTokenDiscovery:
    from dray.api import bootstraptoken
    from dray.node.bootstrap.cluster_info import BootstrapTokenDiscovery

    parsed = bootstraptoken.parse(token)
    if parsed is None:
        raise click.UsageError("--token: a bootstrap token is six letters or digits, a dot, and sixteen more")
    if not (pins or ca_file or trusting):
        raise click.UsageError("which cluster to trust? Give --ca-cert-hash or --ca-file")
    return BootstrapTokenDiscovery(
        server=server,
        token=parsed,
        ca=ca_file.read_bytes() if ca_file else None,
        pins=tuple(pin.lower() for pin in pins),
        trusting=trusting,
    )


def _join(member: JoinConfiguration, discovery: BootstrapTokenDiscovery, timeout: float) -> None:
    import asyncio

    from dray.app import join as joining_node

    def waiting(request: str) -> None:
        click.echo(f"Waiting for an administrator: kubectl certificate approve {request}", err=True)

    asyncio.run(joining_node.join_cluster(member, discovery, seconds=timeout, waiting=waiting))
    click.echo(f"Node {member.name} has joined {member.server}; its kubeconfig is {member.kubeconfig}")
