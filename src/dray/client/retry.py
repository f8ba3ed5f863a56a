"""Writing again after a conflict."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from dray.api.errors import Conflict
from dray.backoff import Backoff

T = TypeVar("T")


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
