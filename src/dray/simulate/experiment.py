"""The published experiment on openb traces: how much of the cluster is allocated and fragmented as requests grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, stdev

from dray.placement.policies.workload import KnownWorkload
from dray.simulate.engine import simulate
from dray.simulate.model import UNITS_PER_DEVICE, Cluster, Options, Result
from dray.simulate.openb import Documents, NodeList, PodList, PublishedOrder, arrivals
from dray.simulate.progress import Counters
from dray.simulate.requests import requests_of
from dray.simulate.runs import Watchable

#: the parts of the cluster's devices, in percent, at which figures are published
MARKS = (50, 60, 70, 80, 85, 90, 95, 100, 110, 120, 130)
#: pods are added until they ask for so many times the cluster's devices
INFLATION = 1.3


@dataclass(frozen=True, slots=True)
class Figures:
    """What one run gave at each mark: means over all arrivals for which the requested part rounds to the mark."""

    policy: str
    seed: int
    pods: int
    allocated_percent: Mapping[int, float]
    fragmented_percent: Mapping[int, float]


@dataclass(frozen=True)
class Experiment(Watchable):
    """One policy and one seed over lists of nodes and pods."""

    nodes: Path
    pods: Path
    policy: str
    seed: int

    def run(self, *, counters: Counters | None = None) -> Figures:
        return figures(self.simulate(NodeList(self.nodes).cluster(), PodList(self.pods), counters=counters))

    def simulate(
        self,
        cluster: Cluster,
        pods: PodList,
        *,
        units: int | None = None,
        counters: Counters | None = None,
    ) -> Result:
        """``units``: the thousandths of devices that count as the cluster's; otherwise all that there are."""
        if units is None:
            units = sum(len(one["spec"].get("devices") or ()) for one in cluster.slices) * UNITS_PER_DEVICE
        documents = Documents()
        typical = KnownWorkload.of(requests_of(cluster, (documents.of(row) for row in pods.rows))).typical
        names = (node["metadata"]["name"] for node in cluster.nodes)
        order = PublishedOrder.of(self.seed, pods, INFLATION * units, names)
        options = Options(
            policy=self.policy, seed=self.seed, retries=False, typical=typical, node_order=order.nodes
        )
        progress = counters.begin(len(order.pods)) if counters else None
        return simulate(cluster, arrivals(order.pods), options, progress=progress)


@dataclass(frozen=True, slots=True)
class Summary:
    """The figures of one policy over several seeds: means, and how far the seeds are apart."""

    policy: str
    seeds: tuple[int, ...]
    pods: float  # of a run
    allocated_percent: Mapping[int, float]
    allocated_stdev: Mapping[int, float]
    fragmented_percent: Mapping[int, float]

    @classmethod
    def of(cls, runs: Sequence[Figures]) -> Summary:
        def at(mark: int, values: Sequence[Mapping[int, float]]) -> list[float]:
            return [one[mark] for one in values if mark in one]

        allocated = [one.allocated_percent for one in runs]
        fragmented = [one.fragmented_percent for one in runs]
        marks = [mark for mark in MARKS if at(mark, allocated)]
        return cls(
            policy=runs[0].policy,
            seeds=tuple(one.seed for one in runs),
            pods=fmean(one.pods for one in runs),
            allocated_percent={mark: fmean(at(mark, allocated)) for mark in marks},
            allocated_stdev={
                mark: stdev(values) if len(values := at(mark, allocated)) > 1 else 0.0 for mark in marks
            },
            fragmented_percent={mark: fmean(at(mark, fragmented)) for mark in marks},
        )


def figures(result: Result) -> Figures:
    allocated: dict[int, list[float]] = {}
    fragmented: dict[int, list[float]] = {}
    for sample in result.samples:
        percent = round(100 * sample.requested / sample.capacity)
        free = sample.capacity - sample.allocated
        allocated.setdefault(percent, []).append(100 * sample.allocated / sample.capacity)
        fragmented.setdefault(percent, []).append(100 * sample.fragmented / free if free else 0.0)
    return Figures(
        policy=result.policy,
        seed=result.seed,
        pods=len(result.pods),
        allocated_percent=_means(allocated),
        fragmented_percent=_means(fragmented),
    )


def _means(by_percent: Mapping[int, Sequence[float]]) -> dict[int, float]:
    """At each mark; where large pods have passed over it, those within one percent count, as in the published analysis."""
    means: dict[int, float] = {}
    for mark in MARKS:
        near = [*by_percent.get(mark - 1, ()), *by_percent.get(mark + 1, ())]
        if values := by_percent.get(mark) or near:
            means[mark] = fmean(values)
    return means
