"""Streamed bodies, and connections after they have left HTTP: bytes in both directions, and a way to make the peer wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol


class Sink(Protocol):
    """Where a streamed reply is written. ``write`` never waits; ``drained`` does, while the peer is slow."""

    @property
    def congested(self) -> bool: ...
    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...


class Stream(Protocol):
    """A body that is produced over time."""

    async def run(self, sink: Sink) -> None: ...
    def close(self) -> None: ...


class Wire(Sink, Protocol):
    """The far end of an upgraded connection, which can also be closed, and made to wait."""

    def close(self) -> None: ...
    def pause(self) -> None:
        """Receive nothing more for now."""

    def resume(self) -> None: ...


class Duplex(Protocol):
    """What an upgraded connection turns into: bytes in both directions."""

    def opened(self, wire: Wire) -> None: ...
    def received(self, data: bytes) -> None: ...
    def lost(self) -> None: ...


class Throttle:
    """Makes the peer wait while much of what it sent has not been taken yet."""

    HIGH, LOW = 1 << 20, 256 << 10

    def __init__(self) -> None:
        self.wire: Wire | None = None
        self._waiting = 0
        self._paused = False

    def arrived(self, size: int) -> None:
        self._waiting += size
        if self._waiting > self.HIGH and not self._paused and self.wire:
            self._paused = True
            self.wire.pause()

    def taken(self, size: int) -> None:
        self._waiting -= size
        if self._waiting <= self.LOW and self._paused and self.wire:
            self._paused = False
            self.wire.resume()


class Chunks:
    """An iterator of bytes as the body of a reply. Closing it ends the wait for the next chunk."""

    def __init__(self, chunks: AsyncIterator[bytes]) -> None:
        self._chunks = chunks
        self._closed = False
        self._task: asyncio.Task[None] | None = None

    async def run(self, sink: Sink) -> None:
        if self._closed:
            return
        self._task = asyncio.create_task(self._copy(sink))
        try:
            await self._task
        except asyncio.CancelledError:
            if not self._closed:
                raise

    async def _copy(self, sink: Sink) -> None:
        async for chunk in self._chunks:
            sink.write(chunk)
            if sink.congested:
                await sink.drained()

    def close(self) -> None:
        self._closed = True
        if self._task is not None:
            self._task.cancel()
