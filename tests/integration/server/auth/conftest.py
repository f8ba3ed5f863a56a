"""A whole cluster as a user starts it, and a real kubectl for it, as one person or another."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.support.kubectl import Kubectl
from tests.support.process import dray_process


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[Kubectl]:
    data = tmp_path_factory.mktemp("cluster")
    with dray_process(data, "up", "--nodes", "1", "--devices", "2", "--store", "memory") as server:
        yield Kubectl(tool("kubectl-1.36"), server, tmp_path_factory.mktemp("cache"))
