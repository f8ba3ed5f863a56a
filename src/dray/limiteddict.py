"""A dict for what can be made again: it is emptied when it is full."""

from __future__ import annotations

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LimitedDict(dict[K, V]):
    """Holds at most so many keys: when another one comes, all others go. Reading costs what it costs in a dict."""

    __slots__ = ("_most",)

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._most:
            self.clear()
        super().__setitem__(key, value)
