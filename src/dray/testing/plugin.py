"""The fixtures for pytest. A test says with a marker what its cluster is like:

@pytest.mark.dray(release="1.34", gates={"DRAAdminAccess": True})
@pytest.mark.dray(release=["1.34", "1.36"])   # once for each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from dray.testing.client import SyncClient
    from dray.testing.environment import Cluster, Settings

_MARKER = "dray(nodes=3, devices=8, release='', gates={}, drivers=('gpu',), runtime='simulated'): the test's cluster"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A list of releases makes a test of each."""
    marker = metafunc.definition.get_closest_marker("dray")
    releases = marker.kwargs.get("release") if marker is not None else None
    if isinstance(releases, (list, tuple)) and "_dray_release" in metafunc.fixturenames:
        metafunc.parametrize("_dray_release", releases, indirect=True)


@pytest.fixture
def _dray_release(request: pytest.FixtureRequest) -> str:
    return str(getattr(request, "param", ""))


@pytest.fixture(scope="session")
def _dray_clusters() -> Iterator[Callable[[Settings], Cluster]]:
    """Clusters by their settings; each is started once and serves all tests that ask for the same."""
    from dray.testing.environment import Cluster

    with ExitStack() as stack:
        running: dict[Settings, Cluster] = {}

        def get(settings: Settings) -> Cluster:
            if settings not in running:
                running[settings] = Cluster(settings)
                running[settings].start()
                stack.callback(running[settings].stop)
            return running[settings]

        yield get


@pytest.fixture
def dray_cluster(
    request: pytest.FixtureRequest, _dray_clusters: Callable[[Settings], Cluster], _dray_release: str
) -> Cluster:
    """A cluster that tests with the same marker share; objects without a namespace stay until the end."""
    from dray.testing.environment import Settings

    marker = request.node.get_closest_marker("dray")
    chosen: dict[str, Any] = dict(marker.kwargs) if marker is not None else {}
    if _dray_release:
        chosen["release"] = _dray_release
    try:
        settings = Settings(**chosen)
    except TypeError as problem:
        raise pytest.UsageError(f"@pytest.mark.dray: {problem}; known is: {_MARKER}") from None
    return _dray_clusters(settings)


@pytest.fixture
def dray_namespace(dray_cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with dray_cluster.namespace() as name:
        yield name


@pytest.fixture
def dray_client(dray_cluster: Cluster) -> SyncClient:
    """The administrator's client."""
    return dray_cluster.client


@pytest.fixture
def dray_kubectl(dray_cluster: Cluster, dray_namespace: str) -> Callable[..., str]:
    """kubectl in the test's namespace: ``dray_kubectl("get", "pods")``."""

    def kubectl(*arguments: str, input: str = "", check: bool = True) -> str:
        return dray_cluster.kubectl("--namespace", dray_namespace, *arguments, input=input, check=check)

    return kubectl
