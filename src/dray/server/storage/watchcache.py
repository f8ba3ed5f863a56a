"""The watch cache: all objects of a kind in memory, fed by the store, with a window of recent changes for watches.

A cache is never behind what a writer has been told: embedded stores deliver a change before they answer, and on etcd
readers wait until the cache has reached the store's revision.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Final

import msgspec

from dray.api import protobuf
from dray.api.errors import qualified
from dray.api.scheme.kinds import Object
from dray.server.storage.codec import Codec, Codecs, Undecodable
from dray.server.storage.documents import Document
from dray.store.interface import Event, KeyValue, Past, Store, StoreError, Subscription
from dray.store.keys import SortedKeys

log = logging.getLogger(__name__)

ADDED, MODIFIED, DELETED = "ADDED", "MODIFIED", "DELETED"

Matches = Callable[[Document], bool]

#: Changes that are kept ready to be sent; older ones are read again from what is stored, should anybody ask.
_WARM: Final = 256
_WARM_BYTES: Final = 16 * 2**20
#: What all windows together may hold of objects that have been replaced or deleted since.
_WINDOW_BYTES: Final = 16 * 2**20
_LOST_TRACK: Final = "the server lost track of changes"
#: A change with its documents, beside the stored value.
_CHANGE_BYTES: Final = 640


class WindowBudget:
    """What the windows of all kinds may hold together. Whoever holds most gives way, so that much change of one kind does
    not cost the others their windows."""

    def __init__(self, limit: int = _WINDOW_BYTES) -> None:
        self.limit = limit
        self.held = 0
        self._caches: set[WatchCache] = set()

    def join(self, cache: WatchCache) -> None:
        self._caches.add(cache)

    def leave(self, cache: WatchCache) -> None:
        self._caches.discard(cache)

    def shrink(self) -> None:
        """Make room for an eighth more than there is: rarely, rather than a little at every write."""
        while self.held > self.limit * 7 // 8:
            largest = max(self._caches, key=lambda cache: cache.window_bytes)
            if not largest.window_bytes:
                return
            largest.shrink_window(largest.window_bytes - self.limit // 8)


class Change(msgspec.Struct, eq=False):
    """One write as watchers see it: the document before and after, and its encoded lines, shared by all of them."""

    revision: int
    before: Document | None
    after: Document | None
    _deleted: Document | None = None
    _lines: dict[tuple[Codec, str], bytes] | None = None
    _frames: dict[tuple[Codec, str], bytes] | None = None

    @property
    def type(self) -> str:
        """What it is to a watcher that sees everything."""
        return DELETED if self.after is None else ADDED if self.before is None else MODIFIED

    @property
    def held(self) -> int:
        """Bytes that are kept for this change's sake alone."""
        before = self.before
        return _CHANGE_BYTES if before is None or before.value is None else _CHANGE_BYTES + len(before.value)

    @property
    def size(self) -> int:
        """Bytes of the object that watchers are sent, as it is stored."""
        document = self.before if self.after is None else self.after
        return 0 if document is None or document.value is None else len(document.value)

    @property
    def deleted(self) -> Document:
        """What was there before, at the revision of this change: the object of a DELETED event."""
        if self._deleted is None:
            assert self.before is not None
            self._deleted = self.before.at(self.revision)
        return self._deleted

    def drop_encoded(self) -> None:
        """Drop what can be had again: whoever keeps up has read it."""
        self._lines = self._frames = None
        before = self.before
        if before is not None:
            before.forget()
            if before.value is not None or before.is_aside:
                self._deleted = None

    def document(self, type: str) -> Document:
        if type is DELETED:
            return self.deleted
        assert self.after is not None
        return self.after

    def line(self, codec: Codec, type: str) -> bytes:
        lines = self._lines
        if lines is None:
            lines = self._lines = {}
        found = lines.get(key := (codec, type))
        if found is None:
            body = self.document(type).rest(codec)
            found = lines[key] = b'{"type":"%b","object":%b%b}\n' % (type.encode(), codec.head, body)
        return found

    def frame(self, codec: Codec, type: str) -> bytes:
        """The same in protobuf."""
        frames = self._frames
        if frames is None:
            frames = self._frames = {}
        found = frames.get(key := (codec, type))
        if found is None:
            found = frames[key] = protobuf.frame(type, self.document(type).enveloped(codec))
        return found


