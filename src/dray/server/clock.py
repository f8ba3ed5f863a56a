"""The clock of the API server."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

_LAST: Final = 253_402_300_799  # the last second of the year 9999


class Clock:
    """The wall clock as RFC 3339 text, formatted once a second."""

    def __init__(self, seconds: Callable[[], float] = time.time) -> None:
        self.seconds = seconds
        self._second = -1
        self._text = ""

    def now(self) -> str:
        seconds = self.seconds()
        if not 0 <= seconds - self._second < 1:
            self._second = int(seconds)
            self._text = self.format(self._second)
        return self._text

    def later(self, seconds: int) -> str:
        return self.format(int(self.seconds()) + seconds)

    @staticmethod
    def format(second: int) -> str:
        """Clients may ask for times that no timestamp can say; they get the nearest that one can."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(min(max(second, 0), _LAST)))
