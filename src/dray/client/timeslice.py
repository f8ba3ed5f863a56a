"""The time slice of workers: after some milliseconds of work, they give the event loop back to others.

In one process with the API server, requests are answered without waiting. A worker could so go through thousands of
items in one turn of the loop, and nothing else would be served meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final


class TimeSlice:
    """How long all workers on a loop together may work in one turn of it."""

    __slots__ = ("_clock", "_ends", "_loop", "_seconds")

    def __init__(self, *, seconds: float = 0.005, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends: float | None = None  # of the slice of this turn; None before anybody has worked in it
        self._loop: asyncio.AbstractEventLoop | None = None

    async def pause_if_spent(self) -> None:
        """Wait for the next turn of the loop if the slice of this one is spent."""
        if self.is_spent():
            await asyncio.sleep(0)

    def is_spent(self) -> bool:
        loop, now = asyncio.get_running_loop(), self._clock()
        if self._ends is None or self._loop is not loop:
            self._loop, self._ends = loop, now + self._seconds
            loop.call_soon(self._begin_turn)
            return False
        return now >= self._ends

    def _begin_turn(self) -> None:
        self._ends = None


#: The slice that the workers of this process share.
WORKERS: Final = TimeSlice()
