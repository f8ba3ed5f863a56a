"""Listers: how admission plugins read stored objects. The cache of a kind is looked up once and kept."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from dray.server.apiserver import APIServer
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import WatchCache

if TYPE_CHECKING:
    from dray.api.types.core import Namespace


class Listers:
    """Objects by kind, namespace and name. A kind that is not served has no objects."""

    def __init__(self, api: APIServer) -> None:
        self._api = api
        self._found: dict[tuple[str, str], WatchCache] = {}
        self._namespaces: WatchCache | None = None  # which nearly every write asks for

    def cache(self, group: str, plural: str) -> WatchCache | None:
        found = self._found.get((group, plural))
        if found is None:
            resource = self._api.resources.resource(group, plural)
            if resource is None or resource.kind.virtual:
                return None
            found = self._found[group, plural] = resource.cache
        return found

    def document(self, group: str, plural: str, key: str) -> Document | None:
        cache = self._found.get((group, plural))
        if cache is None:
            cache = self.cache(group, plural)
        return None if cache is None else cache.documents.get(key)

    def get(self, group: str, plural: str, key: str) -> Any:
        """A hub object or None, which must not be changed; ``key`` is ``name`` or ``namespace/name``."""
        found = self.document(group, plural, key)
        return None if found is None else found.hub

    def all(self, group: str, plural: str, namespace: str = "") -> Iterable[Any]:
        """Hub objects in the order of their keys."""
        cache = self.cache(group, plural)
        if cache is None or not cache.documents:
            return ()
        documents = cache.documents
        return (documents[key].hub for key in cache.range(namespace))

    def namespace(self, name: str) -> Namespace | None:
        namespaces = self._namespaces
        if namespaces is None:
            namespaces = self._namespaces = self.cache("", "namespaces")
            if namespaces is None:
                return None
        document = namespaces.documents.get(name)
        found: Namespace | None = None if document is None else document.hub
        return found
