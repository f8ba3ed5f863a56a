"""The events since some revision, in order: what a watch that begins in the past is served from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter

from dray.store.interface import Event

_revision = attrgetter("revision")


class History:
    """Every event after ``floor``. ``superseded_bytes`` is what only the history still holds in memory."""

    __slots__ = ("_events", "floor", "superseded_bytes")

    def __init__(self, floor: int) -> None:
        self.floor = floor
        self.superseded_bytes = 0
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Sequence[Event]) -> None:
        self._events += events
        for event in events:
            if event.previous is not None:
                self.superseded_bytes += len(event.previous.value)

    def since(self, revision: int, *, prefix: str = "") -> Sequence[Event]:
        """Events newer than ``revision``, which is not below the floor, whose key begins with ``prefix``."""
        recent = self._events[bisect_right(self._events, revision, key=_revision) :]
        return [event for event in recent if event.key.startswith(prefix)] if prefix else recent

    def drop(self, revision: int) -> Sequence[Event]:
        """Forget everything up to ``revision``, and return it."""
        count = bisect_right(self._events, revision, key=_revision)
        dropped = self._events[:count]
        del self._events[:count]
        self.superseded_bytes -= sum(
            len(event.previous.value) for event in dropped if event.previous is not None
        )
        self.floor = max(self.floor, revision)
        return dropped

    def older_half(self) -> int:
        """The revision to ``drop`` in order to halve what is kept."""
        return self._events[len(self._events) // 2].revision if self._events else self.floor
