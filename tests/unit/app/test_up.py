"""Which drivers a cluster starts."""

from __future__ import annotations

import pytest

from dray.api.release import EffectiveVersion
from dray.app.options import OptionError
from dray.app.quirks import Quirks
from dray.app.up import DRIVERS, check_drivers, default_drivers


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
