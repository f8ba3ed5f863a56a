"""How far runs are, for whoever watches: counters that processes share, and the pods per second that follow from them."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any

from dray.simulate.model import Arrival

if TYPE_CHECKING:
    from dray.simulate.model import Event

#: how often the counters are looked at, in seconds
_PERIOD = 0.25

#: a number that several processes share
_Shared = Any


@dataclass(frozen=True)
class Counters:
    """What all runs have done so far. Processes of this machine share them; those of other machines have none."""

    pods: _Shared  # that have arrived
    expected: _Shared  # pods of the runs that have begun
    begun: _Shared  # runs

    @classmethod
    def make(cls) -> Counters:
        context = multiprocessing.get_context("spawn")
        return cls(*(context.Value("Q", 0) for _ in range(3)))

    def begin(self, pods: int) -> Callable[[int], None]:
        """A run begins, with so many pods; what is returned is called with how many have arrived."""
        _add(self.expected, pods)
        _add(self.begun, 1)
        seen = 0

        def arrived(number: int) -> None:
            nonlocal seen
            _add(self.pods, number - seen)
            seen = number

        return arrived


def _add(shared: _Shared, number: int) -> None:
    with shared.get_lock():
        shared.value += number


def number_of_pods(events: Iterable[Event]) -> int:
    return sum(isinstance(event, Arrival) for event in events)


class Watcher:
    """Looks at counters now and then, and says what a bar shows."""

    def __init__(
        self,
        counters: Counters,
        runs: int,
        show: Callable[[dict[str, Any]], None],
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._counters = counters
        self._runs = runs
        self._ended = self._kept = 0
        self._show = show
        self._clock = clock
        self._began = clock()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="progress", daemon=True)

    def done(self, number: int) -> None:
        """A run has ended, or its result was kept. Kept results come before the first run begins."""
        self._ended += 1
        if not self._counters.begun.value:
            self._kept += 1

    def look(self) -> dict[str, Any]:
        """Pods that have arrived, how many there will be in all runs, the rate, and the runs that have ended."""
        counters = self._counters
        pods, expected, begun = counters.pods.value, counters.expected.value, counters.begun.value
        seconds = self._clock() - self._began
        # Runs that have not begun are taken to be as large as the others.
        waiting = self._runs - self._kept - begun
        return {
            "completed": pods,
            "total": expected + round(expected / begun * waiting) if begun else None,
            "rate": f"{pods / seconds:,.0f} pods/s" if pods and seconds > 0 else "",
            "runs": f"{self._ended} of {self._runs} runs",
        }

    def _watch(self) -> None:
        while not self._stop.wait(_PERIOD):
            self._show(self.look())

    def __enter__(self) -> Watcher:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
