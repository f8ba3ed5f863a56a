"""The parts of a cluster as processes of their own, which know each other by nothing but a kubeconfig."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.support.paths import DRAY
from tests.support.process import free_port, is_ready
from tests.support.wait import wait_for_sync

_CONFIGURATION = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  resourceName: {name}
profiles:
- schedulerName: {name}
"""


@dataclass
class ComponentProcess:
    """One process, which can be killed and started again."""

    name: str
    command: Sequence[str]
    log: Path
    kills: int = 0
    _process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        return self._process.pid if self._process is not None else 0

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self, environment: Mapping[str, str] | None = None) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, "NO_COLOR": "1", **(environment or {})},
            )

    @property
    def lost_leadership(self) -> bool:
        """Whether it has ended because another one leads, as it must: whoever started it starts it again."""
        ended = self._process is not None and self._process.poll() not in (None, -signal.SIGKILL)
        return ended and "no longer holds" in self.log.read_text().rstrip().rpartition("\n")[2]

    def kill(self) -> None:
        """As by the kernel when memory runs out: no goodbye, nothing written that was not written yet."""
        if self._process is None:
            return
        with suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        self._process.wait()
        self.kills += 1

    def pause(self) -> None:
        """As on a machine that is out of breath: the process is there and does nothing."""
        self._signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._signal(signal.SIGCONT)

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.running:
            self._process.send_signal(number)

    def stop(self) -> None:
        if self._process is None or not self.running:
            return
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class ClusterProcesses:
    """API server, nodes, controllers and schedulers: so many with names of their own, and each of them so often."""

    data: Path
    nodes: int
    schedulers: int = 1
    replicas: int = 1  # of which one leads
    emulate: str = ""  # a release that all parts stand in for
    store: str = "sqlite"
    killable: list[ComponentProcess] = field(default_factory=list)  # those that are killed
    _others: list[ComponentProcess] = field(default_factory=list)

    @property
    def scheduler_names(self) -> list[str]:
        return ["default-scheduler", *(f"scheduler-{i}" for i in range(1, self.schedulers))]

    @property
    def kubeconfig(self) -> Path:
        return self.data / "kubeconfig"

    def __enter__(self) -> ClusterProcesses:
        url = f"https://127.0.0.1:{free_port()}"
        release = ["--emulate", self.emulate] if self.emulate else []
        server = self._part(
            "server",
            ["server", "--listen", url.removeprefix("https://"), "--data", str(self.data / "server"),
             "--kubeconfig", str(self.kubeconfig), "--admin-token", "chaos", "--store", self.store,
             "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition", *release],
        )  # fmt: skip
        self._others.append(server)
        server.start()
        wait_for_sync(
            "the API server to be ready", lambda: is_ready(url),
            log=server.log.read_text, alive=lambda: server.running,
        )  # fmt: skip
        known = ["--kubeconfig", str(self.kubeconfig)]
        nodes = [
            "node",
            *known,
            "--simulated",
            str(self.nodes),
            "--name",
            "n",
            "--root",
            str(self.data / "node"),
        ]
        self._others.append(self._part("nodes", nodes))
        for name in self.scheduler_names:
            (self.data / f"{name}.yaml").write_text(_CONFIGURATION.format(name=name))
            command = ["scheduler", *known, *release, "--config", str(self.data / f"{name}.yaml")]
            self.killable += [self._part(f"{name}-{i}", command) for i in range(self.replicas)]
        self.killable += [
            self._part(f"controllers-{i}", ["controllers", *known, *release]) for i in range(self.replicas)
        ]
        for part in (*self._others[1:], *self.killable):
            part.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (*self.killable, *reversed(self._others)):
            part.stop()

    def supervise(self) -> None:
        """Start those again that ended because another one leads: a process that gets no CPU for long loses its lease."""
        for part in self.killable:
            if part.lost_leadership:
                part.start()

    def died(self) -> list[str]:
        """Who is not there though nobody killed it."""
        return [part.name for part in (*self._others, *self.killable) if not part.running]

    def _part(self, name: str, command: Sequence[str]) -> ComponentProcess:
        return ComponentProcess(name, [str(DRAY), *command], self.data / f"{name}.log")
