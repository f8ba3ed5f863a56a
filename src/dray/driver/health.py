"""Device health: the driver reports it, and every kubelet that watches is sent all reports again and again.

A kubelet forgets a report after a time-out, so the service repeats all reports well before that.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from enum import IntEnum
from typing import Any, NamedTuple

from dray.api.identity import PoolDevice
from dray.kubelet_api.services import HEALTH_V1ALPHA1

#: Seconds between repetitions.
REPEAT_PERIOD = 10.0


class Health(IntEnum):
    UNKNOWN = 0
    HEALTHY = 1
    UNHEALTHY = 2


class Report(NamedTuple):
    health: Health
    message: str = ""
    timeout: int = 0  # seconds after which the report is stale; 0 leaves it to the kubelet


class HealthService:
    """The latest report of every device, and the gRPC service that streams it."""

    def __init__(self, *, clock: Callable[[], float] = time.time, repeat: float = REPEAT_PERIOD) -> None:
        self._reports: dict[PoolDevice, Report] = {}
        self._changed = asyncio.Event()
        self._clock = clock
        self._repeat = repeat

    def set(self, pool: str, device: str, report: Report) -> None:
        id = PoolDevice(pool, device)
        if self._reports.get(id) != report:
            self._reports[id] = report
            self._wake()

    def forget(self, pool: str, device: str) -> None:
        if self._reports.pop(PoolDevice(pool, device), None):
            self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def NodeWatchResources(self, request: Any, context: Any) -> AsyncIterator[Any]:
        while True:
            changed = self._changed
            yield self._message()
            try:
                async with asyncio.timeout(self._repeat):
                    await changed.wait()
            except TimeoutError:
                continue

    def _message(self) -> Any:
        messages = HEALTH_V1ALPHA1.module
        now = int(self._clock())
        return messages.NodeWatchResourcesResponse(
            devices=[
                messages.DeviceHealth(
                    device=messages.DeviceIdentifier(pool_name=pool, device_name=device),
                    health=int(report.health),
                    last_updated_time=now,
                    health_check_timeout_seconds=report.timeout,
                    message=report.message,
                )
                for (pool, device), report in self._reports.items()
            ]
        )
