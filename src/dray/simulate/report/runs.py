"""What a report shows of runs of a workload: time series, waiting times and use, side by side for several policies."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from math import inf

from dray.simulate.model import Cluster, PodOutcome, Result, Sample
from dray.simulate.report.intervals import Interval, interval
from dray.simulate.report.page import Cell, Report, Row, Section, Table
from dray.simulate.report.plots import Dot, Dots, Lines, Point, Series
from dray.simulate.summary import (
    Quantiles,
    ResultSummary,
    device_seconds,
    device_seconds_by_class,
    model_of,
    summarize,
)

_STEPS = 160  # points of a line over time
_GROUPS = 20  # rows of the plot of use at most
_GROUP_LABEL = "dray.dev/node-group"


def runs_report(results: Sequence[Result], *, cluster: Cluster, cluster_name: str, workload: str) -> Report:
    by_policy: dict[str, list[Result]] = {}
    for one in results:
        by_policy.setdefault(one.policy, []).append(one)
    seeds = next(iter(by_policy.values()))
    return Report(
        title="What would happen",
        text="A workload on a cluster in virtual time, under each device policy. Lines are means over the seeds, bands and "
        "whiskers their 95 % confidence intervals.",
        facts=[
            ("Cluster", cluster_name),
            ("Nodes", f"{results[0].nodes:,}"),
            ("Devices", f"{results[0].devices:,}"),
            ("Workload", workload),
            ("Pods in a run", f"{sum(len(one.pods) for one in results) / len(results):,.0f}"),
            ("Seeds", ", ".join(str(one.seed) for one in seeds)),
        ],
        sections=[_summary(by_policy), _over_time(by_policy), _waiting(by_policy), *_use(by_policy, cluster)],
    )


# -- in short ----------------------------------------------------------------------------------------------------------

_Measure = Callable[[ResultSummary], float | None]
_MEASURES: tuple[tuple[str, str, _Measure], ...] = (
    ("scheduled", ".0f", lambda one: one.scheduled),
    ("pending at the end", ".0f", lambda one: one.pending),
    ("allocated %", ".1f", lambda one: one.allocated_percent),
    ("fragmented %", ".1f", lambda one: one.fragmented_percent),
    ("wait p50 (s)", ".0f", lambda one: one.waiting.p50 if one.waiting else None),
    ("wait p95 (s)", ".0f", lambda one: one.waiting.p95 if one.waiting else None),
    ("slowdown p95", ".2f", lambda one: one.slowdown.p95 if one.slowdown else None),
    ("preemptions", ".0f", lambda one: one.preemptions),
)


def _summary(by_policy: Mapping[str, Sequence[Result]]) -> Section:
    rows = []
    for number, (policy, results) in enumerate(by_policy.items()):
        summaries = [summarize(one) for one in results]
        cells = []
        for _, form, measure in _MEASURES:
            values = [value for one in summaries if (value := measure(one)) is not None]
            if values:
                found = interval(values)
                cells.append(Cell(f"{found.mean:{form}}", f"± {found.margin:{form}}" if found.margin else ""))
            else:
                cells.append(Cell("–"))
        rows.append(Row(policy, cells, number))
    return Section(
        "In short",
        "Allocated and fragmented are means over time; fragmented is the part of the free devices that typical pods could "
        "not use.",
        table=Table(["policy", *(name for name, _, _ in _MEASURES)], rows),
    )


# -- over time ---------------------------------------------------------------------------------------------------------


def _allocated(sample: Sample) -> float:
    return 100 * sample.allocated / sample.capacity if sample.capacity else 0.0


def _fragmented(sample: Sample) -> float:
    free = sample.capacity - sample.allocated
    return 100 * sample.fragmented / free if free else 0.0


def _over_time(by_policy: Mapping[str, Sequence[Result]]) -> Section:
    ends = [one.samples[-1].time for results in by_policy.values() for one in results if one.samples]
    end = max(ends, default=0.0) or 1.0
    unit, seconds = _unit(end)
    grid = [end * step / _STEPS for step in range(_STEPS + 1)]

    def lines(name: str, title: str, label: str, value: Callable[[Sample], float], most: float) -> Lines:
        series = []
        for number, (policy, results) in enumerate(by_policy.items()):
            values = zip(*(_at(one.samples, grid, value) for one in results), strict=True)
            points = [Point(at / seconds, interval(found)) for at, found in zip(grid, values, strict=True)]
            series.append(Series(policy, number, points))
        return Lines(name, title, f"time ({unit})", label, series, bounds=(0, most))

    return Section(
        "Over time",
        "The state of the cluster after everything that happened until then.",
        plots=[
            lines("allocated", "Allocated devices", "allocated (%)", _allocated, 100),
            lines("fragmented", "Fragmented part of the free devices", "fragmented (%)", _fragmented, 100),
            lines("pending", "Pods that wait", "pods", lambda sample: sample.pending, inf),
            lines("running", "Pods that run", "pods", lambda sample: sample.running, inf),
        ],
    )


def _at(samples: Sequence[Sample], grid: Sequence[float], value: Callable[[Sample], float]) -> list[float]:
    """The value at each time: that of the last sample before it."""
    times = [one.time for one in samples]
    found = []
    for at in grid:
        place = bisect_right(times, at)
        found.append(value(samples[place - 1]) if place else 0.0)
    return found


def _unit(seconds: float) -> tuple[str, float]:
    if seconds >= 3 * 86400:
        return "days", 86400.0
    if seconds >= 3 * 3600:
        return "hours", 3600.0
    return ("minutes", 60.0) if seconds >= 600 else ("s", 1.0)


# -- waiting -----------------------------------------------------------------------------------------------------------


def _waits(result: Result) -> list[float]:
    return [one.waited for one in result.pods if one.scheduled is not None]


def _waiting(by_policy: Mapping[str, Sequence[Result]]) -> Section:
    longest = max((w for results in by_policy.values() for one in results for w in _waits(one)), default=0.0)
    unit, seconds = _unit(longest)
    series = []
    for number, (policy, results) in enumerate(by_policy.items()):
        waits = sorted(wait for one in results for wait in _waits(one))
        points = [
            Point(waits[min(len(waits) * part // 100, len(waits) - 1)] / seconds, Interval(float(part), 0.0))
            for part in range(101)
            if waits
        ]
        series.append(Series(policy, number, points))
    dots = (
        _quantiles(by_policy, "waiting-quantiles", "Waiting time", unit, lambda pod: pod.waited / seconds),
        _quantiles(
            by_policy, "slowdown", "Slowdown of pods that ended", "times the run", lambda pod: pod.slowdown
        ),
    )
    return Section(
        "Waiting",
        "How long pods that were scheduled had to wait, and how many times longer than their run they took.",
        plots=[
            Lines(
                "waiting",
                "Pods that waited at most so long",
                f"time in the queue ({unit})",
                "pods (%)",
                series,
            ),
            *(one for one in dots if one.rows),
        ],
    )


def _quantiles(
    by_policy: Mapping[str, Sequence[Result]],
    name: str,
    title: str,
    label: str,
    value: Callable[[PodOutcome], float | None],
) -> Dots:
    found = {
        policy: [
            quantiles
            for one in results
            if (
                quantiles := Quantiles.of(
                    v for pod in one.pods if pod.scheduled is not None and (v := value(pod)) is not None
                )
            )
        ]
        for policy, results in by_policy.items()
    }
    rows = []
    for part in ("p50", "p95", "p99"):
        dots = [
            Dot(policy, number, interval([getattr(one, part) for one in quantiles]))
            for number, (policy, quantiles) in enumerate(found.items())
            if quantiles
        ]
        if dots:
            rows.append((part, dots))
    return Dots(name, title, label, rows, zero=True, bounds=(0, inf))


# -- use ---------------------------------------------------------------------------------------------------------------


def _use(by_policy: Mapping[str, Sequence[Result]], cluster: Cluster) -> list[Section]:
    """How much of each group of nodes was used. Nothing where there are no devices on nodes."""
    group_of, devices = _groups(cluster)
    if not devices:
        return []
    used = {
        policy: [device_seconds(one, by=group_of) for one in results] for policy, results in by_policy.items()
    }
    rows = []
    for group in sorted(devices, key=lambda name: -devices[name])[:_GROUPS]:
        dots = []
        for number, (policy, results) in enumerate(by_policy.items()):
            parts = []
            for one, seconds in zip(results, used[policy], strict=True):
                end = one.samples[-1].time if one.samples else 0.0
                parts.append(100 * seconds.get(group, 0.0) / (devices[group] * end) if end else 0.0)
            dots.append(Dot(policy, number, interval(parts)))
        rows.append((f"{group} ({devices[group]:,})", dots))
    return [
        Section(
            "Use",
            "How much of the time of each kind of device pods of this workload had; in brackets how many devices there are.",
            plots=[
                Dots(
                    "use",
                    "Use by node group or model",
                    "device time in use (%)",
                    rows,
                    zero=True,
                    bounds=(0, 100),
                ),
                *_use_by_class(by_policy),
            ],
        )
    ]


def _use_by_class(by_policy: Mapping[str, Sequence[Result]]) -> list[Dots]:
    """How many devices pods had on the average by each class."""
    found = {
        policy: [device_seconds_by_class(one) for one in results] for policy, results in by_policy.items()
    }
    names = sorted({name for seconds in found.values() for one in seconds for name in one})[:_GROUPS]
    rows = []
    for name in names:
        dots = []
        for number, (policy, results) in enumerate(by_policy.items()):
            means = []
            for one, seconds in zip(results, found[policy], strict=True):
                end = one.samples[-1].time if one.samples else 0.0
                means.append(seconds.get(name, 0.0) / end if end else 0.0)
            dots.append(Dot(policy, number, interval(means)))
        rows.append((name or "no class", dots))
    if not rows:
        return []
    return [
        Dots(
            "use-by-class",
            "Devices in use by class",
            "devices (mean over time)",
            rows,
            zero=True,
            bounds=(0, inf),
        )
    ]


def _groups(cluster: Cluster) -> tuple[dict[str, str], dict[str, int]]:
    """Node → what its devices are called together; and how many devices each of these has."""
    labels = {node["metadata"]["name"]: node["metadata"].get("labels") or {} for node in cluster.nodes}
    group_of: dict[str, str] = {}
    devices: dict[str, int] = {}
    for one in cluster.slices:
        spec = one["spec"]
        node, listed = spec.get("nodeName"), spec.get("devices")
        if not node or not listed:
            continue
        label = labels.get(node, {}).get(_GROUP_LABEL)
        group = group_of.setdefault(node, label or model_of(listed[0]) or spec["driver"])
        devices[group] = devices.get(group, 0) + len(listed)
    return group_of, devices
