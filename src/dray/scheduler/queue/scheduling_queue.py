"""The scheduling queue: active pods by priority, pods in backoff, unschedulable pods and gated pods.

An unschedulable pod stays in the queue until an event in the cluster may help it (``queueing_hints``), and is then
requeued: it becomes active, at once or after its backoff. Time is a parameter.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Protocol

import msgspec

from dray.placement.cache.pods import PodInfo
from dray.scheduler.queue.unschedulable_pods import UnschedulablePods

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.scheduler.queue.queueing_hints import Subject

INITIAL_BACKOFF = 1.0
MAX_BACKOFF = 10.0
#: an unschedulable pod is requeued after this long even if no event could help it
MAX_UNSCHEDULABLE_SECONDS = 300.0
_FIRST = float("-inf")  # in place of a priority: before every other
_STALE_ENTRIES = 64  # of pods that are not in backoff any more, before the heap is made anew


class QueuedPodInfo(msgspec.Struct):
    """A pod in the queue, with what is remembered between attempts."""

    pod: PodInfo
    since: float
    attempts: int = 0
    failures: int = 0  # attempts that count towards the backoff
    error: bool = False  # the last attempt ended in an error, not in rejections
    rejected_by: frozenset[str] = frozenset()
    gated_by: str = ""
    reported_gate: str = ""  # the gate that an event was written for
    last_attempt: float = 0.0
    first_attempt: float | None = None
    in_flight: bool = False  # the outcome of the last attempt is still being written
    evaluation_seconds: float = 0.0  # what the selectors of its claims took in this attempt
    requeued: bool = False  # meanwhile an event happened that may help
    goes_first: bool = False  # before all others, whatever their priority
    gang: QueuedGang | None = None  # the entry stands for a group of pods, and ``pod`` is a stand-in

    def adopt_newer(self, written: Pod) -> None:
        """Go on with the pod as it was written, unless a newer version of it is known already."""
        if _version(written) > _version(self.pod.document):
            self.pod = self.pod.updated(written)


class QueuedGang(Protocol):
    """A group of pods that is in the queue as one entry."""

    def may_be_helped(self, hint: QueueingHint) -> bool:
        """Whether an event may help a member that was rejected."""
        ...


#: whether an event may help a pod
QueueingHint = Callable[[QueuedPodInfo], bool]


def backoff(failures: int, *, first: float = INITIAL_BACKOFF, longest: float = MAX_BACKOFF) -> float:
    return min(first * 2 ** min(failures - 1, 64), longest) if failures > 0 else 0.0


class SchedulingQueue:
    """Active, backing off, unschedulable, gated. Every pod is in at most one of them."""

    def __init__(
        self,
        *,
        clock: Callable[[], float],
        initial_backoff: float = INITIAL_BACKOFF,
        max_backoff: float = MAX_BACKOFF,
    ) -> None:
        self._clock = clock
        self._backoff = partial(backoff, first=initial_backoff, longest=max_backoff)
        self._serial = itertools.count()
        self._active_heap: list[tuple[float, float, int, str]] = []  # (-priority, since, serial, uid)
        self._backoff_heap: list[tuple[float, int, str]] = []  # (when, serial, uid)
        self._early_heap: list[tuple[float, float, int, str]] = []  # those in backoff, as in the active heap
        self._active: dict[str, tuple[QueuedPodInfo, int]] = {}  # uid → entry and its valid serial
        self._backing_off: dict[str, tuple[QueuedPodInfo, int]] = {}
        self._unschedulable = UnschedulablePods()
        self._gated: dict[str, QueuedPodInfo] = {}

    def __len__(self) -> int:
        return len(self._active) + len(self._backing_off) + len(self._unschedulable) + len(self._gated)

    @property
    def counts(self) -> dict[str, int]:
        return {
            "active": len(self._active),
            "backoff": len(self._backing_off),
            "unschedulable": len(self._unschedulable),
            "gated": len(self._gated),
        }

    def rejected(self) -> Iterator[QueuedPodInfo]:
        """The unschedulable pods."""
        return iter(self._unschedulable)

    def add(self, pod: PodInfo, *, gate: str = "") -> QueuedPodInfo:
        """A pod without a node. A gated pod is not tried until its gate is lifted."""
        return self._enter(pod, gate, self._activate)

    def move_first(self, entry: QueuedPodInfo) -> None:
        """The entry goes before all others."""
        entry.goes_first = True
        if entry.pod.uid in self._active:
            self._activate(entry)

    def _enter(self, pod: PodInfo, gate: str, open_gate: Callable[[QueuedPodInfo], None]) -> QueuedPodInfo:
        entry = self.discard(pod.uid) or QueuedPodInfo(pod, since=self._clock())
        entry.pod = pod
        entry.gated_by = gate
        if gate:
            self._gated[pod.uid] = entry
        else:
            open_gate(entry)
        return entry

    def update(self, pod: PodInfo, *, gate: str, may_help: bool) -> None:
        """The pod itself has changed; ``may_help``: in a way that could make it schedulable."""
        held = self._backing_off.get(pod.uid)
        if pod.uid in self._gated or (pod.uid in self._unschedulable and may_help) or gate:
            self._enter(pod, gate, self._requeue)
        elif pod.uid in self._unschedulable:
            self._unschedulable.update(pod)
        elif held is not None:
            entry, serial = held
            changed = entry.pod.priority != pod.priority
            entry.pod = pod
            if changed:
                self._may_pop_early(entry, serial)
        elif pod.uid in self._active:
            entry, _ = self._active[pod.uid]
            if entry.pod.priority != pod.priority:
                self.discard(pod.uid)
                entry.pod = pod
                self._activate(entry)
            else:
                entry.pod = pod

    def get(self, uid: str) -> QueuedPodInfo | None:
        held = self._active.get(uid) or self._backing_off.get(uid)
        if held is not None:
            return held[0]
        return self._unschedulable.get(uid) or self._gated.get(uid)

    def at_gate(self, uid: str) -> QueuedPodInfo | None:
        return self._gated.get(uid)

    def is_due(self, uid: str, *, requeued: bool = False) -> bool:
        """Whether the pod is active; ``requeued``: or would be if it were requeued now."""
        if uid in self._active:
            return True
        entry = self._unschedulable.get(uid) if requeued else None
        return entry is not None and not self._is_backing_off(entry)

    def discard(self, uid: str) -> QueuedPodInfo | None:
        held = self._active.pop(uid, None) or self._backing_off.pop(uid, None)
        if held is not None:
            return held[0]
        return self._unschedulable.pop(uid) or self._gated.pop(uid, None)

    def pop(self) -> QueuedPodInfo | None:
        """The next pod to try. When no pod is active, a pod in backoff is tried early unless it had an error."""
        self.flush()
        entry = self._pop_active() or self._pop_backoff()
        if entry is not None:
            entry.attempts += 1
            now = self._clock()
            entry.last_attempt = now
            if entry.first_attempt is None:
                entry.first_attempt = now
        return entry

    def _pop_active(self) -> QueuedPodInfo | None:
        while self._active_heap:
            _, _, serial, uid = heapq.heappop(self._active_heap)
            held = self._active.get(uid)
            if held is not None and held[1] == serial:
                del self._active[uid]
                return held[0]
        return None

    def _pop_backoff(self) -> QueuedPodInfo | None:
        while self._early_heap:
            rank, _, serial, uid = heapq.heappop(self._early_heap)
            held = self._backing_off.get(uid)
            if held is not None and held[1] == serial and rank == -held[0].pod.priority:
                del self._backing_off[uid]
                return held[0]
        return None

    def add_unschedulable(
        self, entry: QueuedPodInfo, *, rejected_by: frozenset[str], error: bool = False
    ) -> None:
        """An attempt ended without a node. A pod that no plugin rejected is tried again after its backoff."""
        entry.failures += 1
        entry.requeued = False
        entry.rejected_by = rejected_by
        entry.error = error
        if rejected_by and not error:
            self._unschedulable.add(entry)
        else:
            self._back_off(entry)

    def gate_again(self, entry: QueuedPodInfo, gate: str) -> None:
        """A claim of the pod is missing since the pod became active: it is gated as if it had not been tried."""
        entry.attempts -= 1
        entry.gated_by = gate
        self._gated[entry.pod.uid] = entry

    def adopt_newer(self, entry: QueuedPodInfo, written: Pod) -> None:
        """The status of the pod was written: the entry goes on with the pod as it is now."""
        entry.adopt_newer(written)
        if self._unschedulable.get(entry.pod.uid) is entry:
            self._unschedulable.update(entry.pod)

    def done(self, entry: QueuedPodInfo) -> None:
        """The outcome of the last attempt is written: the pod is requeued if an event happened meanwhile."""
        entry.in_flight = False
        if entry.requeued and self._unschedulable.get(entry.pod.uid) is entry:
            self._requeue_all([entry])

    @property
    def has_unschedulable(self) -> bool:
        return bool(self._unschedulable)

    def requeue(self, hint: QueueingHint, *, about: Iterable[Subject] | None = None) -> int:
        """Requeue every unschedulable pod that an event may help; returns how many.

        ``about``: the subjects of the event. Pods that it does not concern are not asked.
        """
        asked = self._unschedulable if about is None else self._unschedulable.concerned(about)
        return self._requeue_all(
            [e for e in asked if (hint(e) if e.gang is None else e.gang.may_be_helped(hint))]
        )

    def requeue_these(self, uids: Iterable[str]) -> int:
        return self._requeue_all([e for u in uids if (e := self._unschedulable.get(u)) is not None])

    def gated(self) -> Iterable[QueuedPodInfo]:
        return self._gated.values()

    def next_due(self) -> float | None:
        """When the next backoff ends."""
        return self._backoff_heap[0][0] if self._backoff_heap else None

    def flush(self) -> None:
        """Pods whose backoff is over become active."""
        now = self._clock()
        while self._backoff_heap and self._backoff_heap[0][0] <= now:
            _, serial, uid = heapq.heappop(self._backoff_heap)
            held = self._backing_off.get(uid)
            if held is not None and held[1] == serial:
                del self._backing_off[uid]
                self._activate(held[0])

    def flush_unschedulable(self) -> None:
        now = self._clock()
        self._requeue_all(
            [e for e in self._unschedulable if now - e.last_attempt > MAX_UNSCHEDULABLE_SECONDS]
        )

    def _requeue_all(self, entries: list[QueuedPodInfo]) -> int:
        for entry in entries:
            self._unschedulable.pop(entry.pod.uid)
            self._requeue(entry)
        return len(entries)

    def _requeue(self, entry: QueuedPodInfo) -> None:
        if entry.in_flight:
            entry.requeued = True
            self._unschedulable.add(entry)
            return
        entry.requeued = False
        if self._is_backing_off(entry):
            self._back_off(entry)
        else:
            self._activate(entry)

    def _is_backing_off(self, entry: QueuedPodInfo) -> bool:
        return bool(entry.failures) and entry.last_attempt + self._backoff(entry.failures) > self._clock()

    def _activate(self, entry: QueuedPodInfo) -> None:
        serial = next(self._serial)
        self._active[entry.pod.uid] = (entry, serial)
        rank = _FIRST if entry.goes_first else -entry.pod.priority
        heapq.heappush(self._active_heap, (rank, entry.since, serial, entry.pod.uid))

    def _back_off(self, entry: QueuedPodInfo) -> None:
        serial = next(self._serial)
        due = max(entry.last_attempt, self._clock() if entry.error else entry.last_attempt) + self._backoff(
            entry.failures
        )
        self._backing_off[entry.pod.uid] = (entry, serial)
        heapq.heappush(self._backoff_heap, (due, serial, entry.pod.uid))
        self._may_pop_early(entry, serial)

    def _may_pop_early(self, entry: QueuedPodInfo, serial: int) -> None:
        if entry.error:
            return
        heapq.heappush(self._early_heap, (-entry.pod.priority, entry.since, serial, entry.pod.uid))
        if len(self._early_heap) > 2 * len(self._backing_off) + _STALE_ENTRIES:
            self._early_heap = [
                (-one.pod.priority, one.since, number, uid)
                for uid, (one, number) in self._backing_off.items()
                if not one.error
            ]
            heapq.heapify(self._early_heap)


def _version(pod: Pod) -> int:
    return int(pod["metadata"].get("resourceVersion") or 0)
