"""A clock that a test moves forward, so that it need not wait for leases and tolerations to run out."""

from __future__ import annotations

import asyncio
import time


class ShiftedLoop(asyncio.SelectorEventLoop):
    """An event loop whose time can be moved forward: whatever is due by then is run at once."""

    def __init__(self) -> None:
        super().__init__()
        self._ahead = 0.0

    def time(self) -> float:
        return super().time() + self._ahead

    def wall_time(self) -> float:
        """Seconds since the epoch, by this clock."""
        return time.time() + self._ahead

    def shift(self, seconds: float) -> None:
        self._ahead += seconds


#: A lease is renewed every ten seconds; a jump over several renewals would look like a node that is gone.
STEP_SECONDS = 5.0
#: What is due after a step gets this much real time before the next one.
_PAUSE_SECONDS = 0.01


async def advance(loop: ShiftedLoop, seconds: float) -> None:
    """Move the time of the running ``loop`` forward, in steps that leave the cluster time to act on each."""
    left = seconds
    while left > 0:
        step = min(left, STEP_SECONDS)
        loop.shift(step)
        left -= step
        await loop.run_in_executor(None, time.sleep, _PAUSE_SECONDS)
