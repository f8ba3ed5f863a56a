"""Large documents are worked on in a thread, so that the loop goes on serving everybody else.

One piece of work is done at a time, and users take turns: whoever sends many large documents waits for himself.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future as Job
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Final, TypeVar

_R = TypeVar("_R")

#: Bytes of a document whose decoding, checks and field ownership would hold the loop for some ten milliseconds.
LARGE: Final = 32 << 10
#: The same for a document with expressions, which are compiled.
LONG_EXPRESSION: Final = 2 << 10


class LargeDocuments:
    """One thread, and those who wait for it."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="large-documents")
        self._busy = False
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}  # user → work; the first user is next

    async def run(self, user: str, function: Callable[..., _R], *args: Any) -> _R:
        """What the function returns. It must be pure, but for the objects of this request."""
        loop = asyncio.get_running_loop()
        if self._busy:
            await self._turn(user, loop.create_future())
        self._busy = True
        job = self._thread.submit(function, *args)

        def ended(_: Job[_R]) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(self._next)

        # Work that nobody waits for any more goes on to its end, and only then the next begins.
        job.add_done_callback(ended)
        try:
            return await asyncio.wrap_future(job)
        finally:
            del job  # an error refers to this frame, and the job to the error: a circle that would keep the document

    async def _turn(self, user: str, turn: asyncio.Future[None]) -> None:
        self._waiting.setdefault(user, deque()).append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._next()
            raise

    def _next(self) -> None:
        """Begin the next piece of work, of the user who has waited for longest since his last turn."""
        self._busy = False
        while self._waiting:
            user = next(iter(self._waiting))
            turns = self._waiting.pop(user)
            turn = turns.popleft()
            if turns:
                self._waiting[user] = turns
            if not turn.done():
                self._busy = True
                turn.set_result(None)
                return
