"""The scheduler's numbers, under upstream's names, in Prometheus' text form."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Mapping

from dray.scheduler.queue import Queued

_RESULTS = {"Bind": "scheduled", "Unschedulable": "unschedulable", "Failure": "error"}
_BUCKETS = tuple(0.001 * 2**i for i in range(15))
_ATTEMPTS = (1.0, 2.0, 4.0, 8.0, 16.0)


class _Histogram:
    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str, labels: str) -> list[str]:
        total = 0
        out = []
        for bound, count in zip((*map(str, self._bounds), "+Inf"), self._counts, strict=True):
            total += count
            out.append(f'{name}_bucket{{{labels}{"," if labels else ""}le="{bound}"}} {total}')
        braces = f"{{{labels}}}" if labels else ""
        return [*out, f"{name}_sum{braces} {self._sum}", f"{name}_count{braces} {total}"]


class Metrics:
    """Counts attempts and how long pods waited."""

    def __init__(self) -> None:
        self._attempts: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._durations: dict[tuple[str, str], _Histogram] = {}
        self._algorithm = _Histogram(_BUCKETS)
        self._tries = _Histogram(_ATTEMPTS)
        self._waits = _Histogram(tuple(0.01 * 2**i for i in range(20)))

    def attempt(self, profile: str, outcome: str, seconds: float) -> None:
        key = (profile, _RESULTS[outcome])
        self._attempts[key] += 1
        histogram = self._durations.get(key)
        if histogram is None:
            histogram = self._durations[key] = _Histogram(_BUCKETS)
        histogram.observe(seconds)
        self._algorithm.observe(seconds)

    def scheduled(self, profile: str, entry: Queued, now: float) -> None:
        self._tries.observe(entry.attempts)
        if entry.first_attempt is not None:
            self._waits.observe(now - entry.first_attempt)

    def text(self, pending: Callable[[], Mapping[str, int]]) -> str:
        out: list[str] = ["# TYPE scheduler_schedule_attempts_total counter"]
        for (profile, result), count in sorted(self._attempts.items()):
            out.append(f'scheduler_schedule_attempts_total{{profile="{profile}",result="{result}"}} {count}')
        out.append("# TYPE scheduler_scheduling_attempt_duration_seconds histogram")
        for (profile, result), histogram in sorted(self._durations.items(), key=lambda kv: kv[0]):
            labels = f'profile="{profile}",result="{result}"'
            out += histogram.lines("scheduler_scheduling_attempt_duration_seconds", labels)
        for name, histogram in (
            ("scheduler_scheduling_algorithm_duration_seconds", self._algorithm),
            ("scheduler_pod_scheduling_attempts", self._tries),
            ("scheduler_pod_scheduling_sli_duration_seconds", self._waits),
        ):
            out.append(f"# TYPE {name} histogram")
            out += histogram.lines(name, "")
        out.append("# TYPE scheduler_pending_pods gauge")
        out += [f'scheduler_pending_pods{{queue="{queue}"}} {n}' for queue, n in pending().items()]
        return "\n".join(out) + "\n"
