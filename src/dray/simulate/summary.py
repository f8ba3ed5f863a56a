"""What a result comes to: how much was allocated, how long pods waited, what each model, class and node was used for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from dray.simulate.model import UNITS_PER_DEVICE, PodOutcome, Result, Sample


@dataclass(frozen=True, slots=True)
class Quantiles:
    p50: float
    p95: float
    p99: float

    @classmethod
    def of(cls, values: Iterable[float]) -> Quantiles | None:
        """None if there are no values."""
        ordered = sorted(values)
        if not ordered:
            return None
        return cls(*(ordered[min(int(len(ordered) * part), len(ordered) - 1)] for part in (0.5, 0.95, 0.99)))


@dataclass(frozen=True, slots=True)
class ResultSummary:
    """One run in a few numbers. Percentages are means over time, weighed by how long each state lasted."""

    policy: str
    seed: int
    seconds: float  # of virtual time
    pods: int
    scheduled: int
    ended: int
    pending: int  # at the end
    preemptions: int
    evictions: int
    allocated_percent: float
    fragmented_percent: float  # of what is free
    highest_allocated_percent: float
    waiting: Quantiles | None  # seconds
    slowdown: Quantiles | None
    device_seconds_by_class: Mapping[str, float]


def summarize(result: Result) -> ResultSummary:
    samples = result.samples
    last = samples[-1] if samples else Sample(0.0, 0, 0, 0, 0, 0.0, 0, 0, 0)
    return ResultSummary(
        policy=result.policy,
        seed=result.seed,
        seconds=last.time,
        pods=len(result.pods),
        scheduled=sum(one.scheduled is not None for one in result.pods),
        ended=sum(one.ended is not None for one in result.pods),
        pending=last.pending,
        preemptions=last.preemptions,
        evictions=sum(one.evictions for one in result.pods),
        allocated_percent=_over_time(samples, _allocated),
        fragmented_percent=_over_time(samples, _fragmented),
        highest_allocated_percent=max(map(_allocated, samples), default=0.0),
        waiting=Quantiles.of(one.waited for one in result.pods if one.scheduled is not None),
        slowdown=Quantiles.of(s for one in result.pods if (s := one.slowdown) is not None),
        device_seconds_by_class=device_seconds_by_class(result),
    )


def _allocated(sample: Sample) -> float:
    return 100 * sample.allocated / sample.capacity if sample.capacity else 0.0


def _fragmented(sample: Sample) -> float:
    free = sample.capacity - sample.allocated
    return 100 * sample.fragmented / free if free else 0.0


def _over_time(samples: Sequence[Sample], value: Callable[[Sample], float]) -> float:
    if not samples:
        return 0.0
    total = samples[-1].time - samples[0].time
    if total <= 0:
        return value(samples[-1])
    weighed = sum(value(one) * (two.time - one.time) for one, two in pairwise(samples))
    return weighed / total


def device_seconds(result: Result, *, by: Mapping[str, str] | None = None) -> dict[str, float]:
    """How long devices were in use, in device-seconds: by node, or by what ``by`` says of a node (its model, group)."""
    end = result.samples[-1].time if result.samples else 0.0
    used: dict[str, float] = {}
    for one in result.pods:
        if one.scheduled is not None and one.units:
            key = by.get(one.node, one.node) if by is not None else one.node
            used[key] = used.get(key, 0.0) + _run_time(one, end) * one.units / UNITS_PER_DEVICE
    return used


def device_seconds_by_class(result: Result) -> dict[str, float]:
    """How long devices were in use that pods got by each DeviceClass, in device-seconds."""
    end = result.samples[-1].time if result.samples else 0.0
    used: dict[str, float] = {}
    for one in result.pods:
        if one.scheduled is not None and one.classes:
            of_each = _run_time(one, end) * one.units / UNITS_PER_DEVICE / len(one.classes)
            for name in one.classes:
                used[name] = used.get(name, 0.0) + of_each
    return {name: round(used[name], 3) for name in sorted(used)}


def _run_time(pod: PodOutcome, end: float) -> float:
    assert pod.scheduled is not None
    return (pod.ended if pod.ended is not None else end) - pod.scheduled
