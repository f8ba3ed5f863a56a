"""Remembering what was found good. Checks are pure, and controllers make objects by the thousand from one template."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final, NamedTuple, TypeVar, cast

import msgspec

from dray.limiteddict import LimitedDict

T = TypeVar("T")
_encode: Final = msgspec.json.Encoder().encode
_LONGEST: Final = 8192  # larger contents are rare, and not worth the room


class GeneratedName(NamedTuple):
    """A name in some content that was drawn at random, so that no other content has the same, and how often it is there
    as a name that is compared with others of its sort and not looked at otherwise."""

    name: str
    places: int


#: Stands for a generated name. JSON has no such byte.
_SOME_NAME: Final = b"\0"


def content_key(*parts: Any, generated: GeneratedName | None = None) -> bytes:
    """What tells one content from another; empty if it is too long, or cannot be written down.

    Contents that differ in a generated name alone have one key, unless the name is in other places too: which of the
    names are the same is what checks compare, and that is the same in both.
    """
    try:
        found = _encode(parts)
    except (TypeError, ValueError, RecursionError):
        return b""
    if generated is not None and found.count(name := generated.name.encode()) == generated.places:
        found = found.replace(name, _SOME_NAME)
    return found if len(found) <= _LONGEST else b""


class ValidationCache:
    """Contents in which a check found nothing, so that equal content need not be looked at again.

    It belongs to whoever decides by which rules is checked: other feature gates need another memory.
    """

    __slots__ = ("_good", "_lock", "_size")

    def __init__(self, size: int = 1024) -> None:
        self._good: dict[tuple[str, bytes], None] = {}
        self._lock = Lock()  # large objects are checked in a thread
        self._size = size

    def once(
        self,
        what: str,
        check: Callable[[], Sequence[T]],
        *parts: Any,
        generated: GeneratedName | None = None,
    ) -> Sequence[T]:
        """What ``check`` finds in ``parts``, all that it looks at. Generated names of one sort have one form."""
        key = (what, content_key(*parts, generated=generated))
        if key in self._good:
            return ()
        found = check()
        if not found and key[1]:
            with self._lock:
                if len(self._good) >= self._size:
                    del self._good[next(iter(self._good))]
                self._good[key] = None
        return found


class Interner:
    """Equal values held once. Thousands of devices have the same model and the same amount of memory."""

    __slots__ = ("_known",)

    def __init__(self, size: int = 4096) -> None:
        self._known: LimitedDict[bytes, Any] = LimitedDict(size)

    def one(self, value: T) -> T:
        """The value itself, or an equal one that was here before; neither may be changed from now on."""
        key = content_key(value)
        if not key:
            return value
        if (known := self._known.get(key)) is not None:
            return cast("T", known)
        self._known[key] = value
        return value
