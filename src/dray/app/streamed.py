"""An iterator of bytes as the body of a response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from dray.server.endpoints.requests import Sink


class Chunks:
    """Closing it ends the wait for the next chunk."""

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
