"""A revision that grows, and tasks that wait for it to reach a value."""

from __future__ import annotations

import asyncio
import heapq
import itertools

from dray.store.interface import StoreError


class Progress:
    """The newest revision that has been applied."""

    __slots__ = ("_numbers", "_waiters", "revision")

    def __init__(self, revision: int) -> None:
        self.revision = revision
        self._waiters: list[tuple[int, int, asyncio.Future[None]]] = []
        self._numbers = itertools.count()

    def advance(self, revision: int) -> None:
        self.revision = max(self.revision, revision)
        while self._waiters and self._waiters[0][0] <= self.revision:
            _, _, waiter = heapq.heappop(self._waiters)
            if not waiter.done():
                waiter.set_result(None)

    async def reached(self, revision: int) -> None:
        if revision > self.revision:
            waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            heapq.heappush(self._waiters, (revision, next(self._numbers), waiter))
            await waiter

    def fail(self, error: StoreError) -> None:
        """Fail all tasks that wait."""
        for _, _, waiter in self._waiters:
            if not waiter.done():
                waiter.set_exception(error)
        self._waiters.clear()
