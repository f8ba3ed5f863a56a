"""Trying again: how long to wait in between, and when it makes sense at all."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Final, TypeVar

from dray.api.errors import Conflict

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backoff:
    """Growing pauses: ``initial`` seconds, times ``factor`` each, at most ``maximum``, stretched at random by ``jitter``."""

    initial: float
    factor: float = 2.0
    maximum: float = float("inf")
    jitter: float = 0.0

    def pauses(self, *, randomness: Callable[[], float] = random.random) -> Iterator[float]:
        pause = min(self.initial, self.maximum)
        while True:
            yield pause * (1 + self.jitter * randomness())
            pause = min(pause * self.factor, self.maximum)


#: As client-go's: the other writer is done in no time.
CONFLICT_BACKOFF: Final = Backoff(initial=0.01, factor=1.0, jitter=0.1)
CONFLICT_ATTEMPTS: Final = 5


async def retry_on_conflict(
    operation: Callable[[], Awaitable[T]],
    *,
    attempts: int = CONFLICT_ATTEMPTS,
    backoff: Backoff = CONFLICT_BACKOFF,
) -> T:
    """Run ``operation``, which reads, decides and writes, anew while its write meets a ``Conflict``."""
    pauses = backoff.pauses()
    while True:
        try:
            return await operation()
        except Conflict:
            attempts -= 1
            if attempts <= 0:
                raise
        await asyncio.sleep(next(pauses))
