"""``api`` is a small API server in memory."""

from __future__ import annotations

import pytest

from tests.support.fake_api import FakeApi


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()
