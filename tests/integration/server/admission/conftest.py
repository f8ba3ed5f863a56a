"""A dray server as a user starts it, and a real kubectl for it."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.process import DrayProcess, dray_process


@dataclass(frozen=True)
class Cluster:
    server: DrayProcess
    binary: str

    def kubectl(self, *arguments: str, stdin: str | None = None, code: int = 0) -> str:
        """What kubectl prints, errors included."""
        done = subprocess.run(
            [self.binary, "--kubeconfig", str(self.server.kubeconfig), *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[Cluster]:
    """The API server alone, everything else out of the way, with an audit log."""
    data = tmp_path_factory.mktemp("admission")
    policy = data / "audit.yaml"
    policy.write_text(
        "apiVersion: audit.k8s.io/v1\n"
        "kind: Policy\n"
        "omitStages: [RequestReceived]\n"
        "rules:\n"
        "- level: RequestResponse\n"
        "  verbs: [create, update, patch, delete]\n"
    )
    options = (
        "--disable-admission-plugins", "ServiceAccount", "--store", "memory",
        "--audit-policy-file", str(policy), "--audit-log-path", str(Path(data) / "audit.log"),
    )  # fmt: skip
    with dray_process(data, "server", *options) as server:
        yield Cluster(server, tool("kubectl-1.36"))
