"""The objects an informer knows: by name, and by whatever indexes they are looked up with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping

from dray.api.kinds import Object
from dray.client.resources import ObjectKey, key_of

#: From an object to the values it is found under. Pure: it is asked again for the object that is replaced.
Indexer = Callable[[Object], Iterable[str]]


class ObjectCache:
    """Objects of one resource. Reading is a dict look-up; nothing read may be changed."""

    def __init__(self, indexers: Mapping[str, Indexer] | None = None) -> None:
        self._objects: dict[ObjectKey, Object] = {}
        self._indexers: dict[str, Indexer] = {}
        self._indexes: dict[str, dict[str, dict[ObjectKey, Object]]] = {}
        for name, indexer in (indexers or {}).items():
            self.add_index(name, indexer)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> Object | None:
        return self._objects.get(ObjectKey(namespace, name))

    def keys(self) -> Collection[ObjectKey]:
        return self._objects.keys()

    def values(self) -> Collection[Object]:
        """A live view; copy it before an ``await``."""
        return self._objects.values()

    def by_index(self, index: str, value: str) -> list[Object]:
        return list(self._indexes[index].get(value, {}).values())

    def index_values(self, index: str) -> Collection[str]:
        """The values under which anything is found at present."""
        return self._indexes[index].keys()

    def add_index(self, name: str, indexer: Indexer) -> None:
        """Add an index; adding the same one again does nothing, so that several users can ask for it."""
        if name in self._indexers:
            if self._indexers[name] is not indexer:
                raise ValueError(f"there is another index named {name!r}")
            return
        self._indexers[name] = indexer
        index = self._indexes[name] = {}
        for key, obj in self._objects.items():
            for value in indexer(obj):
                index.setdefault(value, {})[key] = obj

    def put(self, obj: Object) -> Object | None:
        """Insert or replace; returns what was there."""
        key = key_of(obj)
        old = self._objects.get(key)
        self._objects[key] = obj
        for name, indexer in self._indexers.items():
            index = self._indexes[name]
            values = set(indexer(obj))
            if old is not None:
                for value in set(indexer(old)) - values:
                    _unlink(index, value, key)
            for value in values:
                index.setdefault(value, {})[key] = obj
        return old

    def remove(self, key: ObjectKey) -> Object | None:
        old = self._objects.pop(key, None)
        if old is not None:
            for name, indexer in self._indexers.items():
                for value in set(indexer(old)):
                    _unlink(self._indexes[name], value, key)
        return old


def _unlink(index: dict[str, dict[ObjectKey, Object]], value: str, key: ObjectKey) -> None:
    found = index[value]
    del found[key]
    if not found:
        del index[value]
