"""The scheduler's metrics, under upstream's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from dray.metrics.registry import Labels, Registry, exponential
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo

_RESULTS: Final = {"Bind": "scheduled", "Unschedulable": "unschedulable", "Failure": "error"}
_SECONDS: Final = exponential(0.001, 2, 15)
_MOST_ATTEMPTS: Final = 15  # of a pod; upstream counts more attempts together


class Metrics:
    """Counts attempts, and measures how long pods wait."""

    def __init__(self) -> None:
        self.registry = registry = Registry()
        self._attempts = registry.counter(
            "scheduler_schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
            "while 'error' means an internal scheduler problem.",
            "result",
            "profile",
        )
        self._durations = registry.histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            "result",
            "profile",
            bounds=_SECONDS,
        )
        self._algorithm = registry.histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Scheduling algorithm latency in seconds",
            bounds=_SECONDS,
        )
        self._tries = registry.histogram(
            "scheduler_pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            bounds=exponential(1, 2, 5),
        )
        self._waits = registry.histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might involve "
            "multiple scheduling attempts.",
            "attempts",
            bounds=exponential(0.01, 2, 20),
        )
        self._preemptions = registry.counter(
            "scheduler_preemption_attempts_total", "Total preemption attempts in the cluster till now"
        )
        self._victims = registry.histogram(
            "scheduler_preemption_victims",
            "Number of selected preemption victims",
            bounds=exponential(1, 2, 7),
        )
        self.claims_created = registry.counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler",
            "status",
        )

    def register_gauges(
        self,
        *,
        pending: Callable[[], Mapping[str, int]],
        rejected: Callable[[], Iterator[tuple[str, str]]],
        cached: Callable[[], Mapping[str, int]],
    ) -> None:
        """Gauges, read when they are scraped: pods by queue, (plugin, profile) of rejected pods, sizes of the cache."""
        registry = self.registry

        def by_name(read: Callable[[], Mapping[str, int]]) -> Callable[[], Iterator[tuple[Labels, float]]]:
            return lambda: (((name,), float(n)) for name, n in read().items())

        registry.gauge(
            "scheduler_pending_pods",
            "Number of pending pods, by the queue type.",
            "queue",
            read=by_name(pending),
        )
        registry.gauge(
            "scheduler_cache_size",
            "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.",
            "type",
            read=by_name(cached),
        )
        registry.gauge(
            "scheduler_unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name.",
            "plugin",
            "profile",
            read=lambda: ((labels, float(n)) for labels, n in Counter(rejected()).items()),
        )

    def attempt(self, profile: str, outcome: str, seconds: float) -> None:
        result = _RESULTS[outcome]
        self._attempts.inc(result, profile)
        self._durations.observe(seconds, result, profile)
        self._algorithm.observe(seconds)

    def scheduled(self, profile: str, entry: QueuedPodInfo, now: float) -> None:
        self._tries.observe(entry.attempts)
        if entry.first_attempt is not None:
            attempts = str(entry.attempts) if entry.attempts < _MOST_ATTEMPTS else f"{_MOST_ATTEMPTS}+"
            self._waits.observe(now - entry.first_attempt, attempts)

    def preemption_attempt(self, victims: int) -> None:
        """No node fits a pod; preemption has chosen so many victims."""
        self._preemptions.inc()
        if victims:
            self._victims.observe(victims)

    def text(self) -> str:
        return self.registry.text()
