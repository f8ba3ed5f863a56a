"""Metrics of work queues, under upstream's names."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator
from typing import Final

from dray.metrics.registry import Labels, Registry, exponential

_BOUNDS: Final = exponential(10e-9, 10, 10)


class QueueMetrics:
    """The families that all queues of a component share."""

    def __init__(self, registry: Registry, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._watched: list[QueueWatch] = []
        self.adds = registry.counter(
            "workqueue_adds_total", "Total number of adds handled by workqueue", "name"
        )
        self.retries = registry.counter(
            "workqueue_retries_total", "Total number of retries handled by workqueue", "name"
        )
        self.waits = registry.histogram(
            "workqueue_queue_duration_seconds",
            "How long in seconds an item stays in workqueue before being requested.",
            "name",
            bounds=_BOUNDS,
        )
        self.works = registry.histogram(
            "workqueue_work_duration_seconds",
            "How long in seconds processing an item from workqueue takes.",
            "name",
            bounds=_BOUNDS,
        )
        registry.gauge("workqueue_depth", "Current depth of workqueue", "name", read=self._depths)
        registry.gauge(
            "workqueue_unfinished_work_seconds",
            "How many seconds of work has done that is in progress and hasn't been observed by work_duration.",
            "name",
            read=self._unfinished,
        )
        registry.gauge(
            "workqueue_longest_running_processor_seconds",
            "How many seconds has the longest running processor for workqueue been running.",
            "name",
            read=self._longest,
        )

    def watch(self, name: str) -> QueueWatch:
        watch = QueueWatch(self, name)
        self._watched.append(watch)
        return watch

    def _depths(self) -> Iterator[tuple[Labels, float]]:
        return (((watch.name,), float(watch.depth)) for watch in self._watched)

    def _unfinished(self) -> Iterator[tuple[Labels, float]]:
        return (((watch.name,), sum(watch.running())) for watch in self._watched)

    def _longest(self) -> Iterator[tuple[Labels, float]]:
        return (((watch.name,), max(watch.running(), default=0.0)) for watch in self._watched)


class QueueWatch:
    """The metrics of one queue, which calls these methods for its items."""

    __slots__ = ("_all", "_begun", "_waiting", "name")

    def __init__(self, all: QueueMetrics, name: str) -> None:
        self.name = name
        self._all = all
        self._waiting: dict[Hashable, float] = {}
        self._begun: dict[Hashable, float] = {}

    @property
    def depth(self) -> int:
        return len(self._waiting)

    def running(self) -> list[float]:
        """For how long each item has been worked on."""
        now = self._all.clock()
        return [now - since for since in self._begun.values()]

    def added(self, item: Hashable) -> None:
        self._all.adds.inc(self.name)
        self._waiting.setdefault(item, self._all.clock())

    def taken(self, item: Hashable) -> None:
        now = self._begun[item] = self._all.clock()
        self._all.waits.observe(now - self._waiting.pop(item, now), self.name)

    def done(self, item: Hashable) -> None:
        since = self._begun.pop(item, None)
        if since is not None:
            self._all.works.observe(self._all.clock() - since, self.name)

    def retried(self) -> None:
        self._all.retries.inc(self.name)
