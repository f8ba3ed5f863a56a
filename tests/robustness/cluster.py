"""A cluster on several machines: etcd and an API server on each of three, two schedulers, two controllers, nodes."""

from __future__ import annotations

import json
import ssl
import subprocess
import urllib.request
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.support.components import ComponentProcess
from tests.support.paths import DRAY
from tests.support.process import is_ready
from tests.support.wait import wait_for_sync

from .network import Machine, Network

TOKEN = "robustness"
MACHINES = ("one", "two", "three")
LOAD = "load"
_UNVERIFIED = ssl._create_unverified_context()


@dataclass
class Cluster:
    """The parts by kind, each a process that can be killed, paused and started again."""

    data: Path
    etcd_binary: str
    nodes: int
    network: Network = field(default_factory=lambda: Network(*MACHINES, LOAD))
    etcd: list[ComponentProcess] = field(default_factory=list)
    servers: list[ComponentProcess] = field(default_factory=list)
    schedulers: list[ComponentProcess] = field(default_factory=list)
    controllers: list[ComponentProcess] = field(default_factory=list)
    others: list[ComponentProcess] = field(default_factory=list)
    down: list[ComponentProcess] = field(default_factory=list)  # by a fault, which starts them again

    @property
    def machines(self) -> list[Machine]:
        return [self.network.machines[name] for name in MACHINES]

    @property
    def urls(self) -> list[str]:
        return [f"https://{machine.address}:6443" for machine in self.machines]

    @property
    def kubeconfigs(self) -> list[Path]:
        return [self.data / f"kubeconfig-{name}" for name in MACHINES]

    @property
    def killable(self) -> list[ComponentProcess]:
        return [*self.etcd, *self.servers, *self.schedulers, *self.controllers, *self.others]

    def __enter__(self) -> Cluster:
        self.network.__enter__()
        try:
            self.network.enter(LOAD)
            self._start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (*self.others, *self.controllers, *self.schedulers, *self.servers, *self.etcd):
            part.resume()
            part.stop()
        for machine in self.machines:
            subprocess.run(["umount", str(self._disk(machine))], capture_output=True, check=False)
        self.network.__exit__(kind, error, trace)

    def _start(self) -> None:
        members = ",".join(f"{machine.name}=http://{machine.address}:2380" for machine in self.machines)
        for machine in self.machines:
            self.etcd.append(self._part("etcd", machine, self._member(machine, members)))
            self.etcd[-1].start()
        store = "etcd://" + ",".join(f"{machine.address}:2379" for machine in self.machines)
        for machine, kubeconfig in zip(self.machines, self.kubeconfigs, strict=True):
            line = [
                "server", "--listen", f"{machine.address}:6443", "--data", str(self.data / f"server-{machine.name}"),
                "--kubeconfig", str(kubeconfig), "--admin-token", TOKEN, "--store", store,
                "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
            ]  # fmt: skip
            self.servers.append(self._part("server", machine, (str(DRAY), *line)))
            self.servers[-1].start()
        for server, url in zip(self.servers, self.urls, strict=True):
            wait_for_sync(
                f"{server.name} to be ready", lambda url=url: is_ready(url),
                log=server.log.read_text, alive=lambda server=server: server.running,
            )  # fmt: skip
        for kind, parts in (("scheduler", self.schedulers), ("controllers", self.controllers)):
            for machine, kubeconfig in list(zip(self.machines, self.kubeconfigs, strict=True))[:2]:
                parts.append(self._part(kind, machine, (str(DRAY), kind, "--kubeconfig", str(kubeconfig))))
        nodes = (
            "node", "--kubeconfig", str(self.kubeconfigs[2]), "--simulated", str(self.nodes),
            "--name", "n", "--root", str(self.data / "node"),
        )  # fmt: skip
        self.others.append(self._part("nodes", self.machines[2], (str(DRAY), *nodes)))
        for part in (*self.schedulers, *self.controllers, *self.others):
            part.start()

    def _disk(self, machine: Machine) -> Path:
        return self.data / f"disk-{machine.name}"

    def _member(self, machine: Machine, members: str) -> Sequence[str]:
        """etcd with a small disk of its own, so that it can be filled."""
        disk = self._disk(machine)
        disk.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=512m", "tmpfs", str(disk)], check=True)
        client, peer = f"http://{machine.address}:2379", f"http://{machine.address}:2380"
        return (
            self.etcd_binary, f"--name={machine.name}", f"--data-dir={disk / 'etcd'}",
            f"--listen-client-urls={client}", f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={members}", "--snapshot-count=10000", "--max-wals=2", "--max-snapshots=2",
            "--heartbeat-interval=50", "--election-timeout=500",
        )  # fmt: skip

    def fill_disk(self, machine: Machine) -> None:
        with (self._disk(machine) / "filler").open("wb") as filler:
            try:
                while True:
                    filler.write(b"\0" * (1 << 20))
                    filler.flush()
            except OSError:
                return  # full

    def clear_disk(self, machine: Machine) -> None:
        (self._disk(machine) / "filler").unlink(missing_ok=True)

    def ask_etcd(self, machine: Machine, path: str, body: Any) -> Any:
        """etcd's own answer, by its JSON gateway."""
        request = urllib.request.Request(
            f"http://{machine.address}:2379/v3/{path}", json.dumps(body).encode()
        )
        with urllib.request.urlopen(request, timeout=5) as answer:
            return json.load(answer)

    def holder(self, lease: str) -> str:
        """Who leads by this Lease; "" while no server says."""
        for url in self.urls:
            with suppress(OSError, ValueError):
                request = urllib.request.Request(
                    f"{url}/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{lease}",
                    headers={"Authorization": f"Bearer {TOKEN}"},
                )
                with urllib.request.urlopen(request, timeout=5, context=_UNVERIFIED) as answer:
                    return json.load(answer)["spec"].get("holderIdentity") or ""
        return ""

    def _part(self, kind: str, machine: Machine, line: Sequence[str]) -> ComponentProcess:
        name = f"{kind}-{machine.name}"
        return ComponentProcess(name, machine.command(*line), self.data / f"{name}.log")
