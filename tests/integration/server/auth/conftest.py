"""A whole cluster as a user starts it, and a real kubectl for it, as one person or another."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.support.process import DrayProcess, dray_process


@dataclass(frozen=True)
class Cluster:
    server: DrayProcess
    binary: str
    cache: Path
    who: tuple[str, ...] = field(default=())  # arguments that make kubectl somebody else

    def acting(self, *who: str) -> Cluster:
        return Cluster(self.server, self.binary, self.cache, who)

    def bearing(self, token: str) -> Cluster:
        """With a token and nothing else: no certificate of the administrator's."""
        bare = self.cache / f"bare-{abs(hash(token))}"
        config = json.loads(self.kubectl("config", "view", "--raw", "--minify", "-o", "json"))
        config["users"][0]["user"] = {"token": token} if token else {}
        bare.write_text(json.dumps(config))
        return self.acting("--kubeconfig", str(bare))

    def kubectl(self, *arguments: str, stdin: str | None = None, code: int | None = 0) -> str:
        """What kubectl prints, errors included. ``code`` is the exit code to insist on."""
        who = (
            self.who
            if "--kubeconfig" in self.who
            else ("--kubeconfig", str(self.server.kubeconfig), *self.who)
        )
        done = subprocess.run(
            [self.binary, *who, "--cache-dir", str(self.cache), *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if code is not None:
            assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def get(self, *arguments: str) -> Any:
        return json.loads(self.kubectl("get", *arguments, "-o", "json"))

    def apply(self, *objects: dict[str, Any], code: int = 0) -> str:
        listed = {"apiVersion": "v1", "kind": "List", "items": list(objects)}
        return self.kubectl("apply", "-f", "-", stdin=json.dumps(listed), code=code)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[Cluster]:
    data = tmp_path_factory.mktemp("cluster")
    with dray_process(data, "up", "--nodes", "1", "--devices", "2", "--store", "memory") as server:
        yield Cluster(server, tool("kubectl-1.36"), tmp_path_factory.mktemp("cache"))
