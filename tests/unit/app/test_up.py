"""Which drivers a cluster starts, and what becomes of a component that fails."""

from __future__ import annotations

import asyncio
import errno

import pytest

from dray.api.release import EffectiveVersion
from dray.app import up
from dray.app.options import OptionError
from dray.app.quirks import Quirks
from dray.app.up import DRIVERS, Component, check_drivers, default_drivers
from dray.backoff import Backoff


@pytest.mark.parametrize(
    ("emulate", "drivers"),
    [
        ("1.26", ["cats"]),
        ("1.27", ["cats"]),
        ("1.30", ["cats"]),
        ("1.32", ["gpu", "cats"]),
        ("1.36", ["gpu", "cats"]),
        ("", ["gpu", "cats"]),
    ],
)
def test_the_drivers_fit_the_release(emulate: str, drivers: list[str]) -> None:
    assert default_drivers(Quirks.of(EffectiveVersion.parse(emulate))) == drivers
    check_drivers(drivers, emulate)


@pytest.mark.parametrize(("emulate", "driver"), [("", "dogs"), ("1.30", "gpu"), ("1.99", "cats")])
def test_what_does_not_fit_is_refused(emulate: str, driver: str) -> None:
    with pytest.raises(OptionError):
        check_drivers([driver], emulate)


def test_the_names_of_the_drivers_are_those_that_they_have_themselves() -> None:
    from dray.drivers.cats import CatsDriver
    from dray.drivers.gpu import GpuDriver
    from dray.drivers.nic import NicDriver

    assert {short: one.name for short, one in DRIVERS.items()} == {
        "gpu": GpuDriver.name,
        "nic": NicDriver.name,
        "cats": CatsDriver.name,
    }


async def test_a_component_that_fails_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(up, "RESTART_BACKOFF", Backoff(initial=0.001))
    starts, running = [], asyncio.Event()

    async def run(cluster: object, ready: up.Ready) -> None:
        starts.append(cluster)
        ready()
        if len(starts) < 3:
            raise OSError(errno.EMFILE, "too many open files")
        running.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(up._supervised(Component("c", run), object(), asyncio.Event()))
    await asyncio.wait_for(running.wait(), 5)
    assert len(starts) == 3 and not task.done()
    task.cancel()


async def test_a_component_that_cannot_be_started_ends_the_cluster() -> None:
    async def run(cluster: object, ready: up.Ready) -> None:
        raise OSError(errno.ENOENT, "no such socket")

    with pytest.raises(OSError, match="no such socket"):
        await up._supervised(Component("c", run), object(), asyncio.Event())
