"""Which drivers a cluster starts, and what becomes of a component that fails."""

from __future__ import annotations

import asyncio
import errno
from types import SimpleNamespace

import pytest

from dray.api.release import EffectiveVersion
from dray.app import up
from dray.app.options import OptionError
from dray.app.quirks import Quirks
from dray.app.up import (
    CONTROL_PLANE,
    DRIVERS,
    Component,
    check_drivers,
    check_without,
    components,
    default_drivers,
)
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


@pytest.mark.parametrize("without", [(), ("scheduler",), ("controllers",), ("scheduler", "controllers")])
def test_what_others_run_is_not_started(without: tuple[str, ...]) -> None:
    check_without(without, ())
    options = SimpleNamespace(without=without, nodes=0)
    started = components(SimpleNamespace(options=options, dashboard=None))
    assert [component.name for component in started] == [
        name for name in CONTROL_PLANE if name not in without
    ]


@pytest.mark.parametrize(
    ("without", "scheduler_flags", "line"),
    [
        (("nodes",), (), "--without nodes: a cluster can do without scheduler and controllers; --nodes 0"),
        (("scheduler", "server"), (), "--without server: a cluster can do without scheduler and controllers"),
        (("scheduler",), ("--device-preemption",), "no scheduler is there to heed --device-preemption"),
    ],
)
def test_what_a_cluster_needs_cannot_be_left_out(
    without: tuple[str, ...], scheduler_flags: tuple[str, ...], line: str
) -> None:
    with pytest.raises(OptionError, match=line):
        check_without(without, scheduler_flags)


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
