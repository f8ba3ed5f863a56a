"""``api`` is a small API server in memory."""

from __future__ import annotations

import pytest

from tests.support.fake_api import FakeAPIServer


@pytest.fixture
def api() -> FakeAPIServer:
    return FakeAPIServer()
