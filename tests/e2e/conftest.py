"""Real clients against a real dray."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from tests.support.process import DrayProcess, dray_process

KUBECTLS = ("kubectl-1.27", "kubectl-1.36")


class Kubectl(Protocol):
    def __call__(
        self, *arguments: str, stdin: str | None = None, code: int | None = 0, merged: bool = False
    ) -> str: ...


def kubectl_for(binary: str, server: DrayProcess, cache: Path) -> Kubectl:
    def kubectl(*arguments: str, stdin: str | None = None, code: int | None = 0, merged: bool = False) -> str:
        """Run kubectl; its standard output, or with ``merged`` its errors too. ``code`` is the exit code to insist on."""
        done = subprocess.run(
            [binary, "--kubeconfig", str(server.kubeconfig), "--cache-dir", str(cache), *arguments],
            input=stdin, capture_output=True, text=True, timeout=60, check=False,
        )  # fmt: skip
        if code is not None:
            assert done.returncode == code, f"kubectl {' '.join(arguments)}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr if merged else done.stdout

    return kubectl


@pytest.fixture(scope="session")
def api_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    """The API server alone."""
    with dray_process(tmp_path_factory.mktemp("server"), "server") as server:
        yield server


@pytest.fixture(params=KUBECTLS)
def kubectl(
    request: pytest.FixtureRequest,
    tool: Callable[[str], str],
    api_server: DrayProcess,
    tmp_path_factory: pytest.TempPathFactory,
) -> Kubectl:
    """The oldest and the newest kubectl, each with a namespace-free view of the same API server."""
    return kubectl_for(
        tool(request.param), api_server, tmp_path_factory.getbasetemp() / f"cache-{request.param}"
    )


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    """A namespace of this test's own."""
    import uuid

    name = f"t-{uuid.uuid4().hex[:10]}"
    kubectl("create", "namespace", name)
    return name
