"""``api`` is a small API server in memory, ``fake_api`` makes others."""

from __future__ import annotations

import pytest

from tests.support.fake_api import FakeAPIServer


@pytest.fixture
def fake_api() -> type[FakeAPIServer]:
    return FakeAPIServer


@pytest.fixture
def api() -> FakeAPIServer:
    return FakeAPIServer()
