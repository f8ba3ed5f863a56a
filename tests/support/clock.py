"""Time that passes when a test says so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class FakeTimers:
    """Time that passes when a test says so."""

    def __init__(self) -> None:
        self.now = 0.0
        self._calls: list[tuple[float, int, _Call]] = []

    def time(self) -> float:
        return self.now

    def call_later(self, delay: float, callback: Callable[..., Any], *args: Any) -> _Call:
        call = _Call(callback, args)
        self._calls.append((self.now + delay, len(self._calls), call))
        return call

    def advance(self, seconds: float) -> None:
        self.now += seconds
        due = sorted(entry for entry in self._calls if entry[0] <= self.now + 1e-9)
        self._calls = [entry for entry in self._calls if entry not in due]
        for _, _, call in due:
            call()


class _Call:
    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...]) -> None:
        self._callback, self._args, self._cancelled = callback, args, False

    def cancel(self) -> None:
        self._cancelled = True

    def __call__(self) -> None:
        if not self._cancelled:
            self._callback(*self._args)
