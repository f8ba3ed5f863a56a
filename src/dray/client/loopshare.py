"""Gives the event loop back to others after some milliseconds of work.

In one process with the API server, requests are answered without waiting. A worker could so go through thousands of
items in one turn of the loop, and nothing else would be served meanwhile.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Final


class LoopShare:
    """What all workers on a loop together may take of one turn of it."""

    __slots__ = ("_clock", "_ends", "_loop", "_seconds")

    def __init__(self, *, seconds: float = 0.005, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._ends: float | None = None  # of the share of this turn; None before anybody has worked in it
        self._loop: asyncio.AbstractEventLoop | None = None

    async def pause_if_spent(self) -> None:
        """Wait for the next turn of the loop if the share of this one is spent."""
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


#: That of the workers of this process.
WORKERS: Final = LoopShare()
