"""A node that joined a cluster: its identity in a data directory of its own, and the agent that runs with it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from dray.api.errors import NotFound
from dray.api.release import EffectiveVersion, Gates
from dray.app import kubeconfig
from dray.app.nodeserver import host_and_port, node_ip, service_variables
from dray.app.pki import write_private
from dray.client.client import Client
from dray.client.factory import connect
from dray.client.resources import NODES
from dray.node.bootstrap import certificates
from dray.node.bootstrap.certificates import CertificateManager
from dray.node.bootstrap.cluster_info import BootstrapTokenDiscovery, JoinError, discover_cluster
from dray.node.container.dns import NO_CLUSTER_DNS, ClusterDNS
from dray.node.hostpaths import HostPaths
from dray.node.options import NodeOptions
from dray.node.run import Options, run


@dataclass(frozen=True, kw_only=True)
class JoinConfiguration:
    """Who a node is and where it keeps what it has."""

    name: str
    server: str  # https://HOST:PORT
    data: Path
    root: Path | None = None  # the kubelet's directory; None: below ``data``
    runtime: str = "process"
    pod_network: bool = True
    address: str = ""
    dns: ClusterDNS = NO_CLUSTER_DNS
    gates: Gates = field(default_factory=lambda: EffectiveVersion().gates())

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    @cached_property
    def keeper(self) -> CertificateManager:
        return CertificateManager(
            self.data / "pki" / "node.pem", self.name, write=write_private, clock=time.time
        )

    def options(self) -> Options:
        """Options of the agent that runs this node."""
        paths = HostPaths.of_machine(self.root) if self.root else HostPaths.below(self.data / "node")
        node = NodeOptions(
            name=self.name,
            paths=paths,
            address=self.address or node_ip(self.server),
            gates=self.gates,
            services=service_variables(self.server),
            dns=self.dns,
        )
        return Options(
            nodes=[node],
            runtime=self.runtime,
            runtime_dir=self.data / "runtime",
            hidden=[self.data],
            pod_network=self.pod_network,
            api_server=host_and_port(self.server),
        )


async def join_cluster(
    member: JoinConfiguration,
    discovery: BootstrapTokenDiscovery,
    *,
    seconds: float,
    waiting: Callable[[str], None] = lambda name: None,
) -> None:
    """Get a certificate with the token and keep it, and write the kubeconfig that uses it."""
    config = await discover_cluster(discovery)
    assert config.ca is not None
    async with connect(config) as client:
        pem = await certificates.request(client, member.name, seconds=seconds, waiting=waiting)
    async with connect(replace(config, token="", certificate=pem)) as client:
        await _check_name_free(client, member.name)
    member.keeper.keep(pem)
    kubeconfig.write_node(
        member.kubeconfig,
        member.name,
        server=member.server,
        servers=(member.server, *config.other_servers) if config.other_servers else (),
        ca=config.ca,
        credentials=member.keeper.path,
    )


async def _check_name_free(client: Client, name: str) -> None:
    """Two machines must not be one node."""
    try:
        found = await client.get(NODES, "", name)
    except NotFound:
        return
    ready = [c for c in (found.get("status") or {}).get("conditions") or () if c["type"] == "Ready"]
    if ready and ready[0]["status"] == "True":
        raise JoinError(f"the cluster has a node {name} already, and it is ready; choose another name")


async def serve(client: Client, member: JoinConfiguration, options: Options) -> None:
    """Run the node until cancelled, and keep its certificate fresh."""
    async with asyncio.TaskGroup() as group:
        group.create_task(member.keeper.renew(client), name="certificate")
        group.create_task(run(client, options=options), name="node")
