"""A real API server in a process of its own, and nodes and drivers beside it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import NODE_PROGRAM, NodeUnderTest, Program
from tests.support.process import DrayProcess, dray_process

API_SERVER = ("server", "--store", "memory", "--disable-admission-plugins", "ServiceAccount")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    with dray_process(tmp_path_factory.mktemp("server"), *API_SERVER) as started:
        yield started


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


@pytest.fixture
def make_node(server: DrayProcess, tmp_path: Path) -> Iterator[Callable[..., NodeUnderTest]]:
    with contextlib.ExitStack() as stack:

        def make(name: str, *, short: bool = False, **options: Any) -> NodeUnderTest:
            """``short``: for programs that, unlike ours, cannot work with long socket paths."""
            root = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="d"))) if short else tmp_path
            directory = root / name
            directory.mkdir()
            world = NodeUnderTest(server, directory, name, **options)
            stack.callback(world.stop)
            return world

        yield make
