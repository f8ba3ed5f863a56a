"""A watch: initial objects, changes, bookmarks, and its end."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Final

import msgspec

from dray.api import protobuf
from dray.api.groups.apiextensions.conversion import ConversionNeeded
from dray.api.scheme.kinds import Object
from dray.server.storage.codec import Codec, encode
from dray.server.storage.documents import AT_ONCE, Document
from dray.server.storage.watchcache import ADDED, Change, Watcher
from dray.wire.duplex import Sink

BOOKMARK: Final = "BOOKMARK"
ERROR: Final = "ERROR"
_BOOKMARK_SECONDS: Final = 60.0
_ALLOWED_SECONDS: Final = 10.0  # how long a watch may go on after its credentials or rights have ended
_LAST_BOOKMARK_SECONDS: Final = 2.0  # before the watch times out, so that a client resumes close to the end


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """What a watcher is told. Exactly one of ``change``, ``document`` and ``object`` carries the content."""

    type: str
    change: Change | None = None
    document: Document | None = None
    object: Object | None = None  # of a bookmark or an error, in the watch's version

    def current(self) -> Document | None:
        return self.document if self.change is None else self.change.document(self.type)


class Watch:
    """The body of a watch response."""

    def __init__(
        self,
        codec: Codec,
        watcher: Watcher | None,
        *,
        initial: Sequence[Document] = (),
        earlier: Sequence[tuple[str, Change]] = (),
        initial_end: bool = False,
        bookmarks: bool = False,
        timeout: float,
        revision: Callable[[], int],
        since: int = 0,
        error: Object | None = None,
        allowed: Callable[[], bool] | None = None,
    ) -> None:
        """``revision`` is what this server has heard of by now, ``since`` what the client knows at the beginning, or is
        told of by ``initial``. ``allowed`` says whether the caller may still watch; without it, the caller may."""
        self.codec = codec
        self._watcher = watcher
        self._initial = initial
        self._earlier = earlier
        self._initial_end = initial_end
        self._bookmarks = bookmarks
        self._timeout = timeout
        self._revision = revision
        self._known = since
        self._error = error
        self._allowed = allowed
        self._closed = False
        self.ended: Callable[[], None] | None = None  # called once, when the watch is over

    def close(self) -> None:
        self._closed = True
        if self._watcher is not None:
            self._watcher.close()
            self._watcher.wake()
        self._end()

    def _end(self) -> None:
        ended, self.ended = self.ended, None
        if ended is not None:
            ended()

    async def batches(self) -> AsyncIterator[Sequence[WatchEvent]]:
        """Events as they become known, until the watch times out, is closed, is no longer allowed, or its watcher is
        dropped."""
        if self._error is not None:
            yield [WatchEvent(ERROR, object=self._error)]
            self._end()
            return
        watcher = self._watcher
        assert watcher is not None
        try:
            async for batch in self._beginning():
                yield batch
            async for batch in self._changes(watcher):
                yield batch
        finally:
            watcher.close()
            self._end()

    async def _beginning(self) -> AsyncIterator[Sequence[WatchEvent]]:
        for at in range(0, len(self._initial), AT_ONCE):
            yield [WatchEvent(ADDED, document=d) for d in self._initial[at : at + AT_ONCE]]
        self._initial = ()
        if self._initial_end:
            yield [self.bookmark(self._known, initial_end=True)]
        if self._earlier:
            yield [WatchEvent(type, change=change) for type, change in self._earlier]
            self._earlier = ()

    async def _changes(self, watcher: Watcher) -> AsyncIterator[Sequence[WatchEvent]]:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._timeout
        next_bookmark = self._next_bookmark(loop.time(), deadline)
        next_check = math.inf if self._allowed is None else loop.time() + _ALLOWED_SECONDS
        due = min(deadline, next_bookmark, next_check)
        timer = loop.call_at(due, watcher.wake)
        try:
            while not self._closed:
                if loop.time() < due:  # else the timer has fired while the last batch was written
                    await watcher.changed()
                now = loop.time()
                if self._allowed is not None and now >= next_check:
                    if not self._allowed():
                        return
                    next_check = now + _ALLOWED_SECONDS
                if watcher.pending:
                    yield [WatchEvent(type, change) for type, change in watcher.take()]
                    continue
                if watcher.lost:
                    return
                if now >= deadline:
                    return
                if now >= next_bookmark:
                    # A server that is behind may not have heard of all that the client knows. Upstream says nothing then.
                    if (revision := self._revision()) >= self._known:
                        yield [self.bookmark(revision)]
                        self._known = revision
                    next_bookmark = self._next_bookmark(now, deadline)
                if now >= due:
                    due = min(deadline, next_bookmark, next_check)
                    timer = loop.call_at(due, watcher.wake)
        finally:
            timer.cancel()

    def _next_bookmark(self, now: float, deadline: float) -> float:
        """Once a minute, and shortly before the end; never, when that is already past."""
        due = min(now + _BOOKMARK_SECONDS, deadline - _LAST_BOOKMARK_SECONDS)
        return due if self._bookmarks and due > now else math.inf

    def bookmark(self, revision: int, *, initial_end: bool = False) -> WatchEvent:
        """Nothing has happened up to ``revision`` that the client has not been told."""
        metadata: Object = {"resourceVersion": str(revision)}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        obj = {"kind": self.codec.kind.kind, "apiVersion": self.codec.api_version, "metadata": metadata}
        return WatchEvent(BOOKMARK, object=obj)


EventEncoder = Callable[[WatchEvent], bytes]
#: Asks a webhook for an object in another version.
Convert = Callable[[ConversionNeeded], Awaitable[None]]


def json_event_encoder(codec: Codec) -> EventEncoder:
    """How an event looks on the wire; the line of a change is made once and shared by every watcher."""

    def line(event: WatchEvent) -> bytes:
        if event.change is not None:
            return event.change.line(codec, event.type)
        if event.document is not None:
            return b'{"type":"%b","object":%b}\n' % (event.type.encode(), event.document.full(codec))
        return b'{"type":"%b","object":%b}\n' % (event.type.encode(), encode(event.object))

    return line


def protobuf_event_encoder(codec: Codec) -> EventEncoder:
    """The same in protobuf."""

    def frame(event: WatchEvent) -> bytes:
        if event.change is not None:
            return event.change.frame(codec, event.type)
        if event.document is not None:
            return protobuf.frame(event.type, event.document.enveloped(codec))
        assert event.object is not None
        return protobuf.frame(event.type, protobuf.enclose(event.object))

    return frame


class WatchStream:
    """A watch written to a connection. While the peer is slow, changes wait in the watcher's bounded queue."""

    def __init__(self, watch: Watch, line: EventEncoder, *, convert: Convert | None = None) -> None:
        self._watch = watch
        self._line = line
        self._convert = convert

    async def run(self, sink: Sink) -> None:
        async for batch in self._watch.batches():
            for start in range(0, len(batch), AT_ONCE):
                if sink.closed:
                    return
                events = batch[start : start + AT_ONCE]
                sink.write(await self._lines(events))
                if sink.congested:
                    await sink.drained()
                elif len(events) == AT_ONCE:
                    await asyncio.sleep(0)  # there may be thousands, and a row of a table takes its time

    async def _lines(self, events: Sequence[WatchEvent]) -> bytes:
        line = self._line
        try:
            return b"".join([line(event) for event in events])
        except ConversionNeeded:
            return b"".join([await self._converted(event) for event in events])

    async def _converted(self, event: WatchEvent) -> bytes:
        while True:
            try:
                return self._line(event)
            except ConversionNeeded as needed:
                if self._convert is None:
                    raise
                await self._convert(needed)

    def close(self) -> None:
        self._watch.close()
