"""What a component counts about itself, in Prometheus' text format and under upstream's names."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeVar

Labels = tuple[str, ...]
Reading = Iterable[tuple[Labels, float]]


class Family(Protocol):
    """All series of one name."""

    name: str

    def lines(self) -> Iterator[str]: ...


_F = TypeVar("_F", bound=Family)


def exponential(first: float, factor: float, count: int) -> tuple[float, ...]:
    """Bounds of buckets that grow by a factor."""
    return tuple(first * factor**i for i in range(count))


class Counter:
    """Only goes up."""

    __slots__ = ("_values", "help", "labels", "name")

    def __init__(self, name: str, help: str, labels: Labels = ()) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._values: dict[Labels, float] = {}

    def inc(self, *labels: str, by: float = 1) -> None:
        self._values[labels] = self._values.get(labels, 0) + by

    def value(self, *labels: str) -> float:
        return self._values.get(labels, 0)

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "counter")
        for values, count in self._values.items():
            yield f"{self.name}{_labels(self.labels, values)} {count:g}"


class Gauge:
    """Read when somebody asks."""

    __slots__ = ("_read", "help", "labels", "name")

    def __init__(self, name: str, help: str, labels: Labels, read: Callable[[], Reading]) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._read = read

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "gauge")
        for values, value in self._read():
            yield f"{self.name}{_labels(self.labels, values)} {value:g}"


class Histogram:
    """How often a value was how large."""

    __slots__ = ("_bounds", "_series", "help", "labels", "name")

    def __init__(self, name: str, help: str, labels: Labels = (), *, bounds: tuple[float, ...]) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._bounds = bounds
        self._series: dict[Labels, list[float]] = {}

    def observe(self, value: float, *labels: str) -> None:
        series = self._series.get(labels)
        if series is None:
            series = self._series[labels] = [0.0] * (len(self._bounds) + 2)  # buckets, what is above, sum
        series[bisect_left(self._bounds, value)] += 1
        series[-1] += value

    def count(self, *labels: str) -> float:
        return sum(self._series.get(labels, ())[:-1])

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "histogram")
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for values, series in self._series.items():
            total = 0.0
            for bound, count in zip(bounds, series, strict=False):
                total += count
                yield f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, bound))} {total:g}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {series[-1]:g}"
            yield f"{self.name}_count{_labels(self.labels, values)} {total:g}"


class Registry:
    """The families of one component."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}

    def counter(self, name: str, help: str, *labels: str) -> Counter:
        return self._add(Counter(name, help, labels))

    def gauge(self, name: str, help: str, *labels: str, read: Callable[[], Reading]) -> Gauge:
        return self._add(Gauge(name, help, labels, read))

    def histogram(self, name: str, help: str, *labels: str, bounds: tuple[float, ...]) -> Histogram:
        return self._add(Histogram(name, help, labels, bounds=bounds))

    def _add(self, family: _F) -> _F:
        self._families[family.name] = family
        return family

    def text(self) -> str:
        return "".join(f"{line}\n" for family in self._families.values() for line in family.lines())


def _head(name: str, help: str, kind: str) -> Iterator[str]:
    yield f"# HELP {name} {help}"
    yield f"# TYPE {name} {kind}"


def _labels(names: Labels, values: Labels) -> str:
    if not names:
        return ""
    return "{" + ",".join(f'{n}="{_escape(v)}"' for n, v in zip(names, values, strict=True)) + "}"


_ESCAPES: Final[Mapping[int, str]] = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


def _escape(value: str) -> str:
    return value.translate(_ESCAPES)
