"""Correlation of events: each is written, counted on an earlier one, combined with similar ones, or dropped as spam.

Two ways, as upstream has them: core/v1 events count and are combined (client-go's ``record``); events.k8s.io events
become series (client-go's ``events``). Both only decide what is to be written.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from dray.client.workqueue import TokenBucket

if TYPE_CHECKING:
    from dray.api.types.core import Event as CoreEvent
    from dray.api.types.events import Event, EventSeries

#: Similar events about an object within the interval, from which on they are combined.
AGGREGATE_LIMIT: Final = 10
AGGREGATE_SECONDS: Final = 600.0
COMBINED_PREFIX: Final = "(combined from similar events): "
#: Events that one source may report about one object: so many at once, then one in five minutes.
SPAM_BURST: Final = 25
SPAM_QPS: Final = 1 / 300
#: Events of which a recorder knows that it has written them. Upstream has 4096 for the former and no bound for series.
CACHE_ENTRIES: Final = 1024
#: A series without a new event for so long has ended.
SERIES_SECONDS: Final = 360.0


#: Which object, in a form that can be compared; not its resourceVersion.
Identity = tuple[object, ...]
E = TypeVar("E")


class Occurrence(NamedTuple):
    """Something worth telling, in the terms of core/v1; the writer turns it into an Event."""

    about: Identity
    type: str
    reason: str
    message: str
    action: str = ""
    related: Identity = ()


class EventWrite(NamedTuple, Generic[E]):
    """What is to be written: a new Event, or a patch of one written before (with the whole, should it be gone)."""

    event: E
    patch: Mapping[str, Any] | None


class Correlator(Protocol[E]):
    """Decides what becomes of events of one API, which are documents of the type ``E``."""

    def observe(self, occurrence: Occurrence, event: E, *, now: float) -> EventWrite[E] | None:
        """Decide on a fresh ``event``; None: nothing is to be written now."""
        ...

    def finish_series(self, *, now: float) -> Iterator[EventWrite[E]]:
        """Forget what is over; yields what has to be written about it."""
        ...


K = TypeVar("K")
V = TypeVar("V")


class _LruCache(Generic[K, V]):
    """A mapping that forgets what has not been used for longest."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._values: OrderedDict[K, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        if key in self._values:
            self._values.move_to_end(key)
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._size:
            self._values.popitem(last=False)


class _Aggregate(NamedTuple):
    messages: frozenset[str]
    last: float


class CountingCorrelator:
    """core/v1: the same again raises ``count``; too many that differ only in their message become one."""

    def __init__(self) -> None:
        self._buckets: _LruCache[tuple[Any, str], TokenBucket] = _LruCache(CACHE_ENTRIES)
        self._similar: _LruCache[tuple[Any, ...], _Aggregate] = _LruCache(CACHE_ENTRIES)
        self._seen: _LruCache[tuple[Any, ...], CoreEvent] = _LruCache(CACHE_ENTRIES)

    def observe(
        self, occurrence: Occurrence, event: CoreEvent, *, now: float
    ) -> EventWrite[CoreEvent] | None:
        about, kind, reason, message = occurrence[:4]
        key: tuple[Any, ...] = (about, kind, reason)
        similar = self._similar.get(key)
        if similar is None or now - similar.last > AGGREGATE_SECONDS:
            similar = _Aggregate(frozenset(), now)
        messages = similar.messages | {message}
        if len(messages) >= AGGREGATE_LIMIT:
            self._similar.put(key, _Aggregate(messages - {next(iter(messages))}, now))
            event = {**event, "message": COMBINED_PREFIX + message}
        else:
            self._similar.put(key, _Aggregate(messages, now))
            key = (*key, message)
        written = self._count(key, event)
        return None if self._is_spam(about, kind, now) else written

    def _count(self, key: tuple[Any, ...], event: CoreEvent) -> EventWrite[CoreEvent]:
        first = self._seen.get(key)
        if first is None:
            self._seen.put(key, event)
            return EventWrite(event, None)
        changed: CoreEvent = {
            "count": first["count"] + 1,
            "lastTimestamp": event["lastTimestamp"],
            "message": event["message"],
        }
        counted: CoreEvent = {**first, **changed}
        self._seen.put(key, counted)
        return EventWrite(counted, changed)

    def _is_spam(self, about: Identity, kind: str, now: float) -> bool:
        bucket = self._buckets.get((about, kind))
        if bucket is None:
            bucket = TokenBucket(rate=SPAM_QPS, burst=SPAM_BURST, now=now)
            self._buckets.put((about, kind), bucket)
        return not bucket.try_take(now)

    def finish_series(self, *, now: float) -> Iterator[EventWrite[CoreEvent]]:
        return iter(())


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder().decode


class _Reported(NamedTuple):
    """An event that was reported, encoded, as most are never looked at again; and what it has become since."""

    first: bytes
    last: float
    series: EventSeries | None

    def whole(self) -> Event:
        event: Event = _decode(self.first)
        if self.series is not None:
            event["series"] = self.series
        return event


class SeriesCorrelator:
    """events.k8s.io: the same again, whatever its note says, begins a series; its count is written when it ends."""

    def __init__(self) -> None:
        self._events: OrderedDict[tuple[Any, ...], _Reported] = OrderedDict()
        self._ended: list[Event] = []  # series that made room for others before their time

    def observe(self, occurrence: Occurrence, event: Event, *, now: float) -> EventWrite[Event] | None:
        about, kind, reason, _, action, related = occurrence
        # Unlike above, an object that has changed in between makes a new event, as upstream has it.
        version = event["regarding"].get("resourceVersion", "")
        key = (about, version, kind, reason, action, related)
        known = self._events.get(key)
        if known is None:
            self._events[key] = _Reported(_encode(event), now, None)
            if len(self._events) > CACHE_ENTRIES:
                _, oldest = self._events.popitem(last=False)
                if oldest.series is not None:
                    self._ended.append(oldest.whole())
            return EventWrite(event, None)
        self._events.move_to_end(key)
        before = known.series
        series: EventSeries = {
            "count": (1 if before is None else before["count"]) + 1,
            "lastObservedTime": event["eventTime"],
        }
        self._events[key] = reported = _Reported(known.first, now, series)
        return EventWrite(reported.whole(), {"series": series}) if before is None else None

    def finish_series(self, *, now: float) -> Iterator[EventWrite[Event]]:
        ended, self._ended = self._ended, []
        for event in ended:
            yield EventWrite(event, {"series": event["series"]})
        for key, reported in list(self._events.items()):
            if now - reported.last > SERIES_SECONDS:
                del self._events[key]
                if reported.series is not None:
                    yield EventWrite(reported.whole(), {"series": reported.series})
