"""Real clients against a real dray."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.kubectl import KUBECTLS, Kubectl
from tests.support.process import DrayProcess, dray_process


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
    return Kubectl(tool(request.param), api_server, tmp_path_factory.getbasetemp() / f"cache-{request.param}")


@pytest.fixture
def namespace(kubectl: Kubectl, request: pytest.FixtureRequest) -> str:
    """A namespace of this test's own."""
    import uuid

    name = f"t-{uuid.uuid4().hex[:10]}"
    kubectl("create", "namespace", name)
    return name
