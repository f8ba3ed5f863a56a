"""Tasks for what the scheduler writes beside its loop: one that is done with a pod waits for the next."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any, Final

log = logging.getLogger(__name__)

Work = Coroutine[Any, Any, object]

#: So many may wait for work; the others end when they have nothing to do.
MOST_IDLE: Final = 64


class Workers:
    """Runs any number of coroutines at once. A task takes longer to make than to be told of more work."""

    def __init__(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks
        self._idle: list[asyncio.Future[Work]] = []  # what workers without work wait for

    def spawn(self, work: Work) -> None:
        while self._idle:
            awaited = self._idle.pop()
            if not awaited.done():
                awaited.set_result(work)
                return
        task = self._tasks.create_task(self._run(work))
        # A task that is cancelled before it starts awaits nothing.
        task.add_done_callback(lambda _: work.close())

    async def _run(self, work: Work) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                await work
            except Exception:  # an error in the writes for one pod must not end the scheduler
                log.exception("a write of the scheduler failed")
            if len(self._idle) >= MOST_IDLE:
                return
            awaited: asyncio.Future[Work] = loop.create_future()
            self._idle.append(awaited)
            try:
                work = await awaited
            except asyncio.CancelledError:
                if not awaited.cancelled():
                    awaited.result().close()  # it was told of work and cancelled in one turn of the loop
                raise
