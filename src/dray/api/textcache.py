"""Caches for what is made of texts that clients send: bounded by bytes, and not only by the number of texts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from functools import lru_cache, wraps
from threading import Lock
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from dray.limiteddict import LimitedDict

_P = ParamSpec("_P")
_R = TypeVar("_R")

#: Longer than any name of Kubernetes.
_LONGEST: Final = 512


class _Known(LimitedDict[str, _R]):
    """Looks up without a call of Python what is known, and makes what is not."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[str], _R], size: int) -> None:
        super().__init__(size)
        self._function = function

    def __missing__(self, text: str) -> _R:
        made = self._function(text)
        if len(text) <= _LONGEST:
            self[text] = made
        return made


def cache_texts(maxsize: int) -> Callable[[Callable[[str], _R]], Callable[[str], _R]]:
    """``cache_short`` for a function of nothing but a text, at the price of a look-up. When it is full it begins anew."""

    def decorate(function: Callable[[str], _R]) -> Callable[[str], _R]:
        return _Known(function, maxsize).__getitem__

    return decorate


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


def cache_by_length(characters: int) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A cache of results whose texts together have so many characters; those that were asked for last are kept.

    The text is the first argument. For results that are many times as large as it, such as compiled expressions.
    """

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        known: OrderedDict[Any, tuple[int, _R]] = OrderedDict()
        held = 0
        lock = Lock()  # large objects are checked in a thread

        @wraps(function)
        def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            nonlocal held
            key = (args, *kwargs.items()) if kwargs else args
            with lock:
                if key in known:
                    known.move_to_end(key)
                    return known[key][1]
            made = function(*args, **kwargs)
            text: Any = args[0] if args else next(iter(kwargs.values()))
            with lock:
                if key not in known:
                    known[key] = (len(text), made)
                    held += len(text)
                while held > characters and len(known) > 1:
                    _, (length, _) = known.popitem(last=False)
                    held -= length
            return made

        return call

    return decorate
