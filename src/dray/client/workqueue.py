"""Work queues as controllers need them: an item waits at most once, is worked on by one worker, and comes back after a failure.

The rules are client-go's. An item added while it is worked on waits until that is done. Failing items come back after
ever longer pauses, and a bucket bounds how many come back a second in all.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Hashable
from typing import Any, Final, Generic, Protocol, TypeVar

from dray.api.errors import StatusError
from dray.client.timeslice import WORKERS
from dray.metrics.workqueue import QueueWatch

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=Hashable)

BASE_DELAY: Final = 0.005
MAX_DELAY: Final = 1000.0
RETRY_QPS: Final = 10.0
RETRY_BURST: Final = 100


class QueueClosed(Exception):
    """Nothing will come out of the queue any more."""


class Timers(Protocol):
    """Time, and calls in the future. An event loop is one; tests have their own."""

    def time(self) -> float: ...
    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> Any:
        """Returns something with a ``cancel`` method."""
        ...


class TokenBucket:
    """``rate`` tokens a second, of which ``burst`` can be saved up. Tokens may be taken in advance, at a price."""

    __slots__ = ("_burst", "_last", "_rate", "_tokens")

    def __init__(self, *, rate: float, burst: float, now: float) -> None:
        self._rate = rate
        self._burst = burst
        self._tokens = burst
        self._last = now

    def take(self, now: float) -> float:
        """Take a token; returns the seconds to wait until it is really there."""
        self._refill(now)
        self._tokens -= 1
        return max(-self._tokens / self._rate, 0.0)

    def try_take(self, now: float) -> bool:
        """Take a token if there is one."""
        self._refill(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _refill(self, now: float) -> None:
        self._tokens = min(self._tokens + (now - self._last) * self._rate, self._burst)
        self._last = now


class WorkQueue(Generic[T]):
    """Items to be worked on. Adding never waits; ``run`` or ``get`` and ``done`` take them out."""

    def __init__(
        self,
        *,
        base_delay: float = BASE_DELAY,
        max_delay: float = MAX_DELAY,
        retry_qps: float = RETRY_QPS,
        retry_burst: float = RETRY_BURST,
        timers: Timers | None = None,
        watch: QueueWatch | None = None,
    ) -> None:
        """``watch`` is called for what happens to items, and counts it."""
        self._watch = watch
        self._timers: Timers = timers or asyncio.get_running_loop()
        self._base_delay = base_delay
        self._max_delay = max_delay
        self._bucket = TokenBucket(rate=retry_qps, burst=retry_burst, now=self._timers.time())
        self._ready: deque[T] = deque()
        self._dirty: set[T] = set()  # to be worked on, ready or after the work under way
        self._working: set[T] = set()
        self._failures: dict[T, int] = {}
        self._later: dict[T, tuple[float, Any]] = {}
        self._getters: deque[asyncio.Future[None]] = deque()
        self._closed = False

    def __len__(self) -> int:
        """How many items are ready."""
        return len(self._ready)

    def add(self, item: T) -> None:
        if self._closed or item in self._dirty:
            return
        self._dirty.add(item)
        if self._watch is not None:
            self._watch.added(item)
        if item not in self._working:
            self._ready.append(item)
            self._wake()

    def add_after(self, item: T, delay: float) -> None:
        """Add the item in ``delay`` seconds. If it waits for an earlier time already, that stays."""
        if self._closed:
            return
        if delay <= 0:
            self.add(item)
            return
        at = self._timers.time() + delay
        waiting = self._later.get(item)
        if waiting is not None:
            if waiting[0] <= at:
                return
            waiting[1].cancel()
        self._later[item] = (at, self._timers.call_later(delay, self._due, item))

    def add_rate_limited(self, item: T) -> None:
        """Add the item after a pause that grows with each failure since ``forget``."""
        if self._watch is not None:
            self._watch.retried()
        failures = self._failures.get(item, 0)
        self._failures[item] = failures + 1
        pause = min(self._base_delay * 2.0 ** min(failures, 64), self._max_delay)
        self.add_after(item, max(pause, self._bucket.take(self._timers.time())))

    def forget(self, item: T) -> None:
        """The item has succeeded: its next failure is its first."""
        self._failures.pop(item, None)

    def failures(self, item: T) -> int:
        return self._failures.get(item, 0)

    def _due(self, item: T) -> None:
        del self._later[item]
        self.add(item)

    async def get(self) -> T:
        """The next item; ``done`` must follow. Raises ``QueueClosed``."""
        while not self._ready:
            if self._closed:
                raise QueueClosed
            getter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._getters.append(getter)
            try:
                await getter
            except asyncio.CancelledError:
                if getter.done() and not getter.cancelled() and self._ready:
                    self._wake()  # this getter was woken and will not take the item: another one must
                raise
        item = self._ready.popleft()
        self._dirty.remove(item)
        self._working.add(item)
        if self._watch is not None:
            self._watch.taken(item)
        return item

    def done(self, item: T) -> None:
        """The work on an item has ended, well or not; if it was added meanwhile it is ready again."""
        self._working.discard(item)
        if self._watch is not None:
            self._watch.done(item)
        if item in self._dirty:
            self._ready.append(item)
            self._wake()

    def close(self) -> None:
        """Take nothing in any more; what is ready can still be taken out."""
        self._closed = True
        for _, timer in self._later.values():
            timer.cancel()
        self._later.clear()
        for getter in self._getters:
            if not getter.done():
                getter.set_result(None)

    def _wake(self) -> None:
        while self._getters:
            getter = self._getters.popleft()
            if not getter.done():
                getter.set_result(None)
                return

    async def run(self, work: Callable[[T], Awaitable[float | None]], *, workers: int = 1) -> None:
        """Work on items until the queue is closed and empty.

        ``work`` returns None when all is well, or the seconds after which it wants the item again. When it raises, the
        failure is logged and the item comes back after a pause. There are never more than ``workers``; one comes when all
        others are at work, as most queues never need a second.
        """
        async with asyncio.TaskGroup() as group:
            wanted = iter(range(workers))

            def add_worker() -> None:
                if next(wanted, None) is not None:
                    group.create_task(self._work(work, add_worker))

            add_worker()

    async def _work(
        self, work: Callable[[T], Awaitable[float | None]], add_worker: Callable[[], None]
    ) -> None:
        while True:
            try:
                item = await self.get()
            except QueueClosed:
                return
            if not self._getters:
                add_worker()
            try:
                again = await work(item)
            except Exception as error:
                _log.warning("%s failed and is tried again: %s", item, error, exc_info=_unexpected(error))
                self.add_rate_limited(item)
            else:
                self.forget(item)
                if again is not None:
                    self.add_after(item, again)
            finally:
                self.done(item)
            if WORKERS.is_spent():
                await asyncio.sleep(0)


def _unexpected(error: Exception) -> bool:
    """Whether a traceback helps: failures that the server reports explain themselves."""
    return not isinstance(error, StatusError)
