"""Delivery of events: queued watches for remote readers, callbacks (subscriptions) for caches in this process.

Watchers are found by prefix, so the cost of a write grows with the number of watchers of its prefix only. All watchers of a prefix get
the very same batch, and none is waited for: one that lets too many events pile up is dropped.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from dray.store.interface import Deliver, Event, Lost, StoreError, WatcherTooSlow

_log = logging.getLogger(__name__)

#: Events a watcher may lag behind before it is dropped.
LAG_LIMIT: Final = 10_000
_FOLDERS_KNOWN: Final = 4096


class _Sink(Protocol):
    prefix: str

    def deliver(self, events: Sequence[Event]) -> None: ...
    def fail(self, error: StoreError) -> asyncio.Task[None] | None: ...


class Fanout:
    """Who listens, by prefix."""

    def __init__(self) -> None:
        # Prefixes that end in "/" are found by walking up a key, any others by trying each.
        # Dicts without values serve as ordered sets: thousands of watchers may come and go.
        self._folders: dict[str, dict[_Sink, None]] = {}
        self._others: dict[str, dict[_Sink, None]] = {}
        # For each folder that was written to, the folders above it that have watchers: there are few folders, and
        # listeners come and go seldom beside writes.
        self._above: dict[str, tuple[str, ...]] = {}

    def publish(self, events: Sequence[Event]) -> None:
        """Hand a batch of durable events to everybody it concerns."""
        if not self._folders and not self._others:
            return
        above = self._above
        batches: dict[str, list[Event]] = {}
        for event in events:
            key = event.key
            folder = key[: key.rfind("/") + 1]
            prefixes = above.get(folder)
            if prefixes is None:
                prefixes = self._look_up(folder)
            for prefix in prefixes:
                if prefix in batches:
                    batches[prefix].append(event)
                else:
                    batches[prefix] = [event]
            for prefix in self._others:
                if key.startswith(prefix):
                    batches.setdefault(prefix, []).append(event)
        for prefix, batch in batches.items():
            for sink in tuple(self._sinks(prefix).get(prefix, ())):
                sink.deliver(batch)

    def fail(self, error: StoreError) -> Sequence[asyncio.Task[None]]:
        """End every watch and subscription with ``error``; returns the tasks of those who read anew."""
        sinks = [
            sink for group in (self._folders, self._others) for listed in group.values() for sink in listed
        ]
        for sink in sinks:
            self.remove(sink)
        return [task for sink in sinks if (task := sink.fail(error)) is not None]

    def _look_up(self, folder: str) -> tuple[str, ...]:
        """The folders from the root down to ``folder`` that have watchers."""
        found = []
        slash = folder.find("/")
        while slash >= 0:
            slash += 1
            if folder[:slash] in self._folders:
                found.append(folder[:slash])
            slash = folder.find("/", slash)
        if len(self._above) >= _FOLDERS_KNOWN:
            self._above.clear()
        self._above[folder] = prefixes = tuple(found)
        return prefixes

    def add(self, sink: _Sink) -> None:
        group = self._sinks(sink.prefix)
        if sink.prefix not in group:
            self._above.clear()
            group[sink.prefix] = {}
        group[sink.prefix][sink] = None

    def remove(self, sink: _Sink) -> None:
        group = self._sinks(sink.prefix)
        if sink in (listed := group.get(sink.prefix, {})):
            del listed[sink]
            if not listed:
                self._above.clear()
                del group[sink.prefix]

    def _sinks(self, prefix: str) -> dict[str, dict[_Sink, None]]:
        return self._folders if prefix.endswith("/") else self._others


class CallbackSubscription:
    """A subscription: events are delivered in the call that publishes them."""

    __slots__ = ("_after", "_closed", "_deliver", "_fanout", "_lost", "prefix")

    def __init__(
        self, fanout: Fanout, prefix: str, deliver: Deliver, *, after: int, lost: Lost | None
    ) -> None:
        self.prefix = prefix
        self._fanout = fanout
        self._deliver = deliver
        self._lost = lost
        self._after = after
        self._closed = False

    def deliver(self, events: Sequence[Event]) -> None:
        if events[0].revision <= self._after:
            events = [event for event in events if event.revision > self._after]
            if not events:
                return
        if self._closed:  # by another subscriber, in this very round
            return
        try:
            self._deliver(events)
        except Exception as error:
            # The other subscribers and the writer must not pay for it; this one has a gap now and must start anew.
            _log.exception("a subscriber of %s failed", self.prefix)
            self.close()
            self.fail(StoreError(f"the subscriber failed: {error!r}"))

    def fail(self, error: StoreError) -> asyncio.Task[None] | None:
        return None if self._lost is None else self._lost(error)

    def close(self) -> None:
        self._closed = True
        self._fanout.remove(self)


class QueuedWatch:
    """A watch: batches wait in a queue for their reader, and the queue is bounded."""

    __slots__ = (
        "_after",
        "_backlog",
        "_error",
        "_fanout",
        "_lag",
        "_limit",
        "_queue",
        "_waiter",
        "closed",
        "prefix",
    )

    def __init__(self, fanout: Fanout, prefix: str, *, after: int, limit: int = LAG_LIMIT) -> None:
        self.prefix = prefix
        self.closed = False
        self._fanout = fanout
        self._backlog: Sequence[Event] = ()
        self._after = after
        self._limit = limit
        self._queue: deque[Sequence[Event]] = deque()
        self._lag = 0
        self._error: StoreError | None = None
        self._waiter: asyncio.Future[None] | None = None

    def backlog(self, events: Sequence[Event]) -> None:
        """What happened before the watch began: read first, and no lag of the reader's."""
        self._backlog = events
        self._wake()

    def deliver(self, events: Sequence[Event]) -> None:
        if events[0].revision <= self._after:
            events = [event for event in events if event.revision > self._after]
            if not events:
                return
        self._lag += len(events)
        if self._lag > self._limit:
            self._fanout.remove(self)
            self._backlog = ()
            self._queue.clear()
            self.fail(WatcherTooSlow(f"a watcher of {self.prefix} fell {self._lag} events behind"))
            return
        self._queue.append(events)
        self._wake()

    def fail(self, error: StoreError) -> None:
        """End the watch with ``error`` once what is queued has been read."""
        self._error = self._error or error
        self._wake()

    def close(self) -> None:
        self.closed = True
        self._fanout.remove(self)
        self._backlog = ()
        self._queue.clear()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def __aiter__(self) -> QueuedWatch:
        return self

    async def __anext__(self) -> Sequence[Event]:
        while not self._queue or self._backlog:
            if self._backlog:
                events, self._backlog = self._backlog, ()
                return events
            if self.closed:
                raise StopAsyncIteration
            if self._error is not None:
                raise self._error
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        events = self._queue.popleft()
        self._lag -= len(events)
        return events

    async def __aenter__(self) -> QueuedWatch:
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.close()
