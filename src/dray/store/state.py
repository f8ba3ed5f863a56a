"""The state of an embedded store: the newest entries in key order, and the events since the last compaction.

Everything here happens at once. A past state is the newest one with the events since undone, which is why an event carries
what its key held before. Where there is a file that has it, what was superseded is read from there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dray.store.disk_keys import DiskKeys
from dray.store.file_history import FileHistory
from dray.store.history import Former, History
from dray.store.interface import Compacted, Event, FutureRevision, KeyValue, Page
from dray.store.keys import SortedKeys, prefix_end

#: An empty store stands at revision 1, as etcd's does: the first write is revision 2.
FIRST_REVISION = 1


class State:
    """Entries at ``revision``, and the history since. Revisions have no gaps: one write, one revision."""

    __slots__ = ("_entries", "_keys", "_on_disk", "compacted", "disk", "history", "revision")

    def __init__(
        self,
        entries: Iterable[KeyValue] = (),
        *,
        revision: int = FIRST_REVISION,
        compacted: int = 0,
        disk: DiskKeys | None = None,
    ) -> None:
        self.disk = disk
        self._on_disk = "" if disk is None else disk.prefix
        self._entries = {entry.key: entry for entry in entries}
        self._keys = SortedKeys(self._entries)
        self.revision = revision
        self.compacted = compacted
        self.history: History | FileHistory = (
            History(compacted)
            if disk is None
            else FileHistory(compacted, disk.written, on_disk=self._on_disk)
        )

    def get(self, key: str) -> KeyValue | None:
        found = self._entries.get(key)
        if found is None and self.disk is not None and key.startswith(self._on_disk):
            return self.disk.get(key, at=self.revision)
        return found

    def is_on_disk(self, key: str) -> bool:
        return self.disk is not None and key.startswith(self._on_disk)

    def apply(self, events: Sequence[Event]) -> None:
        """Make ``events`` the newest. Their revisions are the next ones, ``previous`` is what each key holds."""
        entries, keys, on_disk = self._entries, self._keys, self._on_disk
        for event in events:
            revision, key, value, previous = event.revision, event.key, event.value, event.previous
            if on_disk and key.startswith(on_disk):
                assert self.disk is not None
                self.disk.note(key)
            elif value is None:
                del entries[key]
                keys.remove(key)
            elif previous is None:
                entries[key] = KeyValue(key, value, revision, revision)
                keys.add(key)
            else:
                entries[key] = KeyValue(previous.key, value, previous.create_revision, revision)
            self.revision = revision
        self.history.extend(events)

    def events(self, prefix: str, *, after: int) -> Sequence[Event]:
        """Events under ``prefix`` newer than ``after``, or ``Compacted``."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        return self.history.since(after, prefix=prefix)

    def batches(self, prefix: str, *, after: int) -> Iterator[Sequence[Event]]:
        """The same piece by piece, for those who need not have all values in memory at once."""
        if after < self.compacted:
            raise Compacted(after, self.compacted)
        return self.history.batches(after, prefix=prefix)

    def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Entries that are held in memory."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        low, high = max(start, prefix), prefix_end(prefix)
        if revision in (0, self.revision):
            keys, remaining = self._keys.between(low, high, limit)
            entries = [self._entries[key] for key in keys]
        else:
            entries, remaining = self._past(prefix, low, high, limit, revision)
        return Page(entries, revision or self.revision, more=remaining > 0, remaining=remaining)

    def _past(
        self, prefix: str, low: str, high: str | None, limit: int, revision: int
    ) -> tuple[list[KeyValue], int]:
        """A range as it was at ``revision``: the keys untouched since, and what the others held then."""
        if revision < self.compacted:
            raise Compacted(revision, self.compacted)
        undone: dict[str, Former | None] = {
            key: held
            for key, held in self.history.former(revision, prefix=prefix).items()
            if key >= low and not self.is_on_disk(key)
        }
        # However many of the first keys were touched since, enough untouched ones are left to fill the limit.
        keys, beyond = self._keys.between(low, high, limit and limit + len(undone))
        then = [key for key in keys if key not in undone]
        then += [key for key, held in undone.items() if held is not None]
        then.sort()
        touched_beyond = beyond and sum(key > keys[-1] and key in self._entries for key in undone)
        cut = then[:limit] if limit else then
        former = self.history.entries({key: held for key in cut if (held := undone.get(key)) is not None})
        entries = [former[key] if key in undone else self._entries[key] for key in cut]
        return entries, len(then) - len(cut) + beyond - touched_beyond

    def compact(self, revision: int) -> list[int]:
        """Forget the history up to ``revision``; returns the revisions whose values cannot be read any more."""
        if revision > self.revision:
            raise FutureRevision(revision, self.revision)
        if revision <= self.compacted:
            return []
        self.compacted = revision
        return self.history.drop(revision)
