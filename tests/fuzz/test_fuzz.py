"""Short runs of every fuzz target; ``make fuzz`` has the long ones."""

from __future__ import annotations

import pytest

from .targets import TARGETS, Target, run


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
async def test_nothing_that_others_send_crashes_its_reader(target: Target) -> None:
    assert await run(target, seed=16, steps=target.steps) == target.steps
