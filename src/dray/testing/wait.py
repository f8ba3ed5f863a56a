"""Waiting for something to become true. A wait that fails says what it waited for and what it saw last."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from dray.api.errors import NotFound

T = TypeVar("T")


def wait_for(
    what: str,
    look: Callable[[], T],
    *,
    seconds: float = 10,
    pause: float = 0.01,
    explain: Callable[[], str] | None = None,
) -> T:
    """Look until the answer is true, and return it. What is not found yet is looked for again.

    ``explain`` adds to the error what can be said about the reason.
    """
    last: object = None
    deadline = time.monotonic() + seconds
    while True:
        try:
            last = found = look()
            if found:
                return found
        except NotFound as missing:
            last = missing
        if time.monotonic() > deadline:
            reason = f"\n{explain()}" if explain is not None else ""
            raise AssertionError(f"waited {seconds:g} s for {what}; last seen: {last!r:.500}{reason}")
        time.sleep(pause)
