"""Device health: what is reported, and for how long it counts."""

from __future__ import annotations

from dray.node.dra.healthinfo import HealthInfoCache
from dray.node.dra.plugin import HealthReport


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def report(device: str, health: str = "Healthy", message: str = "", timeout: float = 0) -> HealthReport:
    return HealthReport("pool", device, health, message, timeout)


def test_update_returns_the_devices_whose_health_changed() -> None:
    health = HealthInfoCache(Clock())
    assert health.update("d", [report("a"), report("b")]) == {("pool", "a"), ("pool", "b")}
    assert health.update("d", [report("a"), report("b")]) == set()
    assert health.update("d", [report("a"), report("b", "Unhealthy", "hot")]) == {("pool", "b")}
    assert health.get("d", "pool", "b") == ("Unhealthy", "hot")
    assert health.get("d", "pool", "never") == ("Unknown", "")


def test_reports_count_for_thirty_seconds_or_as_the_driver_says() -> None:
    clock = Clock()
    health = HealthInfoCache(clock)
    health.update("d", [report("a"), report("b", timeout=100)])
    clock.now += 31
    assert health.get("d", "pool", "a") == ("Unknown", "")
    assert health.get("d", "pool", "b") == ("Healthy", "")
    assert health.expire() == {"d": {("pool", "a")}}
    assert health.expire() == {}
    clock.now += 100
    assert health.expire() == {"d": {("pool", "b")}}


def test_health_is_unknown_when_the_driver_stops_reporting() -> None:
    health = HealthInfoCache(Clock())
    health.update("d", [report("a")])
    assert health.update("d", None) == {("pool", "a")}
    assert health.get("d", "pool", "a") == ("Unknown", "")
