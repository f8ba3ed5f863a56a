"""What the embedded stores share: reading, deciding writes, watching, expiry and compaction, all in memory.

A subclass says how a decided write becomes durable. The rule that keeps this simple: a key has at most one write that
is decided but not durable, and the next writer of the same key waits for its settlement first. So every decision
rests on durable state, what is not durable is never seen, and a failed commit fails its own writers only.
"""

from __future__ import annotations

import asyncio
import heapq
import logging
import time
from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import Final, NamedTuple, TypedDict

from dray.store.disk_keys import DiskKeys, Due
from dray.store.fanout import LAG_LIMIT, CallbackSubscription, Fanout, QueuedWatch
from dray.store.interface import (
    Compacted,
    Delete,
    Deliver,
    Event,
    KeyExists,
    KeyNotFound,
    KeyValue,
    Lookup,
    Lost,
    Operation,
    Page,
    Past,
    Put,
    RevisionMismatch,
    StoreUnavailable,
)
from dray.store.keys import prefix_end
from dray.store.progress import Progress
from dray.store.state import State

_log = logging.getLogger(__name__)

#: Seconds of history kept at least, as kube-apiserver keeps on etcd, unless one of the bounds below comes first.
COMPACTION_INTERVAL: Final = 300.0
HISTORY_EVENTS: Final = 100_000
HISTORY_BYTES: Final = 24 * 2**20
EXPIRY_RETRY: Final = 1.0
#: Keys on disk that are ended in one turn of the loop.
EXPIRED_ON_DISK: Final = 500


class _Expiry(NamedTuple):
    at: float
    key: str
    revision: int


class Decided(NamedTuple):
    """A write of a transaction whose condition holds: what it writes (None: deletes), and what it replaces."""

    key: str
    value: bytes | None
    previous: KeyValue | None


class EmbeddedOptions(TypedDict, total=False):
    """What can be chosen for every embedded store."""

    clock: Callable[[], float]  # epoch seconds
    compaction_interval: float
    history_events: int
    history_bytes: int
    lag_limit: int  # events a watcher may fall behind


