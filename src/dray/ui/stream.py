"""Server-sent events: all rows once, then what changes, for as long as the page is open.

A viewer that reads too slowly does not make this process remember everything: what it has missed is dropped, and it
gets all rows once more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from dray.ui.board import COLLECTIONS, Update, Viewers, encode
from dray.wire.duplex import Sink

_ROWS: Final = 400  # in one event
_BACKLOG: Final = 64
BEAT_SECONDS: Final = 10.0


class EventStream:
    """The body of one viewer's answer."""

    def __init__(
        self,
        viewers: Viewers,
        hello: bytes,
        ready: asyncio.Event,
        *,
        closed: Callable[[EventStream], None] = lambda stream: None,
    ) -> None:
        self._on_close = closed
        self._viewers = viewers
        self._hello = hello
        self._ready = ready
        self._waiting: list[bytes] = []
        self._missed = False
        self._wake = asyncio.Event()
        self._closed = False

    def close(self) -> None:
        self._closed = True
        self._wake.set()

    def tell(self, update: Update) -> None:
        if len(self._waiting) > _BACKLOG:
            self._waiting.clear()
            self._missed = True
        if not self._missed:
            self._waiting.append(b"".join(_update(update)))
        self._wake.set()

    def say(self, name: str, content: object) -> None:
        """Any other event."""
        self._waiting.append(_event(name, encode(content)))
        self._wake.set()

    async def run(self, sink: Sink) -> None:
        sink.write(b"retry: 1000\n\n" + _event("hello", self._hello))
        try:
            while not self._ready.is_set() and not self._closed and not sink.closed:
                sink.write(b": not yet\n\n")
                await _wait(self._ready, 1.0)
            self._viewers.join(self.tell)
            await self._everything(sink)
            while not self._closed and not sink.closed:
                await _wait(self._wake, BEAT_SECONDS)
                self._wake.clear()
                if self._missed:
                    self._missed = False
                    await self._everything(sink)
                waiting, self._waiting = self._waiting, []
                sink.write(b"".join(waiting) or _event("beat", b"0"))
                await sink.drained()
        finally:
            self._viewers.leave(self.tell)
            self._on_close(self)

    async def _everything(self, sink: Sink) -> None:
        if self._closed:
            return
        self._viewers.publish()
        self._waiting.clear()
        board = self._viewers.board
        # Copied before the first wait: what changes later comes as an update.
        tables = {name: list(board.rows[name].values()) for name in COLLECTIONS}
        sink.write(_event("reset", b"0") + _event("overview", board.overview))
        sink.write(_event("history", encode(board.history.samples)))
        sink.write(_event("happenings", encode(list(board.happenings.newest))))
        for name, found in tables.items():
            for event in _rows(name, found):
                sink.write(event)
                await sink.drained()
                if sink.closed:
                    return
        sink.write(_event("ready", b"0"))
        await sink.drained()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass


def _event(name: str, data: bytes) -> bytes:
    return b"event: %s\ndata: %s\n\n" % (name.encode(), data)


def _rows(name: str, found: list[bytes], gone: Iterable[str] = ()) -> Iterator[bytes]:
    names = encode(list(gone))
    for start in range(0, max(len(found), 1), _ROWS):
        part = b",".join(found[start : start + _ROWS])
        yield _event(
            "rows", b'{"of":"%s","set":[%s],"gone":%s}' % (name.encode(), part, b"[]" if start else names)
        )


def _update(update: Update) -> Iterator[bytes]:
    if update.overview:
        yield _event("overview", update.overview)
    for name, changed in update.rows.items():
        gone = [key for key, row in changed.items() if row is None]
        yield from _rows(name, [row for row in changed.values() if row is not None], gone)
    if update.happenings:
        yield _event("happenings", encode(update.happenings))
    if update.sample is not None:
        yield _event("sample", encode(update.sample))
    if update.rows or update.revision:
        yield _event("changed", b"0")
