"""``server`` is a small API server in memory, ``client`` a client of it, ``timers`` a clock for queues."""

from __future__ import annotations

import pytest

from dray.client.client import Client
from tests.support.clock import FakeTimers
from tests.support.fake_api import FakeAPIServer


@pytest.fixture
def server() -> FakeAPIServer:
    return FakeAPIServer()


@pytest.fixture
def client(server: FakeAPIServer) -> Client:
    return server.client


@pytest.fixture
def timers() -> FakeTimers:
    return FakeTimers()


@pytest.fixture
def now() -> list[float]:
    """The time that a recorder's clock shows, which a test may change."""
    return [1000.0]
