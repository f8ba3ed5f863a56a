"""The fixtures for pytest. A test says with a marker what its cluster is like:

@pytest.mark.dray(release="1.34", gates={"DRAAdminAccess": True})
@pytest.mark.dray(release=["1.34", "1.36"])   # once for each
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from dray.testing.client import SyncClient
    from dray.testing.environment import Cluster, Settings

_MARKER = (
    "dray(nodes=3, devices=8, release='', gates={}, drivers=('gpu',), runtime='simulated', fake_clock=False): "
    "the test's cluster"
)


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARKER)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The marker's settings become the parameter of ``dray_cluster``; a list of releases makes a test of each."""
    marker = metafunc.definition.get_closest_marker("dray")
    if marker is None or "dray_cluster" not in metafunc.fixturenames:
        return
    releases = marker.kwargs.get("release", "")
    if isinstance(releases, (list, tuple)):
        chosen = [
            pytest.param({**marker.kwargs, "release": release}, id=str(release)) for release in releases
        ]
    else:
        chosen = [pytest.param(marker.kwargs, id=pytest.HIDDEN_PARAM)]
    metafunc.parametrize("dray_cluster", chosen, indirect=True, scope="session")


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


@pytest.fixture(scope="session")
def dray_cluster(request: pytest.FixtureRequest, _dray_clusters: Callable[[Settings], Cluster]) -> Cluster:
    """A cluster that tests with the same marker share; objects without a namespace stay until the end."""
    from dray.testing.environment import Settings

    try:
        settings = Settings(**getattr(request, "param", {}))
    except TypeError as problem:
        raise pytest.UsageError(f"@pytest.mark.dray: {problem}; known is: {_MARKER}") from None
    return _dray_clusters(settings)


@pytest.fixture
def dray_namespace(dray_cluster: Cluster) -> Iterator[str]:
    """A namespace of the test's own."""
    with dray_cluster.namespace() as name:
        yield name


@pytest.fixture(scope="session")
def dray_client(dray_cluster: Cluster) -> SyncClient:
    """The administrator's client."""
    return dray_cluster.client


@pytest.fixture
def dray_kubectl(dray_cluster: Cluster, dray_namespace: str) -> Callable[..., str]:
    """kubectl in the test's namespace: ``dray_kubectl("get", "pods")``."""

    def kubectl(*arguments: str, input: str = "", check: bool = True) -> str:
        return dray_cluster.kubectl("--namespace", dray_namespace, *arguments, input=input, check=check)

    return kubectl
