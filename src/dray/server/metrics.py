"""What the server counts about itself, in Prometheus' text format and under upstream's names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, NamedTuple

#: Upstream's buckets for request durations, in seconds.
_BUCKETS: Final = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60,
)  # fmt: skip

Labels = tuple[str, ...]


class Counter:
    def __init__(self, name: str, help: str, labels: Labels) -> None:
        self.name, self.help, self.labels = name, help, labels
        self.values: dict[Labels, float] = {}

    def inc(self, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + 1

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} [STABLE] {self.help}"
        yield f"# TYPE {self.name} counter"
        for values, count in self.values.items():
            yield f"{self.name}{_labels(self.labels, values)} {count:g}"


class Histogram:
    def __init__(self, name: str, help: str, labels: Labels) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._series: dict[Labels, list[float]] = {}

    def observe(self, seconds: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = [0.0] * (len(_BUCKETS) + 2)  # buckets, overflow, sum
        series[bisect_left(_BUCKETS, seconds)] += 1
        series[-1] += seconds

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} [STABLE] {self.help}"
        yield f"# TYPE {self.name} histogram"
        for values, series in self._series.items():
            total = 0.0
            for bound, count in zip((*map(str, _BUCKETS), "+Inf"), series, strict=False):
                total += count
                yield f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, bound))} {total:g}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {series[-1]:g}"
            yield f"{self.name}_count{_labels(self.labels, values)} {total:g}"


Reading = Iterable[tuple[Mapping[str, str], float]]


class Gauge(NamedTuple):
    help: str
    read: Callable[[], Reading]
    stability: str


class Metrics:
    """Counters the pipeline feeds, and gauges that are read when somebody asks."""

    def __init__(self) -> None:
        self.requests = Counter(
            "apiserver_request_total",
            "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, "
            "component, and HTTP response code.",
            ("code", "component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"),
        )
        self.durations = Histogram(
            "apiserver_request_duration_seconds",
            "Response latency distribution in seconds for each verb, dry run value, group, version, resource, "
            "subresource, scope and component.",
            ("component", "dry_run", "group", "resource", "scope", "subresource", "verb", "version"),
        )
        self.rejections = Counter(
            "apiserver_dropped_requests_total",
            "Requests turned away while too many were in flight.",
            ("request_kind",),
        )
        self._gauges: dict[str, Gauge] = {}
        #: what other components of this process have counted, as text
        self.others: list[Callable[[], str]] = []

    def rejected(self, kind: str) -> None:
        self.rejections.inc(kind)

    def gauge(self, name: str, help: str, read: Callable[[], Reading], *, stability: str = "STABLE") -> None:
        self._gauges[name] = Gauge(help, read, stability)

    def text(self) -> str:
        lines: list[str] = []
        for family in (self.requests, self.durations, self.rejections):
            lines.extend(family.lines())
        for name, gauge in self._gauges.items():
            lines += (f"# HELP {name} [{gauge.stability}] {gauge.help}", f"# TYPE {name} gauge")
            for labels, value in gauge.read():
                lines.append(f"{name}{_labels(tuple(labels), tuple(labels.values()))} {value:g}")
        return "\n".join(lines) + "\n" + "".join(text() for text in self.others)


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{n}="{_escape(v)}"' for n, v in zip(names, values, strict=True)) + "}"


def _escape(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
