"""Room for deep expressions: the parser lets them nest 250 levels, and each level is several Python frames."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final, ParamSpec, TypeVar

_STACK: Final = 12_000
P = ParamSpec("P")
R = TypeVar("R")


def with_deep_stack(function: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Call a function without side effects; if Python's stack limit is too low for it, raise that and call again."""
    try:
        return function(*args, **kwargs)
    except RecursionError:
        if sys.getrecursionlimit() >= _STACK:
            raise
        sys.setrecursionlimit(_STACK)
        return function(*args, **kwargs)
