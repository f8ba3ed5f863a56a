"""Whole clusters as processes, a real kubectl for them, and real etcds."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.etcd import Etcd
from tests.support.kubectl import Kubectl
from tests.support.node import API_SERVER, NODE_PROGRAM, Program
from tests.support.process import DrayProcess, dray_process

#: The binary, in ``.tools/bin`` or on the ``PATH``, that tests start: ``DRAY_TEST_ETCD=etcd-3.6`` tries another version.
ETCD = os.environ.get("DRAY_TEST_ETCD", "etcd")


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, tool: Callable[[str], str]) -> Iterator[Kubectl]:
    """A whole cluster as a user starts it."""
    data = tmp_path_factory.mktemp("cluster")
    with dray_process(data, "up", "--nodes", "1", "--devices", "2", "--store", "memory") as server:
        yield Kubectl(tool("kubectl-1.36"), server, tmp_path_factory.mktemp("cache"))


@pytest.fixture(scope="session")
def start_cluster(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Callable[[str], tuple[DrayProcess, Path]]]:
    """Starts an API server and, in another process, everything else of a cluster with the drivers of a profile."""
    with contextlib.ExitStack() as stack:

        def start(profile: str) -> tuple[DrayProcess, Path]:
            directory = tmp_path_factory.mktemp(profile)
            server = stack.enter_context(dray_process(directory / "data", *API_SERVER))
            program = Program(
                *(*NODE_PROGRAM, "cluster", str(server.kubeconfig), str(directory), "las", profile),
                log=directory / "cluster.log",
            )
            stack.callback(program.stop)
            program.wait_ready()
            return server, directory

        yield start


@pytest.fixture(scope="session")
def etcd_binary(tool: Callable[[str], str]) -> str:
    return tool(ETCD)


@pytest.fixture(scope="session")
def etcd(etcd_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Etcd]:
    server = Etcd(etcd_binary, tmp_path_factory.mktemp("etcd"))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def fresh_etcd(etcd_binary: str, tmp_path: Path) -> Iterator[Etcd]:
    """An etcd that a test may stop and start."""
    server = Etcd(etcd_binary, tmp_path)
    server.start()
    yield server
    server.stop()


@pytest.fixture
def etcd_cluster(etcd_binary: str, tmp_path: Path) -> Iterator[list[Etcd]]:
    """Three members, any of which a test may stop."""
    members = [Etcd(etcd_binary, tmp_path, name=name) for name in ("one", "two", "three")]
    for member in members:
        member.launch(*(other for other in members if other is not member))
    for member in members:
        member.wait()
    yield members
    for member in members:
        member.stop()
