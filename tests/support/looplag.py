"""Measures for how long the event loop was held by one callback."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from types import TracebackType

_TICK = 0.002


class LoopLag:
    """``longest`` is the longest time, in seconds, that the loop did not get to a timer that was due."""

    def __init__(self) -> None:
        self.longest = 0.0

    async def __aenter__(self) -> LoopLag:
        self._task = asyncio.create_task(self._watch())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._task.cancel()
        with suppress(asyncio.CancelledError):
            await self._task

    async def _watch(self) -> None:
        while True:
            due = time.monotonic() + _TICK
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, time.monotonic() - due)
