"""Where a node's host paths are on this machine.

A node that has a machine to itself has the usual paths. Where several nodes share one machine, each has its own kubelet
directory and CDI directory below the node's own directory. A driver's pod that mounts ``/var/lib/kubelet/plugins`` gets
that of its node, and ``locate`` finds the paths that the driver then names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

KUBELET = "/var/lib/kubelet"
CDI = ("/var/run/cdi", "/run/cdi", "/etc/cdi")
POD_LOGS = "/var/log/pods"


@dataclass(frozen=True, slots=True)
class HostPaths:
    """A node's directories. ``private`` is where the node's own version of shared paths is; None for a real node."""

    kubelet: Path
    cdi: tuple[Path, ...]
    logs: Path
    private: Path | None = None

    @classmethod
    def of_machine(
        cls, kubelet: Path = Path(KUBELET), *, cdi: Sequence[Path] = (), logs: Path = Path(POD_LOGS)
    ) -> HostPaths:
        """A node that has the machine to itself."""
        return cls(kubelet, tuple(cdi) or (Path("/etc/cdi"), Path("/var/run/cdi")), logs)

    @classmethod
    def below(cls, directory: Path) -> HostPaths:
        """One of several nodes on a machine."""
        return cls(directory / "kubelet", (directory / "cdi",), directory / "logs", directory)

    def locate(self, path: str) -> str:
        """Where a path of the node's host is found on this machine."""
        if self.private is None:
            return path
        given = PurePosixPath(path)
        for prefix, place in (
            (KUBELET, self.kubelet),
            *((c, self.cdi[0]) for c in CDI),
            (POD_LOGS, self.logs),
        ):
            if given.is_relative_to(prefix):
                return str(place / given.relative_to(prefix))
        return path

    @property
    def registry(self) -> Path:
        return self.kubelet / "plugins_registry"

    @property
    def plugins(self) -> Path:
        return self.kubelet / "plugins"

    @property
    def device_plugins(self) -> Path:
        return self.kubelet / "device-plugins"

    @property
    def pod_resources(self) -> Path:
        return self.kubelet / "pod-resources" / "kubelet.sock"

    def pod(self, uid: str) -> Path:
        return self.kubelet / "pods" / uid

    def pod_logs(self, namespace: str, name: str, uid: str) -> Path:
        return self.logs / f"{namespace}_{name}_{uid}"

    def create(self) -> None:
        for directory in (self.kubelet, self.registry, self.plugins, self.kubelet / "pods", self.logs):
            directory.mkdir(parents=True, exist_ok=True)
        if self.private is not None:
            for directory in self.cdi:
                directory.mkdir(parents=True, exist_ok=True)
