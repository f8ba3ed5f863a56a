"""Whole clusters as processes, and a real kubectl for them."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.support.kubectl import Kubectl
from tests.support.node import API_SERVER, NODE_PROGRAM, Program
from tests.support.process import DrayProcess, dray_process


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