class EmbeddedStore:
    """A store whose state lives in this process. Construct it inside the event loop that will use it."""

    def __init__(
        self,
        state: State,
        *,
        clock: Callable[[], float] = time.time,
        compaction_interval: float = COMPACTION_INTERVAL,
        history_events: int = HISTORY_EVENTS,
        history_bytes: int = HISTORY_BYTES,
        lag_limit: int = LAG_LIMIT,
    ) -> None:
        self._state = state
        self._progress = Progress(state.revision)
        self._fanout = Fanout()
        self._loop = asyncio.get_running_loop()
        self._in_flight: set[str] = set()  # keys with a write that is decided and not durable yet
        self._settled: asyncio.Future[None] | None = None  # of those who wait for some of these writes
        self._clock = clock
        self._expiries: list[_Expiry] = []
        self._expiry_timer: asyncio.TimerHandle | None = None
        self._last_due: Due | None = None
        self._disk_timer: asyncio.Handle | None = None
        self._renewal: asyncio.Task[None] | None = None
        if state.disk is not None:
            self._disk_timer = self._loop.call_soon(self._expire_on_disk, state.disk)
        self._history_events = history_events
        self._history_bytes = history_bytes
        self._lag_limit = lag_limit
        self._closed = False
        self._compaction_interval = compaction_interval
        self._compact_next = state.revision
        self._compaction_timer = self._loop.call_later(compaction_interval, self._compact_periodically)

    # Reading

    @property
    def shared(self) -> bool:
        return False

    @property
    def revision(self) -> int:
        return self._state.revision

    async def get(self, key: str) -> KeyValue | None:
        self._check_open()
        return self._state.get(key)

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        self._check_open()
        page = self._state.range(prefix, start=start, limit=limit, revision=revision)
        disk = self._state.disk
        if disk is None or not (prefix.startswith(disk.prefix) or disk.prefix.startswith(prefix)):
            return page
        if page.revision < self._state.compacted:
            raise Compacted(page.revision, self._state.compacted)
        entries, following = await asyncio.to_thread(
            disk.range, max(start, prefix), _end_within(disk.prefix, prefix), limit=limit, at=page.revision
        )
        if page.revision < self._state.compacted:  # meanwhile
            raise Compacted(page.revision, self._state.compacted)
        return _merged(page, entries, following, limit)

    def lookup(self, prefix: str) -> Lookup | None:
        disk = self._state.disk
        return self._state.get if disk is not None and prefix.startswith(disk.prefix) else None

    @property
    def past(self) -> Past | None:
        return None

    async def current_revision(self) -> int:
        self._check_open()
        return self._state.revision

    async def wait_until_fresh(self, revision: int = 0) -> int:
        self._check_open()
        await self._progress.reached(revision)
        return self._state.revision

    # Writing

    async def check_writable(self) -> None:
        self._check_open()

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        while key in self._in_flight:
            await self._settlement()
        self._check_open()
        if (entry := self._state.get(key)) is not None:
            raise KeyExists(key, entry)
        submitted = self._submit(key, value, None, None if ttl is None else self._clock() + ttl)
        return submitted if isinstance(submitted, int) else await submitted

    async def update(self, key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        while key in self._in_flight:
            await self._settlement()
        previous = self._expect(key, expected)
        submitted = self._submit(key, value, previous, None if ttl is None else self._clock() + ttl)
        return submitted if isinstance(submitted, int) else await submitted

    async def delete(self, key: str, *, expected: int) -> int:
        while key in self._in_flight:
            await self._settlement()
        previous = self._expect(key, expected)
        submitted = self._submit(key, None, previous, None)
        return submitted if isinstance(submitted, int) else await submitted

    async def transact(self, operations: Sequence[Operation]) -> int:
        while self._in_flight and not self._in_flight.isdisjoint([each.key for each in operations]):
            await self._settlement()
        self._check_open()
        writes: list[Decided] = []
        for operation in operations:
            key, expected = operation.key, operation.expected
            entry = self._state.get(key)
            if entry is None:
                if expected:
                    raise KeyNotFound(key)
            elif entry.mod_revision != expected:
                raise KeyExists(key, entry) if not expected else RevisionMismatch(key, entry)
            if isinstance(operation, Put):
                writes.append(Decided(key, operation.value, entry))
            elif isinstance(operation, Delete):
                writes.append(Decided(key, None, entry))
        if not writes:
            return self._state.revision
        submitted = self._submit_all(writes)
        return submitted if isinstance(submitted, int) else await submitted

    def _expect(self, key: str, expected: int) -> KeyValue:
        self._check_open()
        entry = self._state.get(key)
        if entry is None:
            raise KeyNotFound(key)
        if entry.mod_revision != expected:
            raise RevisionMismatch(key, entry)
        return entry

    def _submit(
        self, key: str, value: bytes | None, previous: KeyValue | None, expires: float | None
    ) -> int | asyncio.Future[int]:
        """Make a decided write durable: its revision, at once or later. ``_in_flight`` holds its key meanwhile.

        The future is the writer's own: cancelling it gives up the answer, never the write. The next writer
        of the same key waits for the settlement instead.
        """
        raise NotImplementedError

    def _submit_all(self, writes: Sequence[Decided]) -> int | asyncio.Future[int]:
        """The same for the writes of one transaction: all of them become durable, or none."""
        raise NotImplementedError

    async def _settlement(self) -> None:
        """Wait until some of the writes under way are durable or have failed."""
        if self._settled is None:
            self._settled = self._loop.create_future()
        await asyncio.wait((self._settled,))  # which leaves it to the others if this one is cancelled

    def _tell_settlement(self) -> None:
        """Let those go on who wait for a settlement: they look for themselves whether theirs has come."""
        settled, self._settled = self._settled, None
        if settled is not None:
            settled.set_result(None)

    def _publish(self, events: list[Event], expiries: list[float | None]) -> None:
        """Durable events, in order: into the state, then out to everybody. Nothing can come in between."""
        self._state.apply(events)
        for event, expires in zip(events, expiries, strict=True):
            if expires is not None and not self._state.is_on_disk(event.key):
                self._expire_at(expires, event.key, event.revision)
        self._progress.advance(self._state.revision)
        self._fanout.publish(events)
        history = self._state.history
        while len(history) > self._history_events or history.held_bytes > self._history_bytes:
            # The older half at once, rarely, rather than one event at every write.
            self._discard(self._state.compact(history.older_half()))
            self._compact_next = max(self._compact_next, self._state.compacted)

    # Watching

    def watch(self, prefix: str, *, after: int) -> QueuedWatch:
        watch = QueuedWatch(self._fanout, prefix, after=after, limit=self._lag_limit)
        try:
            self._check_open()
            watch.backlog(self._state.events(prefix, after=after))
        except (Compacted, StoreUnavailable) as error:
            watch.fail(error)
        else:
            self._fanout.add(watch)
        return watch

    def subscribe(
        self, prefix: str, deliver: Deliver, *, after: int, lost: Lost | None = None
    ) -> CallbackSubscription:
        self._check_open()
        callback = CallbackSubscription(self._fanout, prefix, deliver, after=after, lost=lost)
        for missed in self._state.batches(prefix, after=after):
            deliver(missed)
        self._fanout.add(callback)
        return callback

    # Expiry

    def _expire_at(self, at: float, key: str, revision: int) -> None:
        heapq.heappush(self._expiries, _Expiry(at, key, revision))
        if self._expiries[0].revision == revision:
            self._arm_expiry()

    def _arm_expiry(self) -> None:
        if self._expiry_timer is not None:
            self._expiry_timer.cancel()
            self._expiry_timer = None
        if self._expiries and not self._closed:
            wait = max(self._expiries[0].at - self._clock(), 0.0)
            self._expiry_timer = self._loop.call_later(wait, self._expire)

    def _expire(self) -> None:
        """Delete what is past its time, unless it was written again since."""
        now = self._clock()
        while self._expiries and self._expiries[0].at <= now:
            self._end(heapq.heappop(self._expiries), now)
        self._arm_expiry()

    def _end(self, due: _Expiry, now: float) -> None:
        entry = self._state.get(due.key)
        if entry is None or entry.mod_revision != due.revision:
            return
        if due.key in self._in_flight:
            heapq.heappush(self._expiries, due._replace(at=now + EXPIRY_RETRY))
            return
        submitted = self._submit(due.key, None, entry, None)
        if isinstance(submitted, asyncio.Future):
            submitted.add_done_callback(lambda done: self._expired(done, due))

    def _expire_on_disk(self, disk: DiskKeys) -> None:
        """The same for keys on disk, of which nobody in memory knows when they end."""
        if self._closed:
            return
        now = self._clock()
        found = disk.due(after=self._last_due, until=now, at=self._state.revision, limit=EXPIRED_ON_DISK)
        for due in found:
            self._end(_Expiry(due.expires, due.key, due.revision), now)
        if found:
            self._last_due = found[-1]
            self._arm_expiry()
        if disk.is_crowded:
            self._renewal = asyncio.create_task(disk.renew())
        pause = EXPIRY_RETRY if len(found) < EXPIRED_ON_DISK else EXPIRY_RETRY / 10
        self._disk_timer = self._loop.call_later(pause, self._expire_on_disk, disk)

    def _expired(self, done: asyncio.Future[int], due: _Expiry) -> None:
        if (error := done.exception()) is not None and not self._closed:
            _log.warning("%s could not be expired, trying again: %s", due.key, error)
            self._expire_at(self._clock() + EXPIRY_RETRY, due.key, due.revision)

    # Compaction

    async def compact(self, revision: int) -> None:
        self._check_open()
        self._discard(self._state.compact(revision))

    def _discard(self, revisions: list[int]) -> None:
        """Called after a compaction with the revisions that cannot be read any more."""

    def _compact_periodically(self) -> None:
        self._discard(self._state.compact(self._compact_next))
        self._compact_next = self._state.revision
        self._compaction_timer = self._loop.call_later(self._compaction_interval, self._compact_periodically)

    # End

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._compaction_timer.cancel()
        if self._disk_timer is not None:
            self._disk_timer.cancel()
        self._arm_expiry()
        if self._renewal is not None:
            await asyncio.wait((self._renewal,))
        await self._drain()
        closed = StoreUnavailable("the store has been closed")
        self._progress.fail(closed)
        self._fanout.fail(closed)

    async def _drain(self) -> None:
        """Wait for the writes under way; none will come after them."""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnavailable("the store has been closed")


def _end_within(on_disk: str, prefix: str) -> str | None:
    """Where a range of ``prefix`` ends among the keys on disk; None: with them."""
    return prefix_end(prefix) if prefix.startswith(on_disk) else None


def _merged(page: Page, entries: Sequence[KeyValue], following: int, limit: int) -> Page:
    """A page of what is in memory together with one of what is on disk."""
    if not page.entries and not page.remaining:
        return Page(entries, page.revision, more=following > 0, remaining=following)
    together = sorted([*page.entries, *entries], key=attrgetter("key"))
    cut = together[:limit] if limit else together
    remaining = len(together) - len(cut) + page.remaining + following
    return Page(cut, page.revision, more=remaining > 0, remaining=remaining)
