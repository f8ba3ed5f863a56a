"""How far runs are: pods, rate and what is left, counted over several processes."""

from __future__ import annotations

from typing import Any

from dray.simulate.model import Options
from dray.simulate.progress import Counters, Watcher
from dray.simulate.runs import Simulation, local_processes, run_all
from dray.simulate.sources.generator import Generator
from dray.simulate.sources.node_groups import NodeGroups

CLUSTER = NodeGroups.parse(
    {"groups": [{"name": "n", "allocatable": {"cpu": "64", "memory": "64Gi"}}]}
).cluster()
WORKLOAD = Generator.parse({"pods": 30, "arrivals": {"rate": 1}, "mix": [{"cpu": "1"}]})
TASKS = [Simulation(CLUSTER, WORKLOAD, Options(seed=seed)) for seed in range(3)]


def watcher(counters: Counters, runs: int, *, seconds: float) -> Watcher:
    moments = iter([0.0, seconds])
    return Watcher(counters, runs, lambda shown: None, clock=lambda: next(moments))


def test_a_watcher_knows_pods_rate_and_runs() -> None:
    counters = Counters.make()
    arrived = counters.begin(100)
    arrived(20)
    arrived(50)
    found = watcher(counters, 4, seconds=2.0).look()
    assert found == {"completed": 50, "total": 400, "rate": "25 pods/s", "runs": "0 of 4 runs"}


def test_kept_results_are_no_work_that_is_left() -> None:
    counters = Counters.make()
    watched = watcher(counters, 4, seconds=2.0)
    watched.done(0)
    watched.done(1)
    counters.begin(100)(100)
    watched.done(2)
    assert watched.look() == {"completed": 100, "total": 200, "rate": "50 pods/s", "runs": "3 of 4 runs"}


def test_nothing_is_said_of_the_rate_before_the_first_pod() -> None:
    found: dict[str, Any] = watcher(Counters.make(), 4, seconds=2.0).look()
    assert (found["total"], found["rate"]) == (None, "")


def test_runs_of_this_process_and_of_others_are_counted_and_give_the_same() -> None:
    unwatched = run_all(TASKS)
    here, there = Counters.make(), Counters.make()
    assert run_all(TASKS, counters=here) == unwatched
    with local_processes(2, counters=there) as executor:
        assert run_all(TASKS, executor=executor) == unwatched
    for counters in (here, there):
        assert (counters.begun.value, counters.expected.value, counters.pods.value) == (3, 90, 90)
