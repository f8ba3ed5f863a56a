"""Room for deep expressions: the parser lets them nest 250 levels, and each level is several Python frames."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Final, ParamSpec, TypeVar

_STACK: Final = 12_000
P = ParamSpec("P")
R = TypeVar("R")

_lock = Lock()
_inside = 0
_usual = 0


def with_deep_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function without side effects; if Python's stack limit is too low for it, call it again with a higher one.

    The limit is the process's, and readers of documents rely on it: it is back where it was afterwards.
    """
    try:
        return function(*args, **kwargs)
    except RecursionError:
        with _deep_stack():
            return function(*args, **kwargs)


@contextmanager
def _deep_stack() -> Iterator[None]:
    global _inside, _usual
    with _lock:
        if not _inside:
            _usual = sys.getrecursionlimit()
            sys.setrecursionlimit(_STACK)
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if not _inside:
                sys.setrecursionlimit(_usual)