class Watcher:
    """A cursor over a cache's changes. It never holds a change back from others, and may be dropped."""

    __slots__ = ("_cache", "_matches", "_wake", "index", "key", "lost", "pending", "since")

    def __init__(
        self,
        cache: WatchCache,
        key: str,
        *,
        since: int,
        matches: Matches | None,
        index: tuple[str, str] | None,
    ) -> None:
        self.key = key  # a namespace, or "" for all
        self.index = index  # the one field and value it is interested in, where that is known
        self.since = since
        self.pending: list[tuple[str, Change]] = []
        self.lost = ""  # why the watch ended, when it did not end by itself
        self._cache = cache
        self._matches = matches
        self._wake: asyncio.Future[None] | None = None

    def offer(self, change: Change) -> None:
        if change.revision <= self.since or self.lost:
            return
        type = change.type if self._matches is None else self.classify(change)
        if type is None:
            return
        pending = self.pending
        if len(pending) >= self._cache.lag:
            self.drop("the watcher is too slow")
            return
        pending.append((type, change))
        if self._wake is not None:
            self.wake()

    def classify(self, change: Change) -> str | None:
        """ADDED and DELETED also say that an object has begun or ceased to match the selectors."""
        before, after, matches = change.before, change.after, self._matches
        if matches is None:
            return change.type
        was = before is not None and matches(before)
        if after is not None and matches(after):
            return MODIFIED if was else ADDED
        return DELETED if was else None

    def take(self) -> Sequence[tuple[str, Change]]:
        """What is pending, which is pending no longer."""
        pending, self.pending = self.pending, []
        return pending

    def wake(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None and not wake.done():
            wake.set_result(None)

    async def changed(self) -> None:
        """Wait until something is pending, or somebody calls ``wake``."""
        if self.pending or self.lost:
            return
        self._wake = asyncio.get_running_loop().create_future()
        try:
            await self._wake
        finally:
            self._wake = None

    def drop(self, reason: str) -> None:
        self.lost = reason
        self.pending.clear()
        self._cache.unwatch(self)
        self.wake()

    def close(self) -> None:
        self._cache.unwatch(self)


class WatchCache:
    """All objects under one prefix of the store."""

    def __init__(
        self,
        store: Store,
        prefix: str,
        codecs: Codecs,
        *,
        window: int = 4096,
        budget: WindowBudget | None = None,
        lag: int = 4096,
    ) -> None:
        self.prefix = prefix
        self.codecs = codecs
        self._lookup = store.lookup(prefix)
        self._past = store.past
        self._on_disk = 0
        self.documents: dict[str, Document] = {}
        self._undecodable: dict[str, Undecodable] = {}  # what the store holds and nobody here can read
        self.lag = lag
        self.floor = 0  # every change after this revision is in the window
        self.modified = 0
        self.index_fields: dict[str, Callable[[Document], str]] = {}
        self._keys = SortedKeys()
        self._store = store
        self._window: deque[Change] = deque()
        self._window_size = window
        self._budget = budget or WindowBudget()
        self._budget.join(self)
        self.window_bytes = 0
        self._warm: deque[Change] = deque()  # the newest of the window
        self._warm_bytes = 0
        self._trimmed = self._trimmed_bytes = 0
        self._released: list[int] = []  # of what has left the window, and slow watchers may still wait for
        # Groups of watchers are replaced, not changed: one that is told of a change may be dropped for it.
        self._everywhere: tuple[Watcher, ...] = ()
        self._within: dict[str, tuple[Watcher, ...]] = {}  # by namespace
        self._indexed: dict[str, dict[str, tuple[Watcher, ...]]] = {}  # by field, then value
        self._fresh: dict[bytes, Object] = {}
        self._subscription: Subscription | None = None
        self._reloading: asyncio.Task[None] | None = None
        self._subscribers: list[Callable[[Change], None]] = []
        #: other caches whose names must not be taken here: generations of one kind
        self.name_shared_with: list[WatchCache] = []

    # -- filling

    @property
    def on_disk(self) -> bool:
        """Whether the objects stay in the store, in which case ``documents`` has none: ``get`` reads one of them, the
        store's ``range`` many."""
        return self._lookup is not None

    async def load(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        page = await self._store.range(self.prefix, limit=1 if self.on_disk else 0)
        cut = len(self.prefix)
        documents = {}
        self._undecodable = {}
        for entry in page.entries if not self.on_disk else ():
            key = entry.key[cut:]
            if (document := self._read(key, entry.mod_revision, entry.value)) is not None:
                documents[key] = document
        before, self.documents = self.documents, documents
        self._keys = SortedKeys(documents)
        self._clear_window()
        self.floor = page.revision
        self._on_disk = len(page.entries) + page.remaining
        self.modified = (
            page.revision if self.on_disk else max((e.mod_revision for e in page.entries), default=0)
        )
        self._subscription = self._store.subscribe(
            self.prefix, self._deliver, after=page.revision, lost=self._lost
        )
        self._catch_up(before, page.revision)
        for watcher in [w for w in self._all_watchers() if w.since < self.floor]:
            watcher.drop(_LOST_TRACK)  # it came while the feed was lost

    def _clear_window(self) -> None:
        for change in self._window:
            self._let_go(change)
        self._release()
        self._window.clear()
        self._warm.clear()
        self._budget.held -= self.window_bytes
        self.window_bytes = self._warm_bytes = 0

    def _read(self, key: str, revision: int, value: bytes) -> Document | None:
        """A document for a value that somebody else may have written; None, and a note, if it cannot be read."""
        try:
            self.codecs.check(value)
        except Undecodable as e:
            kind = self.codecs.kind
            shown = f'{qualified(kind.plural, kind.group)} "{key.rpartition("/")[2]}"'
            message = f"{shown} cannot be read from storage ({self.prefix}{key}): {e.message}"
            details = {"name": key.rpartition("/")[2], "group": kind.group, "kind": kind.plural}
            self._undecodable[key] = type(e)(message, details=details)
            log.error("%s", message)
            return None
        self._undecodable.pop(key, None)
        return Document(self.codecs, key, revision, value=value)

    def _catch_up(self, before: dict[str, Document], revision: int) -> None:
        """Tell subscribers what has changed while the feed was lost: they have no other way to notice."""
        if not self._subscribers:
            return
        for key in before.keys() | self.documents.keys():
            old, new = before.get(key), self.documents.get(key)
            if old is None or new is None or old.revision != new.revision:
                for subscriber in self._subscribers:
                    subscriber(Change(revision, old, new))

    def _lost(self, error: StoreError) -> asyncio.Task[None] | None:
        """The feed has a gap: end every watch (clients list anew) and read everything again."""
        log.warning("the cache of %s lost its feed: %s", self.prefix, error)
        for watcher in list(self._all_watchers()):
            watcher.drop(_LOST_TRACK)
        with contextlib.suppress(RuntimeError):
            self._reloading = asyncio.get_running_loop().create_task(self._reload())
        return self._reloading

    async def _reload(self) -> None:
        delay = 0.1
        while True:
            try:
                await self.load()
                return
            except StoreError as e:
                log.warning("cannot read %s: %s", self.prefix, e)
                await asyncio.sleep(delay)
                delay = min(delay * 2, 5.0)

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None
        if self._reloading is not None:
            self._reloading.cancel()
        self._budget.leave(self)
        self._clear_window()
        for watcher in list(self._all_watchers()):
            watcher.drop("")

    def redefine(self, codecs: Codecs) -> None:
        """The kind has new versions or a new schema: what is already decoded may have the old shape."""
        self.codecs = codecs
        for document in self.documents.values():
            document.redefine(codecs)

    def announce(self, value: bytes, hub: Object) -> None:
        """A writer is about to store ``value``; ``hub`` is what it decodes to, so nobody has to decode it again."""
        self._fresh[value] = hub

    def retract(self, value: bytes) -> None:
        self._fresh.pop(value, None)

    def _deliver(self, events: Sequence[Event]) -> None:
        cut = len(self.prefix)
        codecs, fresh = self.codecs, self._fresh
        for event in events:
            revision, key, value = event.revision, event.key[cut:], event.value
            before = None
            if self._lookup is not None:
                before = None if event.previous is None else self.document(event.previous)
            if value is None:
                self._undecodable.pop(key, None)
                self.put(key, None, revision, before)
                continue
            hub = fresh.pop(value, None)
            if hub is None:
                self._take_over(key, revision, value, before)
                continue
            document = Document(codecs, key, revision, value=value, hub=hub)
            hub["metadata"]["resourceVersion"] = str(revision)
            codecs.decoded(document, len(value))
            self.put(key, document, revision, before)
        self._trim()

    def _take_over(self, key: str, revision: int, value: bytes, before: Document | None) -> None:
        """What somebody else has written. Watchers are not told that an object has gone that can no longer be read."""
        document = self._read(key, revision, value)
        if document is not None:
            self.put(key, document, revision, before)
        elif key in self.documents:
            for watcher in list(self._all_watchers()):
                watcher.drop(self._undecodable[key].message)
            self.put(key, None, revision)

    def _trim(self) -> None:
        """Keep the window to its size, and drop watchers that still wait for changes long out of it.

        Looking at every watcher is left until a good part of the window has turned over. So what slow watchers keep
        alive is bounded by the window, however many of them there are.
        """
        if len(self._window) > self._window_size:
            self._drop_oldest(len(self._window) - self._window_size, bytes_left=None)
        if self._budget.held > self._budget.limit:
            self._budget.shrink()

    def shrink_window(self, bytes_left: int) -> None:
        """Forget the oldest changes until the window holds so many bytes at most."""
        self._drop_oldest(0, bytes_left=bytes_left)

    def _drop_oldest(self, number: int, *, bytes_left: int | None) -> None:
        window = self._window
        while number > 0 or (bytes_left is not None and window and self.window_bytes > bytes_left):
            number -= 1
            oldest = window.popleft()
            self.floor = oldest.revision
            held = oldest.held
            self.window_bytes -= held
            self._budget.held -= held
            self._trimmed += 1
            self._trimmed_bytes += held
            self._let_go(oldest)
        if self._trimmed >= self._window_size // 4 or self._trimmed_bytes >= self._budget.limit // 4:
            self._trimmed = self._trimmed_bytes = 0
            for watcher in [
                w for w in self._all_watchers() if w.pending and w.pending[0][1].revision <= self.floor
            ]:
                watcher.drop("the watcher is too slow")
            self._release()

    def _let_go(self, change: Change) -> None:
        """Note what the store has kept for this change and need not any more."""
        before, after = change.before, change.after
        if before is not None and before.is_aside:
            self._released.append(before.revision)
        if self._lookup is not None and after is not None and after.is_aside:
            self._released.append(after.revision)

    def _release(self) -> None:
        if self._past is not None and self._released:
            self._past.release(self._released)
            self._released = []

    def put(self, key: str, after: Document | None, revision: int, before: Document | None = None) -> None:
        """Take over what a key holds from a revision on, and tell everybody. ``before``: what it held, if on disk."""
        if self._lookup is None:
            before = self.documents.get(key)
        if self._lookup is not None:
            if before is after is None:
                return
            self._on_disk += (before is None) - (after is None)
        elif after is None:
            if before is None:
                return
            del self.documents[key]
            self._keys.remove(key)
        else:
            if before is None:
                self._keys.add(key)
            else:
                after.key = before.key  # the same text, of which there are thousands
            self.documents[key] = after
        self.modified = revision
        change = Change(revision, before, after)
        self._window.append(change)
        held = change.held
        self.window_bytes += held
        self._budget.held += held
        self._keep_warm(change)
        for subscriber in self._subscribers:
            subscriber(change)
        for watcher in self._everywhere:
            watcher.offer(change)
        if self._within:
            for watcher in self._within.get(key.rpartition("/")[0], ()):
                watcher.offer(change)
        if self._indexed:
            self._offer_indexed(change, key)

    def _keep_warm(self, change: Change) -> None:
        """Keep what is encoded of the newest changes, by number and by size."""
        warm = self._warm
        warm.append(change)
        self._warm_bytes += change.size
        while len(warm) > _WARM or self._warm_bytes > _WARM_BYTES:
            oldest = warm.popleft()
            self._warm_bytes -= oldest.size
            oldest.drop_encoded()
            if self._past is not None and oldest.revision > self.floor:
                self._set_aside(oldest, self._past)

    def _set_aside(self, change: Change, past: Past) -> None:
        """Leave what a change has replaced to the store; of objects on disk also what they were replaced with."""
        before, after = change.before, change.after
        if before is not None and before.value is not None:
            held = len(before.value)
            if past.keep(before.revision, until=change.revision):
                self.window_bytes -= held
                self._budget.held -= held
                before.set_aside(past)
        if self._lookup is None or after is None or after.value is None:
            return
        if past.keep(after.revision, until=after.revision):
            after.set_aside(past)

    # -- reading

    def get(self, key: str) -> Document | None:
        """The document of a key; ``Undecodable``, with the object's name, where the store holds what cannot be read."""
        if self._lookup is not None:
            entry = self._lookup(self.prefix + key)
            return None if entry is None else self.document(entry)
        found = self.documents.get(key)
        if found is None and key in self._undecodable:
            raise self._undecodable[key]
        return found

    def undecodable(self, namespace: str = "") -> Sequence[Undecodable]:
        """What lists lack: all that cannot be read, or a namespace's."""
        folder = f"{namespace}/" if namespace else ""
        return [error for key, error in self._undecodable.items() if key.startswith(folder)]

    def range(self, namespace: str = "", *, after: str = "") -> Sequence[str]:
        """Keys in order: all, or a namespace's; ``after`` is where to start (inclusive)."""
        if not namespace:
            return self._keys.between(after, None)[0]
        return self._keys.between(max(after, namespace + "/"), namespace + "0")[0]  # "0" follows "/"

    def __len__(self) -> int:
        """How many there are. Of those on disk there may be more, as at start only so many are counted."""
        return self._on_disk if self.on_disk else len(self.documents)

    def __iter__(self) -> Iterator[Document]:
        documents = self.documents
        return (documents[key] for key in self.range())

    def document(self, entry: KeyValue) -> Document:
        """A document for an entry that was read past the cache."""
        return Document(self.codecs, entry.key[len(self.prefix) :], entry.mod_revision, value=entry.value)

    # -- watching

    def subscribe(self, subscriber: Callable[[Change], None]) -> Callable[[], None]:
        """Call ``subscriber`` with every change, before the writer is answered; returns how to stop."""
        self._subscribers.append(subscriber)
        return lambda: self._subscribers.remove(subscriber)

    def watch(
        self,
        namespace: str = "",
        *,
        since: int,
        matches: Matches | None = None,
        index: tuple[str, str] | None = None,
    ) -> Watcher:
        """A watcher of changes after ``since``, which must not be below ``floor``."""
        watcher = Watcher(self, namespace, since=since, matches=matches, index=index)
        self._regroup(watcher, (*self._group(watcher), watcher))
        if self._window and since < self._window[-1].revision:
            folder = namespace + "/"
            warm = self._warm[0].revision if self._warm else 0
            for change in self._window:
                if change.revision <= since:
                    continue
                document = change.after or change.before
                assert document is not None
                if not namespace or document.key.startswith(folder):
                    watcher.offer(change)
                    if matches is not None and change.revision < warm:
                        change.drop_encoded()  # what selecting has decoded: thousands of objects that are no more
        return watcher

    def unwatch(self, watcher: Watcher) -> None:
        group = self._group(watcher)
        if watcher in group:
            at = group.index(watcher)
            self._regroup(watcher, group[:at] + group[at + 1 :])

    def _group(self, watcher: Watcher) -> tuple[Watcher, ...]:
        """All watchers that hear of the same changes."""
        if watcher.index is not None:
            field, value = watcher.index
            return self._indexed.get(field, {}).get(value, ())
        return self._within.get(watcher.key, ()) if watcher.key else self._everywhere

    def _regroup(self, watcher: Watcher, group: tuple[Watcher, ...]) -> None:
        if watcher.index is not None:
            field, value = watcher.index
            _put_or_drop(self._indexed.setdefault(field, {}), value, group)
            if not self._indexed[field]:
                del self._indexed[field]
        elif watcher.key:
            _put_or_drop(self._within, watcher.key, group)
        else:
            self._everywhere = group

    def _all_watchers(self) -> Iterator[Watcher]:
        yield from self._everywhere
        for group in self._within.values():
            yield from group
        for by_value in self._indexed.values():
            for group in by_value.values():
                yield from group

    @property
    def watchers(self) -> int:
        return sum(1 for _ in self._all_watchers())

    def _offer_indexed(self, change: Change, key: str) -> None:
        for field, by_value in tuple(self._indexed.items()):
            read = self.index_fields[field]
            for value in {read(d) for d in (change.before, change.after) if d is not None}:
                for watcher in by_value.get(value, ()):
                    if not watcher.key or key.startswith(watcher.key + "/"):
                        watcher.offer(change)


def _put_or_drop(groups: dict[str, tuple[Watcher, ...]], key: str, group: tuple[Watcher, ...]) -> None:
    if group:
        groups[key] = group
    else:
        groups.pop(key, None)
