"""The unschedulable pods, filed by what they wait for, so that an event finds those that it may concern.

Every pod that is scheduled causes several events while thousands of pods may wait. An event costs nothing for a pod that
has none of its subjects.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from dray.scheduler.queue.queueing_hints import EVERY_EVENT, subjects_of

if TYPE_CHECKING:
    from dray.placement.cache.pods import PodInfo
    from dray.scheduler.queue.queueing_hints import Subject
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo


class _Filed(NamedTuple):
    serial: int
    entry: QueuedPodInfo
    subjects: Collection[Subject]


class UnschedulablePods:
    """Entries of the queue, by the uid of their pod, in the order in which they were added."""

    def __init__(self) -> None:
        self._serial = itertools.count()
        self._filed: dict[str, _Filed] = {}
        self._by_subject: dict[Subject, dict[str, _Filed]] = {}

    def __len__(self) -> int:
        return len(self._filed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._filed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return (filed.entry for filed in self._filed.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        filed = self._filed.get(uid)
        return filed.entry if filed is not None else None

    def add(self, entry: QueuedPodInfo) -> None:
        self.pop(entry.pod.uid)
        self._file(entry, next(self._serial))

    def pop(self, uid: str) -> QueuedPodInfo | None:
        filed = self._filed.pop(uid, None)
        if filed is None:
            return None
        self._withdraw(uid, filed)
        return filed.entry

    def update(self, pod: PodInfo) -> None:
        """A newer version of a pod that is here: it may use other claims."""
        filed = self._filed[pod.uid]
        self._withdraw(pod.uid, filed)
        filed.entry.pod = pod
        self._file(filed.entry, filed.serial)

    def concerned(self, subjects: Iterable[Subject]) -> list[QueuedPodInfo]:
        """The pods that have one of these subjects, and the groups."""
        found: dict[str, _Filed] = {}
        for subject in (EVERY_EVENT, *subjects):
            if subject in self._by_subject:
                found |= self._by_subject[subject]
        return [filed.entry for filed in sorted(found.values(), key=_serial_of)]

    def _file(self, entry: QueuedPodInfo, serial: int) -> None:
        uid = entry.pod.uid
        filed = self._filed[uid] = _Filed(serial, entry, subjects_of(entry))
        for subject in filed.subjects:
            self._by_subject.setdefault(subject, {})[uid] = filed

    def _withdraw(self, uid: str, filed: _Filed) -> None:
        for subject in filed.subjects:
            others = self._by_subject[subject]
            del others[uid]
            if not others:
                del self._by_subject[subject]


def _serial_of(filed: _Filed) -> int:
    return filed.serial
