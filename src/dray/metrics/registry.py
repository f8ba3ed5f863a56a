"""Counters, gauges and histograms, and a registry that writes them in Prometheus' text format.

A series is an entry in its family's dictionary, keyed by the label values in the order of the label names.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
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
    """A number that only goes up."""

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
            yield f"{self.name}{_labels(self.labels, values)} {_number(count)}"


class Gauge:
    """Numbers that are read when the text is written."""

    __slots__ = ("_read", "help", "labels", "name")

    def __init__(self, name: str, help: str, labels: Labels, read: Callable[[], Reading]) -> None:
        self.name, self.help, self.labels = name, help, labels
        self._read = read

    def lines(self) -> Iterator[str]:
        yield from _head(self.name, self.help, "gauge")
        for values, value in self._read():
            yield f"{self.name}{_labels(self.labels, values)} {_number(value)}"


class Histogram:
    """How many observed values fell below each bound."""

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
                yield f"{self.name}_bucket{_labels((*self.labels, 'le'), (*values, bound))} {_number(total)}"
            yield f"{self.name}_sum{_labels(self.labels, values)} {_number(series[-1])}"
            yield f"{self.name}_count{_labels(self.labels, values)} {_number(total)}"


class Registry:
    """The families of one component. ``stability`` is Kubernetes' level, which is written before the help."""

    def __init__(self) -> None:
        self._families: dict[str, Family] = {}
        self._included: list[Callable[[], str]] = []

    def counter(self, name: str, help: str, *labels: str, stability: str = "") -> Counter:
        return self._add(Counter(name, _help(help, stability), labels))

    def gauge(
        self, name: str, help: str, *labels: str, read: Callable[[], Reading], stability: str = ""
    ) -> Gauge:
        return self._add(Gauge(name, _help(help, stability), labels, read))

    def histogram(
        self, name: str, help: str, *labels: str, bounds: tuple[float, ...], stability: str = ""
    ) -> Histogram:
        return self._add(Histogram(name, _help(help, stability), labels, bounds=bounds))

    @contextmanager
    def include(self, text: Callable[[], str]) -> Iterator[None]:
        """Write the text of another component of this process after this one's, until the block ends."""
        self._included.append(text)
        try:
            yield
        finally:
            self._included.remove(text)

    def _add(self, family: _F) -> _F:
        self._families[family.name] = family
        return family

    def text(self) -> str:
        own = "".join(f"{line}\n" for family in self._families.values() for line in family.lines())
        return own + "".join(text() for text in self._included)


def _help(help: str, stability: str) -> str:
    return f"[{stability}] {help}" if stability else help


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


def _number(value: float) -> str:
    """The shortest text that reads as the same number; whole numbers have no point."""
    return str(int(value)) if float(value).is_integer() else repr(value)
