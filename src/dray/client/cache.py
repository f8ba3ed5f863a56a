"""The objects an informer knows: by name, and by the indexes they are looked up with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence, ValuesView
from typing import Generic

from dray.client.resources import T

#: From an object to the values it is found under. It is asked once for each object that comes in.
IndexFunc = Callable[[T], Sequence[str]]
#: Namespace and name. Not an ``ObjectKey``, which is found under the same but takes longer to make.
NamespacedName = tuple[str, str]
_Index = dict[str, dict[NamespacedName, None]]


class Store(Generic[T]):
    """Objects of one resource. Reading is a dict look-up; nothing read may be changed."""

    def __init__(self, indexers: Mapping[str, IndexFunc[T]] | None = None) -> None:
        self._objects: dict[NamespacedName, T] = {}
        #: All objects, as a live view: copy it before an ``await``.
        self.values: Callable[[], ValuesView[T]] = self._objects.values
        self._indexes: dict[str, tuple[IndexFunc[T], _Index]] = {}
        self._functions: tuple[IndexFunc[T], ...] = ()  # of the indexes, in their order
        #: By object: the values it is found under in each index, in the order of the indexes.
        self._values: dict[NamespacedName, list[Sequence[str]]] = {}
        for name, indexer in (indexers or {}).items():
            self.add_index(name, indexer)

    def __len__(self) -> int:
        return len(self._objects)

    def get(self, namespace: str, name: str) -> T | None:
        return self._objects.get((namespace, name))

    def items(self) -> Collection[tuple[NamespacedName, T]]:
        return self._objects.items()

    def by_index(self, index: str, value: str) -> list[T]:
        found = self._indexes[index][1].get(value)
        return [self._objects[place] for place in found] if found else []

    def index_values(self, index: str) -> Collection[str]:
        """The values under which anything is found at present."""
        return self._indexes[index][1].keys()

    def add_index(self, name: str, indexer: IndexFunc[T]) -> None:
        """Add an index; adding the same one again does nothing, so that several users can ask for it."""
        if name in self._indexes:
            if self._indexes[name][0] is not indexer:
                raise ValueError(f"there is another index named {name!r}")
            return
        index: _Index = {}
        self._indexes[name] = (indexer, index)
        self._functions = (*self._functions, indexer)
        for place, obj in self._objects.items():
            values = indexer(obj) or ()
            self._values.setdefault(place, []).append(values)
            _link(index, values, place)

    def put(self, obj: T) -> T | None:
        """Insert or replace; returns what was there."""
        metadata = obj["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        old = self._objects.get(place)
        self._objects[place] = obj
        functions = self._functions
        if not functions:
            return old
        before = self._values.get(place)
        now = [indexer(obj) or () for indexer in functions]
        if now == before:
            return old  # as after most changes: an index knows where objects are, not the objects
        self._values[place] = now
        for number, (_, index) in enumerate(self._indexes.values()):
            if before is not None:
                if before[number] == now[number]:
                    continue
                _unlink(index, before[number], place)
            _link(index, now[number], place)
        return old

    def remove(self, obj: T) -> T | None:
        """Remove what is there under the object's name, and return it."""
        metadata = obj["metadata"]
        place = (metadata.get("namespace", ""), metadata["name"])
        old = self._objects.pop(place, None)
        for values, (_, index) in zip(self._values.pop(place, ()), self._indexes.values(), strict=False):
            _unlink(index, values, place)
        return old


def _link(index: _Index, values: Sequence[str], place: NamespacedName) -> None:
    for value in values:
        found = index.get(value)
        if found is None:
            index[value] = {place: None}
        else:
            found[place] = None


def _unlink(index: _Index, values: Sequence[str], place: NamespacedName) -> None:
    for value in set(values):
        found = index[value]
        del found[place]
        if not found:
            del index[value]
