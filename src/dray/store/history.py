"""The events since some revision, in order: what a watch that begins in the past is served from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Final

from dray.store.interface import Event, KeyValue

#: What a key held, or at which revision that was written.
Former = KeyValue | int

_revision = attrgetter("revision")
#: An event with its key and what is around the value it superseded.
EVENT_BYTES: Final = 256


class History:
    """Every event after ``floor``. ``held_bytes`` is what only the history still holds in memory."""

    __slots__ = ("_events", "floor", "held_bytes")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.held_bytes = 0
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Sequence[Event]) -> None:
        self._events += events
        self.held_bytes += _held(events)

    def since(self, revision: int, *, prefix: str = "") -> Sequence[Event]:
        """Events newer than ``revision``, which is not below the floor, whose key begins with ``prefix``."""
        recent = self._events[bisect_right(self._events, revision, key=_revision) :]
        return [event for event in recent if event.key.startswith(prefix)] if prefix else recent

    def batches(self, revision: int, *, prefix: str) -> Iterator[Sequence[Event]]:
        if events := self.since(revision, prefix=prefix):
            yield events

    def former(self, revision: int, *, prefix: str) -> Mapping[str, Former | None]:
        """The keys with events newer than ``revision``, and what each held then, as ``entries`` takes it."""
        found: dict[str, Former | None] = {}
        for event in self.since(revision, prefix=prefix):
            found.setdefault(event.key, event.previous)
        return found

    def entries(self, former: Mapping[str, Former]) -> Mapping[str, KeyValue]:
        return {key: entry for key, entry in former.items() if isinstance(entry, KeyValue)}

    def drop(self, revision: int) -> list[int]:
        """Forget everything up to ``revision``, and return the revisions whose values cannot be read any more."""
        count = bisect_right(self._events, revision, key=_revision)
        dropped = self._events[:count]
        del self._events[:count]
        self.held_bytes -= _held(dropped)
        self.floor = max(self.floor, revision)
        gone: list[int] = []
        for event in dropped:
            if event.previous is not None:
                gone.append(event.previous.mod_revision)
            if event.value is None:
                gone.append(event.revision)
        return gone

    def older_half(self) -> int:
        """The revision to ``drop`` in order to halve what is kept."""
        return self._events[len(self._events) // 2].revision if self._events else self.floor


def _held(events: Sequence[Event]) -> int:
    held = len(events) * EVENT_BYTES
    for event in events:
        if event.previous is not None:
            held += len(event.previous.value)
    return held
