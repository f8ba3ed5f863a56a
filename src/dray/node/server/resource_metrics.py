"""What ``/metrics/resource`` of a node says, under the kubelet's names: CPU time and memory of node, pods, containers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from dray.metrics.registry import Labels, Registry
from dray.runtimes.interface import Usage

if TYPE_CHECKING:
    from dray.node.pod_worker import PodWorker

_CONTAINER = ("container", "pod", "namespace")
_POD = ("pod", "namespace")


class _Running(NamedTuple):
    labels: Labels
    started_at: float
    usage: Usage | None


def resource_metrics(workers: Iterable[PodWorker], usage: Mapping[str, Usage]) -> str:
    """``usage`` is what the runtime says about its containers, by their ids."""
    running = list(_running(workers, usage))
    measured = [(container.labels, container.usage) for container in running if container.usage]
    by_pod: dict[Labels, Usage] = {}
    for (_, *pod), used in measured:
        before = by_pod.get(tuple(pod), Usage(0.0, 0))
        by_pod[tuple(pod)] = Usage(before.cpu_seconds + used.cpu_seconds, before.memory + used.memory)
    registry = Registry()

    def counter(name: str, help: str, labels: Labels, readings: Iterable[tuple[Labels, float]]) -> None:
        family = registry.counter(name, help, *labels, stability="STABLE")
        for values, value in readings:
            family.inc(*values, by=value)

    def gauge(name: str, help: str, labels: Labels, readings: Iterable[tuple[Labels, float]]) -> None:
        registry.gauge(name, help, *labels, read=lambda: readings, stability="STABLE")

    counter(
        *("container_cpu_usage_seconds_total", "CPU time of the container, in core-seconds.", _CONTAINER),
        [(labels, used.cpu_seconds) for labels, used in measured],
    )
    gauge(
        *("container_memory_working_set_bytes", "Memory that the container uses, in bytes.", _CONTAINER),
        [(labels, used.memory) for labels, used in measured],
    )
    gauge(
        *("container_start_time_seconds", "When the container started, in seconds of the epoch.", _CONTAINER),
        [(container.labels, container.started_at) for container in running],
    )
    counter("node_cpu_usage_seconds_total", "CPU time of the machine, in core-seconds.", (), [((), _cpu())])
    gauge("node_memory_working_set_bytes", "Memory that the machine uses, in bytes.", (), [((), _memory())])
    counter(
        *("pod_cpu_usage_seconds_total", "CPU time of the pod, in core-seconds.", _POD),
        [(labels, used.cpu_seconds) for labels, used in by_pod.items()],
    )
    gauge(
        *("pod_memory_working_set_bytes", "Memory that the pod uses, in bytes.", _POD),
        [(labels, used.memory) for labels, used in by_pod.items()],
    )
    gauge("resource_scrape_error", "1 if containers could not be measured.", (), [((), 0)])
    return registry.text()


def _running(workers: Iterable[PodWorker], usage: Mapping[str, Usage]) -> Iterator[_Running]:
    for worker in workers:
        metadata = worker.pod["metadata"]
        for name, known in worker.state.containers.items():
            if known.running and known.current:
                labels = (name, metadata["name"], metadata["namespace"])
                yield _Running(labels, known.current.started_at, usage.get(known.current.id))


def _cpu() -> float:
    """Seconds that the CPUs of this machine have worked: all but idle and waiting."""
    try:
        fields = [int(n) for n in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    except (OSError, ValueError):
        return 0.0
    return (sum(fields[:8]) - sum(fields[3:5])) / os.sysconf("SC_CLK_TCK")


def _memory() -> int:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        return (int(lines["MemTotal"].split()[0]) - int(lines["MemAvailable"].split()[0])) * 1024
    except (OSError, KeyError, ValueError):
        return 0
