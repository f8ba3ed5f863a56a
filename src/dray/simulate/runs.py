"""Many runs: tasks in, results out in the same order, by this process or by any ``concurrent.futures.Executor``.

A task is a frozen value with a ``run`` method, and so is its result: both can go to other processes and machines. The
same tasks give the same results wherever they run.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from dray.simulate.checkpoint import Checkpoint
from dray.simulate.engine import simulate
from dray.simulate.model import Cluster, Options, Result, SimulationError, WorkloadSource
from dray.simulate.progress import Counters, number_of_pods

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Task(Protocol[T_co]):
    def run(self) -> T_co: ...


class Watchable:
    """A task that says how far it is: its ``run`` takes ``counters``."""

    def run(self, *, counters: Counters | None = None) -> Any:
        raise NotImplementedError


@dataclass(frozen=True)
class Simulation(Watchable):
    """One run of a workload on a cluster, as a task."""

    cluster: Cluster
    workload: WorkloadSource
    options: Options

    def run(self, *, counters: Counters | None = None) -> Result:
        seed = self.options.seed
        progress = counters.begin(number_of_pods(self.workload.events(seed))) if counters else None
        return simulate(self.cluster, self.workload.events(seed), self.options, progress=progress)


def local_processes(number: int, *, counters: Counters | None = None) -> ProcessPoolExecutor:
    """Processes on this machine. They are started anew, so they share nothing with this one but ``counters``."""
    return ProcessPoolExecutor(
        number, mp_context=multiprocessing.get_context("spawn"), initializer=_watch, initargs=(counters,)
    )


_counters: Counters | None = None  # of a process of ``local_processes``


def _watch(counters: Counters | None) -> None:
    global _counters
    _counters = counters


def run_all(
    tasks: Sequence[Task[T]],
    *,
    executor: Executor | None = None,
    done: Callable[[int], None] = lambda number: None,
    checkpoint: Checkpoint[T] | None = None,
    counters: Counters | None = None,
) -> list[T]:
    """The results of the tasks, in their order. ``done`` is called with the number of each task that has ended.

    ``checkpoint``: results that are there are not made again, and those that are made are there the next time. ``counters``:
    they are told how far the runs of this process are; those of other processes have them from ``local_processes``.
    """
    results: dict[int, T] = {}
    if checkpoint is not None:
        for number, task in enumerate(tasks):
            found = checkpoint.load(task)
            if found is not None:
                results[number] = found
                done(number)
    missing = [number for number in range(len(tasks)) if number not in results]
    for number, result in _made(tasks, missing, executor, counters):
        if checkpoint is not None:
            checkpoint.save(tasks[number], result)
        results[number] = result
        done(number)
    return [results[number] for number in range(len(tasks))]


def _made(
    tasks: Sequence[Task[T]], numbers: Sequence[int], executor: Executor | None, counters: Counters | None
) -> Iterator[tuple[int, T]]:
    """Numbers of tasks with their results, as they come."""
    if executor is None:
        for number in numbers:
            yield number, _watched(tasks[number], counters)
        return
    futures = {executor.submit(_run, tasks[number]): number for number in numbers}
    try:
        for future in as_completed(futures):
            yield futures[future], future.result()
    except BrokenExecutor as problem:
        raise SimulationError(f"a process that ran a simulation has died: {problem}") from problem
    finally:
        for future in futures:
            future.cancel()


def _run(task: Task[T]) -> T:
    """In the process of the executor: nothing else lives there, and nothing has to be collected before the end."""
    import gc

    gc.freeze()
    return _watched(task, _counters)


def _watched(task: Task[T], counters: Counters | None) -> T:
    return task.run(counters=counters) if isinstance(task, Watchable) and counters else task.run()
