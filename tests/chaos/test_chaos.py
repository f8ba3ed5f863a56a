"""Short runs of chaos; ``make chaos`` has the long one."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from .history import History
from .run import Changes, Options, run


@pytest.mark.parametrize(
    ("seed", "schedulers", "replicas"),
    [
        pytest.param(11, 1, 1, id="one of each"),
        pytest.param(12, 2, 1, id="two schedulers at work"),
        pytest.param(13, 1, 2, id="one leads and one waits"),
    ],
)
def test_devices_are_safe_whoever_is_killed(
    tmp_path: Path, seed: int, schedulers: int, replicas: int
) -> None:
    options = Options(
        data=tmp_path,
        seed=seed,
        pods=80,
        nodes=4,
        live=22,
        schedulers=schedulers,
        replicas=replicas,
        pause=(0.3, 1.2),
        lives=12,
        patience=60,
    )
    report = asyncio.run(run(options))
    assert report.violations == [], report
    assert report.created == 80
    assert report.allocations > 40


@pytest.mark.parametrize("turns", range(5))
async def test_a_wait_ends_when_it_is_cancelled_however_close_to_a_change(turns: int) -> None:
    changes = Changes()

    async def wait_on_and_on() -> None:
        while True:
            await changes.wait(seconds=60)

    waiting = asyncio.create_task(wait_on_and_on())
    await asyncio.sleep(0)
    changes.note(None)
    for _ in range(turns):
        await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting], timeout=1)
    assert waiting.cancelled()


def claim(name: str, *devices: str, version: int = 1) -> dict[str, object]:
    results = [{"driver": "d", "pool": "p", "device": device, "request": "r"} for device in devices]
    return {
        "metadata": {"uid": name, "name": name, "namespace": "default", "resourceVersion": str(version)},
        "status": {"allocation": {"devices": {"results": results}}} if devices else {},
    }


def test_the_check_sees_a_device_that_two_have() -> None:
    history = History()
    history.record("ADDED", claim("a", "x"))
    history.record("ADDED", claim("b", "y"))
    assert history.violations == []
    history.record("MODIFIED", claim("b", "x", version=7))
    assert history.violations == ["d/p/x was given to default/b at revision 7 while default/a had it"]


def test_the_check_knows_what_was_given_back() -> None:
    history = History()
    history.record("ADDED", claim("a", "x"))
    history.record("MODIFIED", claim("a"))
    history.record("ADDED", claim("b", "x"))
    history.record("DELETED", claim("b", "x"))
    history.record("ADDED", claim("c", "x"))
    assert history.violations == [] and history.held == 1
