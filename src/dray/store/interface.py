"""What every store offers, and the outcomes it can report."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import msgspec

# Stores hold these by the hundred thousand: small, quick to make, and nothing for the garbage collector to look at.


class KeyValue(msgspec.Struct, frozen=True, gc=False):
    """One key as it stood at a revision."""

    key: str
    value: bytes
    create_revision: int
    mod_revision: int


class Event(msgspec.Struct, frozen=True, gc=False):
    """One write, in revision order. ``previous`` is what the key held before, where it held something."""

    revision: int
    key: str
    value: bytes | None  # None: deleted
    previous: KeyValue | None

    @property
    def deleted(self) -> bool:
        return self.value is None

    @property
    def entry(self) -> KeyValue | None:
        """What the key holds from this event on."""
        if self.value is None:
            return None
        created = self.revision if self.previous is None else self.previous.create_revision
        return KeyValue(self.key, self.value, created, self.revision)


class Put(msgspec.Struct, frozen=True, gc=False):
    """Part of a transaction: write a key that is at the revision ``expected`` (0: that is not there)."""

    key: str
    value: bytes
    expected: int = 0


class Delete(msgspec.Struct, frozen=True, gc=False):
    """Part of a transaction: delete a key that is at the revision ``expected``."""

    key: str
    expected: int


class Unchanged(msgspec.Struct, frozen=True, gc=False):
    """Part of a transaction: a condition alone. The key is at the revision ``expected`` (0: it is not there)."""

    key: str
    expected: int


Operation = Put | Delete | Unchanged


@dataclass(frozen=True, slots=True)
class Page:
    """A range read at one revision."""

    entries: Sequence[KeyValue]
    revision: int
    more: bool  # the limit cut the range
    remaining: int = 0  # how many keys follow the cut


class StoreError(Exception):
    """Anything a store refuses."""


class KeyExists(StoreError):
    """Create of a key that is there already."""

    def __init__(self, key: str, current: KeyValue | None = None) -> None:
        super().__init__(f"{key} exists already")
        self.key = key
        self.current = current


class KeyNotFound(StoreError):
    """Update or delete of a key that is not there."""

    current: Final = None

    def __init__(self, key: str) -> None:
        super().__init__(f"{key} does not exist")
        self.key = key


class RevisionMismatch(StoreError):
    """Compare-and-swap against a key that has moved on."""

    def __init__(self, key: str, current: KeyValue | None) -> None:
        super().__init__(f"{key} has changed")
        self.key = key
        self.current = current


#: Why a conditional write was refused. Each names the key, and what it holds where there is something.
Refused = KeyExists | KeyNotFound | RevisionMismatch


class Compacted(StoreError):
    """The revision asked for is older than the last compaction."""

    def __init__(self, revision: int, oldest: int) -> None:
        super().__init__(f"revision {revision} has been compacted; the oldest is {oldest}")
        self.revision = revision
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for has not happened yet."""

    def __init__(self, revision: int, current: int) -> None:
        super().__init__(f"revision {revision} has not happened yet; the newest is {current}")
        self.revision = revision
        self.current = current


class WatcherTooSlow(StoreError):
    """The watcher fell so far behind that it was dropped."""


class StoreUnavailable(StoreError):
    """The store cannot be reached or has been closed."""


class StoreFull(StoreUnavailable):
    """The store has no room left; trying again does not help."""


class Watch(Protocol):
    """Events in batches, in order, without gaps. An async iterator and its own context manager.

    Iteration ends with ``WatcherTooSlow`` when the consumer lags too far, ``StoreUnavailable`` when the store goes
    away, and plainly when the watch is closed. A batch may be shared with other watchers: read it, do not change it.
    """

    def __aiter__(self) -> AsyncIterator[Sequence[Event]]: ...
    async def __anext__(self) -> Sequence[Event]: ...
    async def __aenter__(self) -> Watch: ...
    async def __aexit__(self, *exc: object) -> None: ...
    def close(self) -> None: ...


#: Takes a batch of durable events, in the event loop. It must not block, and it cannot await.
Deliver = Callable[[Sequence[Event]], None]
#: Called once when a subscription ends although its owner did not close it. Returns the task that reads anew, if any.
Lost = Callable[[StoreError], asyncio.Task[None] | None]


#: What a key holds at the store's ``revision``, at once.
Lookup = Callable[[str], KeyValue | None]


