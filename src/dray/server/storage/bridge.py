"""Bridged generations: objects of an older kind that are also served as objects of the newer kind.

Each kind has its own prefix in the store. The watch cache of the newer kind holds a bridged document for every older
object, so that get, list and watch need no special case; a write to a bridged document is written to the original.
"""

from __future__ import annotations

from collections.abc import Callable

from dray.api.scheme.kinds import Object
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import Change, WatchCache

Show = Callable[[Object], Object]
Merge = Callable[[Object, Object], Object]


class BridgedDocument(Document):
    """A document of the newer kind that stands for one of the older."""

    __slots__ = ("_home", "_merge", "original")

    def __init__(
        self, cache: WatchCache, home: WatchCache, original: Document, show: Show, merge: Merge
    ) -> None:
        shown = show(original.hub)
        hub = {"kind": cache.codecs.kind.kind, "apiVersion": cache.codecs.hub.api_version, **shown}
        super().__init__(cache.codecs, original.key, original.revision, hub=hub)
        self.original = original
        self._home = home
        self._merge = merge

    def home(self) -> WatchCache:
        return self._home

    def stored(self, new: Object) -> tuple[bytes, Object]:
        """What to store in the original's place after the view has become ``new``."""
        merged = self._merge(new, self.original.hub)
        return self._home.codecs.value(merged), merged


def bridge(newer: WatchCache, older: WatchCache, *, show: Show, merge: Merge) -> None:
    """Let ``older`` show through ``newer``, and keep their names apart."""

    def follow(change: Change) -> None:
        document = change.after
        if document is not None:
            newer.put(document.key, BridgedDocument(newer, older, document, show, merge), change.revision)
            return
        assert change.before is not None
        if isinstance(newer.get(change.before.key), BridgedDocument):
            newer.put(change.before.key, None, change.revision)

    for document in older:
        newer.put(document.key, BridgedDocument(newer, older, document, show, merge), document.revision)
    older.subscribe(follow)
    older.name_shared_with.append(newer)
    newer.name_shared_with.append(older)
