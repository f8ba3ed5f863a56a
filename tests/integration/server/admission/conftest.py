"""A dray server as a user starts it, and a real kubectl for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.process import dray_process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[Kubectl]:
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
        yield Kubectl(tool("kubectl-1.36"), server, tmp_path_factory.mktemp("cache"))