class Past(Protocol):
    """Reads from a file what keys held before, so that no cache has to hold it. The file keeps what is asked for."""

    def keep(self, revision: int, *, until: int) -> bool:
        """Do not remove what was written at this revision, whatever is compacted, until it is released as often.

        It was there up to the revision ``until`` at least. False: that is compacted, and it may have gone already.
        """
        ...

    def release(self, revisions: Iterable[int]) -> None: ...

    def value(self, revision: int) -> bytes | None:
        """What was written at a revision that is kept, at once."""
        ...


class Subscription(Protocol):
    """A callback's registration; see ``Store.subscribe``."""

    def close(self) -> None: ...


class Store(Protocol):
    """Keys are '/'-separated text, values bytes. Every write gets the next revision; no answer precedes durability.

    What is not durable is not visible: not to readers, not to watchers, not to other writers.
    """

    @property
    def shared(self) -> bool:
        """Whether other processes write to it too."""
        ...

    @property
    def revision(self) -> int:
        """The revision up to which every subscriber has been called with all events. Embedded stores: the newest."""
        ...

    async def get(self, key: str) -> KeyValue | None: ...

    def lookup(self, prefix: str) -> Lookup | None:
        """How to read keys below ``prefix`` one by one, without waiting, where they are meant to stay on disk: nobody
        should hold them in memory. None: whoever reads them often holds them."""
        ...

    @property
    def past(self) -> Past | None:
        """What keys held before, where a file of this process has it."""
        ...

    async def range(self, prefix: str, *, start: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Entries whose key begins with ``prefix``, in key order, from ``start`` (a whole key, inclusive) on.

        ``revision`` 0 reads the newest state. Raises ``Compacted`` or ``FutureRevision``.
        """
        ...

    async def create(self, key: str, value: bytes, *, ttl: float | None = None) -> int:
        """Write a new key and return its revision, or raise ``KeyExists``. ``ttl`` seconds later it is deleted."""
        ...

    async def update(self, key: str, value: bytes, *, expected: int, ttl: float | None = None) -> int:
        """Replace the value if the key's modified revision is ``expected``; else ``RevisionMismatch``/``KeyNotFound``.

        Without ``ttl`` the key stays for good, whatever was said when it was created.
        """
        ...

    async def delete(self, key: str, *, expected: int) -> int:
        """Delete the key if its modified revision is ``expected``; returns the revision of the deletion."""
        ...

    async def transact(self, operations: Sequence[Operation]) -> int:
        """Do all operations, each of another key, if every condition holds, or none; returns the last write's revision.

        Otherwise it raises what a single write would, for the first operation whose condition does not hold. The
        writes become visible together: they reach a watch or subscription in one batch. Embedded stores give them
        consecutive revisions, in the order of the operations; etcd gives all of them the same.
        """
        ...

    def watch(self, prefix: str, *, after: int) -> Watch:
        """Events with a revision greater than ``after``; raises ``Compacted`` on first iteration if it is too old."""
        ...

    def subscribe(
        self, prefix: str, deliver: Deliver, *, after: int, lost: Lost | None = None
    ) -> Subscription:
        """Call ``deliver`` with every batch of events under ``prefix`` that is newer than ``after``.

        For a cache in this process: what happened between ``after`` and now is delivered before this method returns,
        and every later write has been delivered before the writer's own ``await`` returns, so readers need not poll or
        wait for the cache to catch up. Other processes' writes (etcd) arrive by themselves; ``wait_until_fresh`` waits for
        them. Raises ``Compacted`` if ``after`` is too old. When the store can no longer deliver without a gap, or
        ``deliver`` raises, the subscription ends and ``lost`` is called: read the range anew and subscribe again.
        """
        ...

    async def wait_until_fresh(self, revision: int = 0) -> int:
        """Wait until ``self.revision`` has reached ``revision`` (0: whatever is newest now, linearizable).

        Returns ``self.revision``. After it, a cache fed by ``subscribe`` answers as the store itself would. A revision
        far in the future may never come: bound the wait.
        """
        ...

    async def current_revision(self) -> int:
        """The newest revision, linearizable."""
        ...

    async def check_writable(self) -> None:
        """Raises ``StoreUnavailable`` if the last write failed and writing still fails."""
        ...

    async def compact(self, revision: int) -> None:
        """Forget what was superseded at or before ``revision``. Nothing happens if that is done already."""
        ...

    async def close(self) -> None:
        """Let writes under way finish, then end every watch and subscription with ``StoreUnavailable``."""
        ...
