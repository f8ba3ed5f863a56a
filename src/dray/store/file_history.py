"""The history of a store whose file has every superseded value anyway: what is held in memory says where to read."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from dray.store.history import EVENT_BYTES, Former
from dray.store.interface import Event, KeyValue, StoreUnavailable

#: What was written at each of these revisions: the revision at which its key was created, and the value.
ReadRows = Callable[[Sequence[int]], Mapping[int, tuple[int, bytes | None]]]


#: Events whose values are read together: half a megabyte of usual objects.
_AT_ONCE: Final = 256


class FileHistory:
    """Every event after ``floor``, as ``History`` has them. ``held_bytes`` is what the file holds for the history alone.

    Events follow each other without gaps in their revisions, so an event's place is told by its revision.
    """

    __slots__ = ("_first", "_keys", "_on_disk", "_read", "_replaced", "_sizes", "floor", "held_bytes")

    def __init__(self, floor: int, read: ReadRows, *, on_disk: str) -> None:
        self.floor = floor
        self.held_bytes = 0
        self._read = read
        self._on_disk = on_disk
        self._first = floor + 1  # the revision of the first event
        self._keys: list[str] = []
        #: the revision of what the event replaced; 0: nothing; negative: it deleted that
        self._replaced = array("q")
        #: by batch: the revision of its last event, and its size
        self._sizes: deque[tuple[int, int]] = deque()

    def __len__(self) -> int:
        return len(self._keys)

    def extend(self, events: Sequence[Event]) -> None:
        if not self._keys and events:
            self._first = events[0].revision
        keys, on_disk, size = self._keys, self._on_disk, len(events) * EVENT_BYTES
        replaced: list[int] = []
        for event in events:
            key, previous, value = event.key, event.previous, event.value
            if previous is None:
                keys.append(key)
                replaced.append(0)
            else:
                keys.append(previous.key)  # the same text, and others hold it already
                replaced.append(previous.mod_revision if value is not None else -previous.mod_revision)
                size += len(previous.value)
            if value is not None and key.startswith(on_disk):
                size += len(value)
        if events:
            self._replaced.extend(replaced)
            self._sizes.append((events[-1].revision, size))
            self.held_bytes += size

    def since(self, revision: int, *, prefix: str = "") -> Sequence[Event]:
        """Events newer than ``revision``, which is not below the floor, whose key begins with ``prefix``."""
        return [event for batch in self.batches(revision, prefix=prefix) for event in batch]

    def batches(self, revision: int, *, prefix: str) -> Iterator[Sequence[Event]]:
        """The same piece by piece, for those who need not have all values in memory at once."""
        places = [
            place
            for place in range(self._place(revision + 1), len(self._keys))
            if self._keys[place].startswith(prefix)
        ]
        for start in range(0, len(places), _AT_ONCE):
            yield self._events(places[start : start + _AT_ONCE])

    def _events(self, places: Sequence[int]) -> Sequence[Event]:
        first, replaced = self._first, self._replaced
        wanted = {first + place for place in places}
        wanted.update(abs(replaced[place]) for place in places)
        wanted.discard(0)
        rows = self._read(sorted(wanted))
        try:
            return [self._event(place, rows) for place in places]
        except KeyError as error:
            raise StoreUnavailable(f"the file lacks what was written at revision {error}") from None

    def _event(self, place: int, rows: Mapping[int, tuple[int, bytes | None]]) -> Event:
        key, replaced, revision = self._keys[place], self._replaced[place], self._first + place
        previous = None
        if replaced:
            before = abs(replaced)
            previous = _entry(key, before, rows)
        return Event(revision, key, rows[revision][1], previous)

    def former(self, revision: int, *, prefix: str) -> Mapping[str, Former | None]:
        """The keys with events newer than ``revision``, and what each held then, as ``entries`` takes it."""
        found: dict[str, Former | None] = {}
        keys, replaced = self._keys, self._replaced
        for place in range(self._place(revision + 1), len(keys)):
            if (key := keys[place]).startswith(prefix):
                found.setdefault(key, abs(replaced[place]) or None)
        return found

    def entries(self, former: Mapping[str, Former]) -> Mapping[str, KeyValue]:
        """What keys held, as ``former`` has told."""
        wanted = {key: revision for key, revision in former.items() if isinstance(revision, int)}
        rows = self._read(sorted(wanted.values()))
        try:
            return {key: _entry(key, revision, rows) for key, revision in wanted.items()}
        except KeyError as error:
            raise StoreUnavailable(f"the file lacks what was written at revision {error}") from None

    def drop(self, revision: int) -> list[int]:
        """Forget everything up to ``revision``, and return the revisions whose values cannot be read any more."""
        count = min(self._place(revision + 1), len(self._keys))
        gone: list[int] = []
        for place in range(count):
            replaced = self._replaced[place]
            if replaced:
                gone.append(abs(replaced))
            if replaced < 0:
                gone.append(self._first + place)
        del self._keys[:count], self._replaced[:count]
        while self._sizes and self._sizes[0][0] <= revision:
            self.held_bytes -= self._sizes.popleft()[1]
        self._first += count
        self.floor = max(self.floor, revision)
        return gone

    def older_half(self) -> int:
        """The revision to ``drop`` in order to halve what is kept."""
        return self._first + len(self._keys) // 2 if self._keys else self.floor

    def _place(self, revision: int) -> int:
        return max(revision - self._first, 0)


def _entry(key: str, revision: int, rows: Mapping[int, tuple[int, bytes | None]]) -> KeyValue:
    created, value = rows[revision]
    if value is None:
        raise KeyError(revision)
    return KeyValue(key, value, created, revision)
