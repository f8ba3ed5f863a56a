"""A cache for what is made of texts that clients send: bounded by bytes, because only short texts are kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import Concatenate, Final, ParamSpec, TypeVar

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Longer than any name of Kubernetes.
_LONGEST: Final = 512


def cache_short(
    maxsize: int,
) -> Callable[[Callable[Concatenate[str, _P], _R]], Callable[Concatenate[str, _P], _R]]:
    """``lru_cache`` for a function of a text. What is made of a longer text than any name is not kept."""

    def decorate(function: Callable[Concatenate[str, _P], _R]) -> Callable[Concatenate[str, _P], _R]:
        known = lru_cache(maxsize=maxsize)(function)

        @wraps(function)
        def call(text: str, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
            return (known if len(text) <= _LONGEST else function)(text, *args, **kwargs)  # type: ignore[arg-type]

        return call

    return decorate
