"""The options of one node."""

from __future__ import annotations

import os
import platform
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api.release import EffectiveVersion, Gates
from dray.node.container.dns import NO_CLUSTER_DNS, ClusterDNS
from dray.node.hostpaths import HostPaths

if TYPE_CHECKING:
    from dray.api.types.core import Taint
    from dray.node.mirror import ControlPlanePart

#: Seconds that a driver may be away before its slices are withdrawn.
WITHDRAW_AFTER = 30.0


def machine_capacity() -> dict[str, str]:
    """What this machine has, as a node's capacity."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{pages // 1024}Ki",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }


def machine_address() -> str:
    """The address of this machine that connections to elsewhere begin with; that of the loopback if there is no way out."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # sends nothing
            return str(probe.getsockname()[0])
        except OSError:
            return "127.0.0.1"


def has_plugin_sockets(runtime: str) -> bool:
    """Whether drivers can register on nodes with this runtime; simulated nodes assume every driver to be there."""
    return runtime != "simulated"


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeOptions:
    """One node."""

    name: str
    paths: HostPaths
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    capacity: Mapping[str, str] = field(default_factory=machine_capacity)
    #: Where others reach the node, and the address of pods that share its network. Empty: the runtime's choice, else an
    #: address of this machine.
    address: str = "127.0.0.1"
    #: Port of the agent's own HTTPS endpoint, 0 if it has none.
    port: int = 0
    #: What the node reports as its kubelet's version. Empty: the server's, as a kubelet must not be newer than that.
    version: str = ""
    #: The release whose kubelet this node is like (see ``quirks``). None: the server's.
    release: EffectiveVersion | None = None
    #: Features in force; those that concern a node are claims, device health and dynamic resources in PodResources.
    gates: Gates = field(default_factory=lambda: EffectiveVersion().gates())
    #: Variables by which containers find the API server where they cannot reach its Service.
    services: Mapping[str, str] = field(default_factory=dict)
    #: Asked for names by pods that resolve names of the cluster first.
    dns: ClusterDNS = NO_CLUSTER_DNS
    #: Drivers register over sockets; otherwise every driver is taken to be there (simulated nodes).
    drivers: bool = True
    #: Parts of the control plane that run on this node, shown as pods in kube-system.
    control_plane: tuple[ControlPlanePart, ...] = ()
    #: Offer the PodResources service.
    pod_resources: bool = True
    #: Seconds after which the slices of a driver that is gone are withdrawn; None leaves them (as before 1.33).
    withdraw_after: float | None = WITHDRAW_AFTER
    lease_seconds: int = 40
    renew_every: float = 10.0

    @classmethod
    def simulated(cls, name: str, **changes: Any) -> NodeOptions:
        """A node without files and sockets."""
        simulated = cls(
            name=name,
            paths=HostPaths.below(Path("/nonexistent")),
            drivers=False,
            pod_resources=False,
            capacity={"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"},
        )
        return replace(simulated, **changes)


def system_labels(options: NodeOptions) -> dict[str, str]:
    machine = {"x86_64": "amd64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())
    return {
        "kubernetes.io/hostname": options.name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": machine,
        "beta.kubernetes.io/os": "linux",
        "beta.kubernetes.io/arch": machine,
        **options.labels,
    }
