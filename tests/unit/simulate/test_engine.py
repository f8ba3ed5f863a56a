"""The engine: pods come, wait, run and go in virtual time, and the scheduler's code decides where."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from dray.placement.policies import DevicePolicy, NodeState, Request
from dray.simulate.engine import simulate
from dray.simulate.model import (
    Arrival,
    ClassChanged,
    Cluster,
    DevicesTainted,
    Event,
    NodeAdded,
    NodeDrained,
    NodeLost,
    Options,
    PodOutcome,
    Result,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    Stay,
    TaintRemoved,
)
from tests.support.scheduler import node, slice_of

CLASS: Any = {"metadata": {"name": "gpu"}, "spec": {}}


def cluster(**devices: list[str]) -> Cluster:
    nodes: Any = [node(name) for name in devices]
    slices: Any = [slice_of(name, names) for name, names in devices.items()]
    return Cluster(nodes=nodes, slices=slices, classes=[CLASS])


def arrival(
    time: float,
    name: str,
    *,
    gpus: int = 1,
    duration: float | None = None,
    priority: int = 0,
    tolerations: Sequence[Any] = (),
) -> Arrival:
    pod: Any = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {
            "containers": [{"name": "main", "resources": {"requests": {"cpu": "100m"}}}],
            "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
            "priority": priority,
        },
    }
    exactly: Any = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": gpus}
    if tolerations:
        exactly["tolerations"] = tolerations
    claim: Any = {
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }
    return Arrival(time, pod, (claim,), duration)


def run(start: Cluster, *events: Event, **options: Any) -> Result:
    return simulate(start, events, Options(**options))


def by_name(result: Result) -> dict[str, PodOutcome]:
    return {one.pod.removeprefix("default/"): one for one in result.pods}


def test_a_pod_waits_until_another_one_ends() -> None:
    result = run(cluster(n=["a"]), arrival(0, "first", duration=100), arrival(10, "second", duration=50))
    first, second = by_name(result)["first"], by_name(result)["second"]
    assert (first.scheduled, first.ended, first.devices) == (0, 100, ("gpu.example.com/n/a",))
    assert (second.scheduled, second.waited, second.ended) == (100, 90, 150)
    assert second.slowdown == pytest.approx(140 / 50)
    assert [(s.time, s.allocated, s.running, s.pending) for s in result.samples] == [
        (0, 1000, 1, 0),
        (10, 1000, 1, 1),
        (100, 1000, 1, 0),
        (150, 0, 0, 0),
    ]


def test_a_pod_that_does_not_fit_is_dropped_where_nobody_retries() -> None:
    result = run(cluster(n=["a"]), arrival(0, "first", duration=5), arrival(1, "second"), retries=False)
    assert by_name(result)["second"].scheduled is None
    assert result.samples[-1].pending == 0


def test_the_queue_has_the_order_of_the_scheduler() -> None:
    low, high = arrival(1, "low", duration=5), arrival(2, "high", duration=5, priority=10)
    result = run(cluster(n=["a"]), arrival(0, "first", duration=10, priority=100), low, high)
    assert by_name(result)["high"].scheduled == 10
    assert by_name(result)["low"].scheduled == 15


def test_preemption_takes_devices_where_that_is_allowed() -> None:
    events = arrival(0, "low", duration=100), arrival(10, "high", duration=20, priority=10)
    outcomes = by_name(run(cluster(n=["a"]), *events, device_preemption=True))
    assert outcomes["high"].scheduled == 10
    assert (outcomes["low"].evictions, outcomes["low"].scheduled, outcomes["low"].ended) == (1, 30, 130)
    assert by_name(run(cluster(n=["a"]), *events))["high"].scheduled == 100


def test_nodes_come_are_drained_and_get_lost() -> None:
    extra: Any = node("extra")
    slices: Any = (slice_of("extra", ["a"]),)
    result = run(
        cluster(n=["a"]),
        arrival(0, "p", duration=100),
        arrival(1, "q", duration=100),
        NodeAdded(5, extra, slices),
        NodeDrained(20, "n"),
        NodeLost(40, "extra"),
    )
    outcomes = by_name(result)
    assert (outcomes["q"].evictions, outcomes["q"].scheduled) == (1, None)  # on the node that was lost
    assert (outcomes["p"].evictions, outcomes["p"].scheduled) == (1, None)  # from the node that was drained
    assert result.samples[-1].capacity == 1000
    with pytest.raises(SimulationError, match="there is no node gone at 3 s"):
        run(cluster(n=["a"]), NodeLost(3, "gone"))


def test_devices_are_tainted_and_slices_published() -> None:
    rule: Any = {
        "metadata": {"name": "hot"},
        "spec": {"deviceSelector": {"pool": "n"}, "taint": {"key": "hot", "effect": "NoSchedule"}},
    }
    more: Any = slice_of("m", ["a", "b"])
    result = run(
        cluster(n=["a"], m=["a"]),
        DevicesTainted(0, rule),
        arrival(1, "p"),
        arrival(2, "q"),
        arrival(3, "r"),
        SlicePublished(10, more),
        TaintRemoved(20, "hot"),
    )
    outcomes = by_name(result)
    assert [outcomes[name].scheduled for name in "pqr"] == [1, 10, 20]
    assert outcomes["r"].node == "n"
    assert result.samples[-1].capacity == 3000


def tainted(time: float, *, pool: str, effect: str) -> DevicesTainted:
    taint = {"key": "hot", "effect": effect}
    rule: Any = {"metadata": {"name": "hot"}, "spec": {"deviceSelector": {"pool": pool}, "taint": taint}}
    return DevicesTainted(time, rule)


def test_a_taint_evicts_pods_that_do_not_tolerate_it() -> None:
    events = [
        arrival(0, "p", duration=100),
        tainted(30, pool="n", effect="NoExecute"),
        TaintRemoved(50, "hot"),
    ]
    first = by_name(run(cluster(n=["a"]), *events))["p"]
    assert (first.evictions, first.scheduled, first.ended) == (1, 50, 150)
    assert first.evicted == (Stay("n", 0, 30, ("gpu.example.com/n/a",), ("gpu",), 1000),)
    stays = by_name(run(cluster(n=["a"]), *events[:1], tainted(30, pool="n", effect="NoSchedule")))["p"]
    assert (stays.evictions, stays.ended) == (0, 100)
    recorded = by_name(run(cluster(n=["a"]), *events, evicts_tainted=False))["p"]
    assert (recorded.evictions, recorded.ended) == (0, 100)


def test_a_taint_that_is_tolerated_for_a_time_evicts_after_it_and_then_keeps_the_pod_away() -> None:
    for_a_time = {"key": "hot", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 20}
    result = run(
        cluster(n=["a"]),
        arrival(0, "p", duration=100, tolerations=[for_a_time]),
        tainted(30, pool="n", effect="NoExecute"),
        arrival(400, "later", duration=1),
        TaintRemoved(500, "hot"),
    )
    p = by_name(result)["p"]
    assert (p.evictions, p.evicted[0].ended) == (1, 50)
    assert (p.scheduled, p.ended) == (500, 600)
    for_good = {key: for_a_time[key] for key in ("key", "operator", "effect")}
    events = arrival(0, "p", duration=100, tolerations=[for_good]), tainted(30, pool="n", effect="NoExecute")
    assert by_name(run(cluster(n=["a"]), *events))["p"].evictions == 0


def test_an_unhealthy_device_is_tainted_by_its_driver_and_a_withdrawn_one_is_not_allocated() -> None:
    healthy: Any = slice_of("n", ["a"])
    unhealthy: Any = slice_of("n", ["a"])
    unhealthy["spec"]["devices"][0]["taints"] = [{"key": "unhealthy", "effect": "NoExecute"}]
    result = run(
        cluster(n=["a"]),
        arrival(0, "p", duration=100),
        SlicePublished(20, unhealthy),
        SlicePublished(25, unhealthy),
        SlicePublished(60, healthy),
        SliceWithdrawn(200, healthy["metadata"]["name"]),
        arrival(210, "q"),
    )
    outcomes = by_name(result)
    assert [one.ended for one in outcomes["p"].evicted] == [20]
    assert (outcomes["p"].scheduled, outcomes["p"].ended) == (60, 160)
    assert outcomes["q"].scheduled is None
    assert result.samples[-1].capacity == 0
    there: Any = Cluster(nodes=[node("n")], slices=[unhealthy], classes=[CLASS])
    assert by_name(run(there, arrival(0, "p"), SlicePublished(5, healthy)))["p"].scheduled == 5


def test_a_class_that_changes_lets_waiting_pods_run() -> None:
    nothing: Any = {"metadata": {"name": "gpu"}, "spec": {"selectors": [{"cel": {"expression": "false"}}]}}
    start: Any = Cluster(nodes=[node("n")], slices=[slice_of("n", ["a"])], classes=[nothing])
    assert by_name(run(start, arrival(0, "p"), ClassChanged(7, CLASS)))["p"].scheduled == 7


@pytest.mark.parametrize(
    ("events", "complaint"),
    [
        ([arrival(5, "p"), arrival(3, "q")], "events are not in order of time: 3 comes after 5"),
        ([arrival(-1, "p")], "an event has the time -1: times are not negative"),
        ([arrival(1, "p", duration=-1)], "pod p runs for -1 s: durations are not negative"),
        ([arrival(1, "p"), arrival(2, "p")], "two pods have the uid uid-p"),
    ],
)
def test_events_that_make_no_sense_are_one_line(events: list[Event], complaint: str) -> None:
    with pytest.raises(SimulationError) as problem:
        run(cluster(n=["a"]), *events)
    assert complaint in str(problem.value)


class Raising(DevicePolicy):
    name = "raising"

    def score(self, request: Request, node: NodeState) -> float:
        return 1 / (len(node.free) - 1)


def test_a_policy_that_raises_is_named_with_the_pod() -> None:
    with pytest.raises(SimulationError) as problem:
        run(cluster(n=["a"]), arrival(0, "p"), policy=Raising)
    assert "pod default/p" in str(problem.value)
    assert "device policy 'raising' raised ZeroDivisionError" in str(problem.value)


def test_a_policy_that_does_not_exist_is_one_line() -> None:
    with pytest.raises(SimulationError, match="there is no device policy 'tidy'"):
        run(cluster(n=["a"]), policy="tidy")
