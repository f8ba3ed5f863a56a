"""What a result comes to: how much was allocated, how long pods waited, what each model, class and node was used for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from dray.simulate.model import UNITS_PER_DEVICE, Result, Sample, Stay

if TYPE_CHECKING:
    from dray.api.types.resource import Device, ResourceSlice


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
    used: dict[str, float] = {}
    for stay in _stays(result):
        if stay.units:
            key = by.get(stay.node, stay.node) if by is not None else stay.node
            used[key] = used.get(key, 0.0) + (stay.ended - stay.began) * stay.units / UNITS_PER_DEVICE
    return used


def device_seconds_by_class(result: Result) -> dict[str, float]:
    """How long devices were in use that pods got by each DeviceClass, in device-seconds."""
    used: dict[str, float] = {}
    for stay in _stays(result):
        if stay.classes:
            of_each = (stay.ended - stay.began) * stay.units / UNITS_PER_DEVICE / len(stay.classes)
            for name in stay.classes:
                used[name] = used.get(name, 0.0) + of_each
    return {name: round(used[name], 3) for name in sorted(used)}


class Use(NamedTuple):
    """From ``time`` on, so many thousandths of the devices of a node, a model or a class are in use."""

    time: float
    kind: str  # node, model or class
    name: str
    units: int


def use_over_time(result: Result, slices: Iterable[ResourceSlice]) -> Iterator[Use]:
    """Every change of what pods of the workload use, in order of time. ``slices``: they say which model a device is."""
    models = {
        f"{one['spec']['driver']}/{one['spec']['pool']['name']}/{device['name']}": model
        for one in slices
        for device in one["spec"].get("devices") or ()
        if (model := model_of(device)) is not None
    }
    changes: dict[float, dict[tuple[str, str], float]] = {}

    def change(time: float, stay: Stay, sign: int) -> None:
        at = changes.setdefault(time, {})
        keys = [("node", stay.node, 1.0)]
        for kind, names in (
            ("model", [models.get(one, "") for one in stay.devices]),
            ("class", stay.classes),
        ):
            keys += [(kind, name, 1 / len(names)) for name in names if name]
        for kind, name, part in keys:
            at[kind, name] = at.get((kind, name), 0.0) + sign * stay.units * part

    for stay in _stays(result):
        if stay.units:
            change(stay.began, stay, 1)
            change(stay.ended, stay, -1)
    level: dict[tuple[str, str], float] = {}
    for time in sorted(changes):
        for kind, name in sorted(changes[time]):
            before = round(level.get((kind, name), 0.0))
            level[kind, name] = level.get((kind, name), 0.0) + changes[time][kind, name]
            if (now := round(level[kind, name])) != before:
                yield Use(time, kind, name, now)


def model_of(device: Device) -> str | None:
    """The model of a device, from the attribute that drivers name it by."""
    for name, value in (device.get("attributes") or {}).items():
        if name.rpartition("/")[2] in ("model", "productName"):
            return value.get("string")
    return None


def _stays(result: Result) -> Iterator[Stay]:
    end = result.samples[-1].time if result.samples else 0.0
    for one in result.pods:
        yield from one.stays(end)
