"""The units of deploy/three-machines, run as systemd would run them, with network namespaces as machines."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.robustness import network
from tests.robustness.network import Network
from tests.support.paths import DRAY, ROOT
from tests.support.wait import wait_for_sync

UNITS = ROOT / "deploy" / "three-machines"
SERVERS = ("one", "two", "three")


class Machine:
    """One machine: its files below a directory, its units as processes."""

    def __init__(
        self, place: network.Machine, servers: Sequence[network.Machine], directory: Path, etcd: str
    ):
        self.directory = directory / place.name
        self.command = place.command
        self._etcd = etcd
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        text = (UNITS / "machine.env").read_text().replace("MACHINE=one", f"MACHINE={place.name}")
        text = text.replace("ADDRESS=10.0.0.1\n", f"ADDRESS={place.address}\n")
        text += (UNITS / "node.env").read_text()
        for number, server in enumerate(servers, 1):
            text = text.replace(f"10.0.0.{number}:", f"{server.address}:")
        pairs = (
            line.partition("=") for line in text.splitlines() if "=" in line and not line.startswith("#")
        )
        self.environment = {key: value for key, _, value in pairs}

    def path(self, path: str) -> Path:
        return self.directory / path.lstrip("/")

    def start(self, unit: str, *more: str) -> None:
        text = (UNITS / f"{unit}.service").read_text().replace("\\\n", " ")
        (line,) = re.findall(r"^ExecStart=(.*)$", text, re.MULTILINE)
        for key, value in self.environment.items():
            line = line.replace(f"${{{key}}}", value)
        line = line.replace("/usr/bin/etcd", self._etcd).replace("/usr/bin/dray", DRAY)
        for folder in ("/etc/dray", "/var/lib"):
            self.path(folder).mkdir(parents=True, exist_ok=True)
            line = line.replace(f" {folder}", f" {self.path(folder)}").replace(
                f"={folder}", f"={self.path(folder)}"
            )
        if unit == "dray-node":
            line = re.sub(r"--runtime \S+", "--runtime simulated --port 0", line)
        with (self.directory / f"{unit}.log").open("ab") as log:
            self._running[unit] = subprocess.Popen(
                self.command(*shlex.split(line), *more), stdout=log, stderr=log
            )

    def lose(self) -> None:
        """The machine is gone."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()

    def log(self) -> str:
        return "\n".join(f"{path}:\n{path.read_text()[-3000:]}" for path in self.directory.glob("*.log"))


@pytest.fixture
def machines(tool: Callable[[str], str], tmp_path: Path) -> Iterator[dict[str, Machine]]:
    with Network(*SERVERS, "worker") as net:
        servers = [net.machines[name] for name in SERVERS]
        found = {
            name: Machine(place, servers, tmp_path, tool("etcd")) for name, place in net.machines.items()
        }
        certificates = tmp_path / "certificates"
        addresses = [server.address for server in servers]
        subprocess.run([UNITS / "certificates.sh", certificates, *addresses], check=True)
        for server in servers:
            folder = found[server.name].path("/etc/dray/etcd")
            folder.mkdir(parents=True)
            for file in (certificates / "ca.crt", *(certificates / server.address).iterdir()):
                (folder / file.name).write_bytes(file.read_bytes())
        try:
            yield found
        finally:
            for machine in found.values():
                machine.lose()


@pytest.mark.skipif(bool(why := network.unavailable()), reason=why or "namespaces can be made")
def test_a_cluster_on_three_machines_goes_on_when_one_of_them_is_lost(
    machines: dict[str, Machine], tool: Callable[[str], str], tmp_path: Path
) -> None:
    def logs() -> str:
        return "\n".join(machine.log() for machine in machines.values())

    def kubectl(machine: str, *arguments: str, check: bool = True) -> str:
        config = machines[machine].path("/etc/dray/admin.kubeconfig")
        line = (tool("kubectl-1.36"), "--kubeconfig", str(config), "--cache-dir", str(tmp_path / "cache"))
        return subprocess.run(
            machines[machine].command(*line, *arguments),
            capture_output=True,
            text=True,
            check=check,
            timeout=30,
        ).stdout

    for name in SERVERS:
        machines[name].start("etcd")
        machines[name].start("dray-server")
    for name in SERVERS:
        ready = lambda name=name: kubectl(name, "get", "--raw", "/readyz", check=False) == "ok"  # noqa: E731
        wait_for_sync(f"the server of {name}", ready, pause=0.3, log=logs)
    for name in ("one", "two"):
        machines[name].start("dray-scheduler")
        machines[name].start("dray-controllers")
    config = machines["one"].path("/etc/dray/admin.kubeconfig")
    token = (DRAY, "token", "create", "--print-join-command", "--kubeconfig", str(config))
    join = subprocess.run(
        machines["one"].command(*token), capture_output=True, text=True, check=True
    ).stdout.split()
    machines["worker"].start("dray-node", *join[4:], "--name", "worker")
    phase = ("get", "pods", "-o", "jsonpath={.items[*].status.phase}")

    def create(pod: str) -> None:
        """As soon as the controllers have made the account that pods need."""
        created = lambda: "created" in kubectl("two", "run", pod, "--image", "any", check=False)  # noqa: E731
        wait_for_sync(f"pod {pod} to be created", created, pause=0.3, log=logs)

    create("first")
    wait_for_sync("a running pod", lambda: kubectl("two", *phase) == "Running", pause=0.3, log=logs)
    machines["one"].lose()
    create("second")
    wait_for_sync(
        "two running pods", lambda: kubectl("two", *phase) == "Running Running", pause=0.3, log=logs
    )
