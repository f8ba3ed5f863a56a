"""What a node says about the resources that are used."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from dray.node.metrics import Metrics, ProbeLabels
from dray.node.pod_actions import KnownContainer, PodState
from dray.node.server.resource_metrics import resource_metrics
from dray.runtimes.interface import ContainerStatus, State, Usage


def worker(pod: str, *containers: str) -> Any:
    def running(name: str) -> KnownContainer:
        status = ContainerStatus(
            id=f"{pod}-{name}", sandbox="s", pod_uid="u", name=name, state=State.RUNNING, started_at=5.0
        )
        return KnownContainer(current=status)

    state = PodState(containers={name: running(name) for name in containers})
    return SimpleNamespace(pod={"metadata": {"name": pod, "namespace": "ns"}}, state=state)


def test_usage_is_shown_for_containers_and_added_up_for_pods() -> None:
    usage = {"p-a": Usage(1.5, 100), "p-b": Usage(2.0, 50)}
    lines = resource_metrics([worker("p", "a", "b"), worker("q", "a")], usage).splitlines()
    assert 'container_cpu_usage_seconds_total{container="a",pod="p",namespace="ns"} 1.5' in lines
    assert 'pod_cpu_usage_seconds_total{pod="p",namespace="ns"} 3.5' in lines
    assert 'pod_memory_working_set_bytes{pod="p",namespace="ns"} 150' in lines
    # What the runtime did not measure is not zero.
    assert not [line for line in lines if 'pod="q"' in line and "cpu" in line]
    assert 'container_start_time_seconds{container="a",pod="q",namespace="ns"} 5' in lines


def test_probes_are_counted_until_their_pod_is_gone() -> None:
    metrics = Metrics()
    for uid in ("u1", "u1", "u2"):
        metrics.probed(ProbeLabels("Readiness", "failed", "c", "p", "ns", uid))
    assert 'result="failed",container="c",pod="p",namespace="ns",pod_uid="u1"} 2' in metrics.probes_text(
        {"u1"}
    )
    assert "u2" not in metrics.probes_text({"u1"})
    metrics.forget_probes("u1")
    assert "u1" not in metrics.probes_text({"u1", "u2"})
