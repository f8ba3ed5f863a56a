"""What the node agent measures, under the kubelet's names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from typing import NamedTuple

from dray.metrics.registry import Labels, Registry

_FIRST, _LAST, _COUNT = 0.1, 40.0, 15
#: Exponentially spaced from a tenth of a second to forty, as the kubelet's for DRA.
DRA_BUCKETS = tuple(_FIRST * (_LAST / _FIRST) ** (i / (_COUNT - 1)) for i in range(_COUNT))


class ProbeLabels(NamedTuple):
    probe_type: str
    result: str
    container: str
    pod: str
    namespace: str
    pod_uid: str


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
        self._probes: Counter[ProbeLabels] = Counter()
        self._claims_in_use: list[Callable[[], Mapping[str, int]]] = []

    def count_claims_with(self, source: Callable[[], Mapping[str, int]]) -> None:
        """``source`` says how many claims are prepared, by driver."""
        self._claims_in_use.append(source)

    def probed(self, labels: ProbeLabels) -> None:
        self._probes[labels] += 1

    def forget_probes(self, pod_uid: str) -> None:
        """The pod is gone, and with it whom its probes would interest."""
        for labels in [labels for labels in self._probes if labels.pod_uid == pod_uid]:
            del self._probes[labels]

    def probes_text(self, pod_uids: Container[str]) -> str:
        """The outcomes of the probes of these pods."""
        registry = Registry()
        family = registry.counter(
            "prober_probe_total",
            "Probes of containers, by kind and result.",
            *ProbeLabels._fields,
            stability="BETA",
        )
        for labels, number in self._probes.items():
            if labels.pod_uid in pod_uids:
                family.inc(*labels, by=number)
        return registry.text()

    def text(self) -> str:
        return self._registry.text()

    def _totals(self) -> Iterator[tuple[Labels, float]]:
        totals: Counter[str] = Counter()
        for source in self._claims_in_use:
            totals.update(source())
        return (((driver,), number) for driver, number in totals.items())
