"""A connection after it has left HTTP: bytes in both directions, and a way to make the peer wait."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Final, Protocol

_CHUNK: Final = 64 << 10


class Wire(Protocol):
    """The far end of an upgraded connection. ``write`` never waits; ``drained`` does, while the peer is slow."""

    @property
    def closed(self) -> bool: ...
    def write(self, data: bytes) -> None: ...
    async def drained(self) -> None: ...
    def close(self) -> None: ...
    def pause(self) -> None:
        """Receive nothing more for now."""

    def resume(self) -> None: ...


class StreamWire:
    """The wire over asyncio's streams."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._room = asyncio.Event()
        self._room.set()

    async def read(self) -> bytes:
        """What comes next, once there is room for it; nothing at the end."""
        await self._room.wait()
        return await self._reader.read(_CHUNK)

    @property
    def closed(self) -> bool:
        return self._writer.is_closing()

    def write(self, data: bytes) -> None:
        self._writer.write(data)

    async def drained(self) -> None:
        with contextlib.suppress(OSError):
            await self._writer.drain()

    def close(self) -> None:
        self._writer.close()

    def pause(self) -> None:
        self._room.clear()

    def resume(self) -> None:
        self._room.set()


class Duplex(Protocol):
    """What an upgraded connection turns into."""

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
