"""The node agent's measurements, by upstream's names, and their Prometheus text."""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Mapping, Sequence

_FIRST, _LAST, _COUNT = 0.1, 40.0, 15
#: Exponentially spaced from a tenth of a second to forty, as the kubelet's for DRA.
DRA_BUCKETS = tuple(_FIRST * (_LAST / _FIRST) ** (i / (_COUNT - 1)) for i in range(_COUNT))


class Histogram:
    def __init__(
        self, name: str, help: str, labels: Sequence[str], buckets: Sequence[float] = DRA_BUCKETS
    ) -> None:
        self.name, self.help = name, help
        self._labels = tuple(labels)
        self._buckets = tuple(buckets)
        self._series: dict[tuple[str, ...], list[float]] = {}

    def observe(self, seconds: float, *values: str) -> None:
        series = self._series.setdefault(values, [0.0] * (len(self._buckets) + 2))
        series[bisect.bisect_left(self._buckets, seconds)] += 1
        series[-1] += seconds

    def count(self, *values: str) -> int:
        return int(sum(self._series.get(values, [0.0])[:-1]))

    def lines(self) -> Iterator[str]:
        yield f"# HELP {self.name} {self.help}"
        yield f"# TYPE {self.name} histogram"
        for values, series in self._series.items():
            labels = dict(zip(self._labels, values, strict=True))
            total = 0.0
            for bound, number in zip((*self._buckets, None), series[:-1], strict=True):
                total += number
                edge = "+Inf" if bound is None else f"{bound:g}"
                yield f"{self.name}_bucket{_braces({**labels, 'le': edge})} {total:g}"
            yield f"{self.name}_sum{_braces(labels)} {series[-1]!r}"
            yield f"{self.name}_count{_braces(labels)} {total:g}"


class Metrics:
    """Everything one node agent measures."""

    def __init__(self) -> None:
        self.dra_operations = Histogram(
            "dra_operations_duration_seconds",
            "How long preparing or unpreparing all claims of a pod took.",
            ("operation_name", "is_error"),
        )
        self.dra_calls = Histogram(
            "dra_grpc_operations_duration_seconds",
            "How long calls to drivers took.",
            ("driver_name", "method_name", "grpc_status_code"),
        )
        self._claims_in_use: list[Callable[[], Mapping[str, int]]] = []

    def count_claims_with(self, source: Callable[[], Mapping[str, int]]) -> None:
        """``source`` says how many claims are prepared, by driver."""
        self._claims_in_use.append(source)

    def text(self) -> str:
        totals: dict[str, int] = {}
        for source in self._claims_in_use:
            for driver, number in source().items():
                totals[driver] = totals.get(driver, 0) + number
        lines = [*self.dra_operations.lines(), *self.dra_calls.lines()]
        lines += [
            "# HELP dra_resource_claims_in_use Claims that are prepared, by driver and in all.",
            "# TYPE dra_resource_claims_in_use gauge",
        ]
        lines += [f"dra_resource_claims_in_use{_braces({'driver_name': d})} {n}" for d, n in totals.items()]
        return "\n".join(lines) + "\n"


def _braces(labels: Mapping[str, str]) -> str:
    def escaped(text: str) -> str:
        return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    return "{" + ",".join(f'{k}="{escaped(v)}"' for k, v in labels.items()) + "}" if labels else ""
