"""A bound on requests in flight: beyond it clients are asked to come back later. Long-running requests do not count."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from dray.api.errors import TooManyRequests
from dray.server.metrics import Metrics
from dray.server.routing import Target

_READS = frozenset({"get", "list", "watch"})


class InFlight:
    def __init__(self, metrics: Metrics, *, reading: int = 400, writing: int = 400) -> None:
        self._metrics = metrics
        self._limits = {"readOnly": reading, "mutating": writing}
        self.current = {"readOnly": 0, "mutating": 0}

    @contextmanager
    def admit(self, target: Target) -> Iterator[None]:
        kind = "readOnly" if target.verb in _READS else "mutating"
        if self.current[kind] >= self._limits[kind]:
            self._metrics.rejected(kind)
            raise TooManyRequests(
                "the server has received too many requests and has asked us to try again later",
                details={"retryAfterSeconds": 1},
            )
        self.current[kind] += 1
        try:
            yield
        finally:
            self.current[kind] -= 1
