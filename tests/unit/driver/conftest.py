"""``api`` is a small API server in memory, ``fake_api`` makes others."""

from __future__ import annotations

import pytest

from tests.support.fake_api import FakeApi


@pytest.fixture
def fake_api() -> type[FakeApi]:
    return FakeApi


@pytest.fixture
def api() -> FakeApi:
    return FakeApi()
