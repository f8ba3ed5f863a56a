"""A real API server in a process of its own, and nodes and drivers beside it."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.node import API_SERVER, NodeUnderTest
from tests.support.process import DrayProcess, dray_process


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DrayProcess]:
    with dray_process(tmp_path_factory.mktemp("server"), *API_SERVER) as started:
        yield started


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
