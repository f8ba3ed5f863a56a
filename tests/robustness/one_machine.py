"""A cluster on one machine with SQLite, whose API server loses power: what it had not synced may be gone."""

from __future__ import annotations

import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from tests.support.components import ComponentProcess
from tests.support.paths import DRAY
from tests.support.process import free_port, is_ready
from tests.support.wait import wait_for_sync

from . import powerloss

TOKEN = "robustness"
COMPACTING = (sys.executable, "-m", "tests.robustness.compacting_server")


@dataclass
class OneMachine:
    data: Path
    nodes: int
    servers: list[ComponentProcess] = field(default_factory=list)
    schedulers: list[ComponentProcess] = field(default_factory=list)
    controllers: list[ComponentProcess] = field(default_factory=list)
    others: list[ComponentProcess] = field(default_factory=list)
    down: list[ComponentProcess] = field(default_factory=list)  # by a fault, which starts them again
    lost: int = 0

    def __post_init__(self) -> None:
        self.urls = [f"https://127.0.0.1:{free_port()}"]
        self._store = self.data / "store"
        self._journal = self.data / "journal"

    def __enter__(self) -> OneMachine:
        self._store.mkdir()
        self._layer = {
            "LD_PRELOAD": str(powerloss.build(self.data)),
            "POWERLOSS_DIRECTORY": str(self._store),
            "POWERLOSS_JOURNAL": str(self._journal),
        }
        kubeconfig = str(self.data / "kubeconfig")
        self.servers = [
            self._part(
                "server", "--listen", self.urls[0].removeprefix("https://"), "--data", str(self.data / "server"),
                "--store", f"sqlite:{self._store / 'store.db'}", "--kubeconfig", kubeconfig, "--admin-token", TOKEN,
                "--disable-admission-plugins", "ServiceAccount,TaintNodesByCondition",
            )
        ]  # fmt: skip
        self.start_server()
        wait_for_sync(
            "the API server to be ready", lambda: is_ready(self.urls[0]),
            log=self.servers[0].log.read_text, alive=lambda: self.servers[0].running,
        )  # fmt: skip
        self.schedulers = [self._part("scheduler", "--kubeconfig", kubeconfig)]
        self.controllers = [self._part("controllers", "--kubeconfig", kubeconfig)]
        root = str(self.data / "node")
        self.others = [
            self._part(
                "node",
                "--kubeconfig",
                kubeconfig,
                "--simulated",
                str(self.nodes),
                "--name",
                "n",
                "--root",
                root,
            )
        ]
        for part in (*self.schedulers, *self.controllers, *self.others):
            part.start()
        return self

    def start_server(self) -> None:
        self.servers[0].start(self._layer)

    def lose_power(self, rng: random.Random) -> None:
        self.servers[0].kill()
        self.lost += powerloss.lose(self._journal, rng)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for part in (*self.others, *self.controllers, *self.schedulers, *self.servers):
            part.stop()

    def _part(self, kind: str, *line: str) -> ComponentProcess:
        program = COMPACTING if kind == "server" else (str(DRAY),)
        return ComponentProcess(kind, (*program, kind, *line), self.data / f"{kind}.log")


@asynccontextmanager
async def power_loss(cluster: OneMachine, rng: random.Random) -> AsyncIterator[str]:
    """The server ends, and the disk has lost some of what was not synced."""
    cluster.lose_power(rng)
    try:
        yield "server"
    finally:
        cluster.start_server()


@asynccontextmanager
async def kill(cluster: OneMachine, rng: random.Random) -> AsyncIterator[str]:
    """kill -9 of the scheduler, the controllers or the nodes."""
    part = rng.choice([*cluster.schedulers, *cluster.controllers, *cluster.others])
    cluster.down.append(part)
    part.kill()
    try:
        yield part.name
    finally:
        part.start()
        cluster.down.remove(part)


FAULTS = {"power loss": (power_loss, 4), "kill": (kill, 1)}
