"""Waiting for something to become true: a wait that fails says what it waited for and what it saw last."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Awaitable, Callable
from typing import Any

from dray.api.errors import NotFound

#: What a look may raise as long as the thing is not there.
NOT_YET = (LookupError, NotFound)


async def wait_for(
    what: str, look: Callable[[], Awaitable[Any] | Any], *, seconds: float = 25, pause: float = 0.005
) -> Any:
    """Look until the answer is true, and return it."""
    last: Any = None
    deadline = time.monotonic() + seconds
    try:
        while time.monotonic() < deadline:
            try:
                last = look()
                if inspect.isawaitable(last):
                    last = await last
                if last:
                    return last
            except NOT_YET as e:
                last = e
            await asyncio.sleep(pause)
    except asyncio.CancelledError as e:  # The test's own time limit.
        e.add_note(_report(what, last))
        raise
    raise AssertionError(f"{_report(what, last)} ({seconds:g} s)")


def wait_for_sync(
    what: str,
    look: Callable[[], Any],
    *,
    seconds: float = 50,
    pause: float = 0.02,
    log: Callable[[], str] | None = None,
    alive: Callable[[], bool] | None = None,
) -> Any:
    """The same for processes; ``log`` gives the text whose end is shown, ``alive`` whether waiting still makes sense."""
    last: Any = None
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and (alive is None or alive()):
        try:
            last = look()
            if last:
                return last
        except NOT_YET as e:
            last = e
        time.sleep(pause)
    tail = f"\n{log()[-4000:]}" if log is not None else ""
    raise AssertionError(f"{_report(what, last)} ({seconds:g} s){tail}")


def _report(what: str, last: Any) -> str:
    return f"waited in vain for {what}; last seen: {last!r}"
