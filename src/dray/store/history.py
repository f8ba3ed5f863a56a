"""The events since some revision, in order: what a watch that begins in the past is served from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from operator import attrgetter
from typing import Final

from dray.store.interface import Event

_revision = attrgetter("revision")
#: An event with its key and what is around the value it superseded.
_EVENT_BYTES: Final = 256


class History:
    """Every event after ``floor``. ``held_bytes`` is what only the history still holds in memory."""

    __slots__ = ("_events", "_on_disk", "floor", "held_bytes")

    def __init__(self, floor: int, *, on_disk: str = "") -> None:
        self.floor = floor
        self._on_disk = on_disk  # a prefix of keys whose newest value nobody else holds either
        self.held_bytes = 0
        self._events: list[Event] = []

    def __len__(self) -> int:
        return len(self._events)

    def extend(self, events: Sequence[Event]) -> None:
        self._events += events
        self.held_bytes += self._held(events)

    def since(self, revision: int, *, prefix: str = "") -> Sequence[Event]:
        """Events newer than ``revision``, which is not below the floor, whose key begins with ``prefix``."""
        recent = self._events[bisect_right(self._events, revision, key=_revision) :]
        return [event for event in recent if event.key.startswith(prefix)] if prefix else recent

    def drop(self, revision: int) -> Sequence[Event]:
        """Forget everything up to ``revision``, and return it."""
        count = bisect_right(self._events, revision, key=_revision)
        dropped = self._events[:count]
        del self._events[:count]
        self.held_bytes -= self._held(dropped)
        self.floor = max(self.floor, revision)
        return dropped

    def older_half(self) -> int:
        """The revision to ``drop`` in order to halve what is kept."""
        return self._events[len(self._events) // 2].revision if self._events else self.floor

    def _held(self, events: Sequence[Event]) -> int:
        held, on_disk = len(events) * _EVENT_BYTES, self._on_disk
        for event in events:
            if event.previous is not None:
                held += len(event.previous.value)
            if on_disk and event.value is not None and event.key.startswith(on_disk):
                held += len(event.value)
        return held
