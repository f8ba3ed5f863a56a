"""The options of one node."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dray.api.release import EffectiveVersion, Gates
from dray.node.dra.plugin_manager import WITHDRAW_AFTER
from dray.node.hostpaths import HostPaths
from dray.node.mirror import ControlPlanePart

if TYPE_CHECKING:
    from dray.api.types.core import Taint


def machine_capacity() -> dict[str, str]:
    """What this machine has, as a node's capacity."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "cpu": str(os.cpu_count() or 1),
        "memory": f"{pages // 1024}Ki",
        "ephemeral-storage": "100Gi",
        "pods": "110",
    }


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
    address: str = "127.0.0.1"
    #: Port of the agent's own HTTPS endpoint, 0 if it has none.
    port: int = 0
    version: str = "v1.36.4"
    #: The release whose kubelet this node is like (see ``quirks``). None: the server's.
    release: EffectiveVersion | None = None
    #: Features in force; those that concern a node are claims, device health and dynamic resources in PodResources.
    gates: Gates = field(default_factory=lambda: EffectiveVersion().gates())
    #: Variables by which containers find the API server.
    services: Mapping[str, str] = field(default_factory=dict)
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
        defaults: dict[str, Any] = {
            "name": name,
            "paths": HostPaths.below(Path("/nonexistent")),
            "drivers": False,
            "pod_resources": False,
            "capacity": {"cpu": "64", "memory": "256Gi", "ephemeral-storage": "1Ti", "pods": "110"},
        }
        return cls(**{**defaults, **changes})


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
