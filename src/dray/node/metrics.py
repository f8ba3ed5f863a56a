"""What the node agent measures, under the kubelet's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from dray.metrics.registry import Labels, Registry

_FIRST, _LAST, _COUNT = 0.1, 40.0, 15
#: Exponentially spaced from a tenth of a second to forty, as the kubelet's for DRA.
DRA_BUCKETS = tuple(_FIRST * (_LAST / _FIRST) ** (i / (_COUNT - 1)) for i in range(_COUNT))


class Metrics:
    """Everything one node agent measures."""

    def __init__(self) -> None:
        self._registry = Registry()
        self.dra_operations = self._registry.histogram(
            "dra_operations_duration_seconds",
            "How long preparing or unpreparing all claims of a pod took.",
            *("operation_name", "is_error"),
            bounds=DRA_BUCKETS,
        )
        self.dra_calls = self._registry.histogram(
            "dra_grpc_operations_duration_seconds",
            "How long calls to drivers took.",
            *("driver_name", "method_name", "grpc_status_code"),
            bounds=DRA_BUCKETS,
        )
        self._registry.gauge(
            "dra_resource_claims_in_use",
            "Claims that are prepared, by driver and in all.",
            "driver_name",
            read=self._totals,
        )
        self._claims_in_use: list[Callable[[], Mapping[str, int]]] = []

    def count_claims_with(self, source: Callable[[], Mapping[str, int]]) -> None:
        """``source`` says how many claims are prepared, by driver."""
        self._claims_in_use.append(source)

    def text(self) -> str:
        return self._registry.text()

    def _totals(self) -> Iterator[tuple[Labels, float]]:
        totals: Counter[str] = Counter()
        for source in self._claims_in_use:
            totals.update(source())
        return (((driver,), number) for driver, number in totals.items())
