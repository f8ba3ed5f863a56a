"""What drivers report about the health of devices, and what the status of a pod says about it.

A report is good for a time. After that, and when the driver stops reporting, the health of a device is unknown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.api.claims import base_request
from dray.api.identity import PoolDevice
from dray.node.dra.claiminfo import PreparedDevice
from dray.node.dra.manager import Manager
from dray.node.dra.plugin import HealthReport

if TYPE_CHECKING:
    from dray.api.types.core import Container, Pod, ResourceHealth, ResourceStatus

#: Seconds for which a report counts, unless the driver says otherwise.
DEFAULT_TIMEOUT = 30.0
#: Seconds between looks for reports that have become stale.
HEALTH_PERIOD = 5.0


@dataclass(slots=True)
class _HealthInfo:
    health: str
    message: str
    at: float
    timeout: float


@dataclass(slots=True)
class HealthInfoCache:
    """The health of the devices of one node, by driver, pool and device."""

    clock: Callable[[], float] = time.time
    _devices: dict[str, dict[PoolDevice, _HealthInfo]] = field(default_factory=dict)

    def update(self, driver: str, reports: Sequence[HealthReport] | None) -> set[PoolDevice]:
        """Takes in a driver's whole report, or its silence (None). Returns the devices whose health has changed."""
        if reports is None:
            return set(self._devices.pop(driver, {}))
        now = self.clock()
        known = self._devices.setdefault(driver, {})
        changed = set()
        for report in reports:
            key = PoolDevice(report.pool, report.device)
            timeout = report.timeout or DEFAULT_TIMEOUT
            old = known.get(key)
            if old is None or (old.health, old.message, old.timeout) != (
                report.health,
                report.message,
                timeout,
            ):
                changed.add(key)
            known[key] = _HealthInfo(report.health, report.message, now, timeout)
        return changed

    def expire(self) -> dict[str, set[PoolDevice]]:
        """Forgets what has not been repeated in time; returns the devices concerned, by driver."""
        now = self.clock()
        out: dict[str, set[PoolDevice]] = {}
        for driver, known in self._devices.items():
            stale = {key for key, device in known.items() if now - device.at > device.timeout}
            if stale:
                out[driver] = stale
                for key in stale:
                    del known[key]
        return out

    async def expire_stale(self, changed: Callable[[str, Iterable[PoolDevice]], None]) -> None:
        """Forgets stale reports for as long as it runs, and tells which devices lost their health with them."""
        while True:
            await asyncio.sleep(HEALTH_PERIOD)
            for driver, devices in self.expire().items():
                changed(driver, devices)

    def get(self, driver: str, pool: str, device: str) -> tuple[str, str]:
        """Health and message."""
        known = self._devices.get(driver, {}).get(PoolDevice(pool, device))
        if known is None or self.clock() - known.at > known.timeout:
            return "Unknown", ""
        return known.health, known.message

    def container_status(self, pod: Pod, container: Container, manager: Manager) -> list[ResourceStatus]:
        """``allocatedResourcesStatus`` of a container: an entry for each of its claims, or requests of claims."""
        names = {c.name: c.claim for c in manager.claims_of(pod) if c.name}
        out: list[ResourceStatus] = []
        for entry in (container.get("resources") or {}).get("claims") or []:
            info = manager.claim(pod["metadata"]["namespace"], names.get(entry["name"], ""))
            if info is None:
                continue
            request = entry.get("request") or ""
            devices = info.devices_for(base_request(request))
            health = {r["resourceID"]: r for driver, device in devices for r in [self._entry(driver, device)]}
            if health:
                name = f"claim:{entry['name']}/{request}" if request else f"claim:{entry['name']}"
                out.append({"name": name, "resources": list(health.values())})
        return out

    def _entry(self, driver: str, device: PreparedDevice) -> ResourceHealth:
        health, message = self.get(driver, device.pool, device.name)
        own = f"{driver}/{device.pool}/{device.name}"
        out: ResourceHealth = {"resourceID": device.cdi_ids[0] if device.cdi_ids else own, "health": health}
        if message:
            out["message"] = message
        return out
