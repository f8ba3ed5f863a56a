"""What every store offers, and the outcomes it can report."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol


class Entry(NamedTuple):
    """One key as it stood at a revision."""

    key: str
    value: bytes
    created: int  # revision that created the key
    modified: int  # revision that last wrote it


class Event(NamedTuple):
    """One write, in revision order. ``previous`` is what the key held before, where it held something."""

    revision: int
    key: str
    value: bytes | None  # None: deleted
    previous: Entry | None

    @property
    def deleted(self) -> bool:
        return self.value is None


@dataclass(frozen=True, slots=True)
class Page:
    """A range read at one revision."""

    entries: Sequence[Entry]
    revision: int
    more: bool  # the limit cut the range
    remaining: int = 0  # how many keys follow the cut


class StoreError(Exception):
    """Anything a store refuses."""


class KeyExists(StoreError):
    """Create of a key that is there already."""


class KeyNotFound(StoreError):
    """Update or delete of a key that is not there."""


class RevisionMismatch(StoreError):
    """Compare-and-swap against a key that has moved on."""

    def __init__(self, key: str, current: Entry | None) -> None:
        super().__init__(f"{key} has changed")
        self.key = key
        self.current = current


class Compacted(StoreError):
    """The revision asked for is older than the last compaction."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for has not happened yet."""


class WatcherTooSlow(StoreError):
    """The watcher fell so far behind that it was dropped."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or has been closed."""


class Watch(Protocol):
    """Events in batches, in order, without gaps. An async iterator and its own context manager.

    Iteration ends with ``WatcherTooSlow`` when the consumer lags too far, ``StoreUnavailable`` when the store goes
    away, and plainly when the watch is closed.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...
    async def __anext__(self) -> Sequence[Event]: ...
    async def __aenter__(self) -> Watch: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def close(self) -> None: ...


class Store(Protocol):
    """Keys are '/'-separated text, values bytes. Every write gets the next revision; no answer precedes durability."""

    async def get(self, key: str) -> Entry | None: ...

    async def range(
        self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0
    ) -> Page:
        """Entries whose key begins with ``prefix``, in key order, from ``start`` (inclusive) on.

        ``revision`` 0 reads the newest state. Raises ``Compacted`` or ``FutureRevision``.
        """
        ...

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a new key and return its revision, or raise ``KeyExists``. ``ttl`` seconds later it is deleted."""
        ...

    async def update(self, key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        """Replace the value if the key's modified revision is ``expected``; else ``RevisionMismatch``/``KeyNotFound``."""
        ...

    async def delete(self, key: str, *, expected: int) -> int:
        """Delete the key if its modified revision is ``expected``; returns the revision of the deletion."""
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Events with a revision greater than ``after``; raises ``Compacted`` on first iteration if it is too old."""
        ...

    async def current_revision(self) -> int:
        """The newest revision, linearizable."""
        ...

    async def compact(self, revision: int) -> None: ...

    async def close(self) -> None: ...


class StoreFactory(Protocol):
    def __call__(self, target: str) -> AbstractAsyncContextManager[Store]: ...
