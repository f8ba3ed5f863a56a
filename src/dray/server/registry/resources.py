"""The resources that are served: kinds with their codecs and caches, found by group, version and plural.

A CustomResourceDefinition adds resources while the server runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from dray.api.release import Gates, Release, Serving
from dray.api.scheme.kinds import Kind
from dray.server.storage.codec import Codec, Codecs, DecodedDocuments
from dray.server.storage.watchcache import WatchCache, WindowBudget
from dray.store.interface import KeyValue, Operation, Store

REGISTRY: Final = "/registry/"
_NOTHING_RESERVED: Final = nullcontext()

#: Runs between the strategy's preparation and its validation, with the new and the old object, and may change the new
#: one. What it reserves for the object stays reserved until the block ends. Upstream has BeginCreate and BeginUpdate.
BeginWrite = Callable[[Any, Any], AbstractContextManager[None]]


class Behind(Exception):
    """A write would rest on something that another server may have written without our having heard of it yet."""


class Companions(Protocol):
    """Keys that are written together with the objects of a resource, in the same transaction."""

    def operations(self, key: str, old: Any, new: Any, *, fresh: bool) -> Sequence[Operation]:
        """What belongs to the write that replaces ``old`` (None: create) by ``new`` (None: delete), or a StatusError.

        A record that has changed makes the transaction fail, so what is written is right on any server. What is read
        beside the records has no such guard: ``Behind`` asks for caches that are as new as the store. With ``fresh``
        they are.
        """
        ...

    def learn(self, key: str, current: KeyValue | None) -> None:
        """A transaction was refused because ``key`` is not what ``operations`` took it for."""
        ...


def reserve_nothing(new: Any, old: Any) -> AbstractContextManager[None]:
    return _NOTHING_RESERVED


@dataclass(eq=False, slots=True)
class Resource:
    """A kind as this server serves it. Virtual kinds (reviews, bindings) are never stored."""

    kind: Kind
    codecs: Codecs
    served: tuple[str, ...]  # names of the served versions, most preferred first
    _cache: WatchCache | None = None
    begin_write: BeginWrite = reserve_nothing
    companions: Companions | None = None

    @property
    def cache(self) -> WatchCache:
        """The stored objects; a virtual kind (``kind.virtual``) has none."""
        assert self._cache is not None, f"{self.kind.kind} is never stored"
        return self._cache

    def key(self, namespace: str, name: str) -> str:
        """The key below the cache's prefix."""
        return f"{namespace}/{name}" if self.kind.namespaced else name


@dataclass(slots=True)
class APIGroup:
    name: str
    versions: tuple[str, ...]  # in discovery's order; the first is preferred
    custom: bool = False
    resources: dict[str, list[Resource]] = field(default_factory=dict)  # by version


def prefix_of(kind: Kind) -> str:
    """Where a kind's objects live in the store, as upstream lays them out."""
    below = kind.prefix or (f"{kind.group}/{kind.plural}" if kind.custom else kind.plural)
    return f"{REGISTRY}{below}/"


class Resources:
    """The served kinds. Lookups are dictionaries; a change makes discovery's caches stale by raising ``generation``.

    Two kinds may share a group and a plural in different versions: the generations of resource claims do.
    """

    def __init__(self, store: Store, *, release: Release | None = None) -> None:
        self._store = store
        self._release = release
        self._found: dict[tuple[str, str, str], tuple[Resource, Codec]] = {}
        self._all: dict[tuple[str, str, str], Resource] = {}  # by group, plural and most preferred version
        self._caches: dict[str, WatchCache] = {}
        self._windows = WindowBudget()
        self._decoded = DecodedDocuments()
        self._order: dict[str, tuple[str, ...]] = {}  # versions of built-in groups in discovery's order
        self.generation = 0
        self._listeners: list[Callable[[], None]] = []
        self.closers: list[Callable[[], None]] = []  # of what is fed by the store beside the caches

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have ``listener`` called when other kinds or versions are served than before."""
        self._listeners.append(listener)

    def _changed(self) -> None:
        self.generation += 1
        for listener in self._listeners:
            listener()

    async def serve(self, kinds: Iterable[Kind], serving: Serving, gates: Gates) -> None:
        """Serve built-in kinds in the versions that are wanted; groups are discovered in the same order."""
        self._order = dict(serving.groups())
        for kind in kinds:
            served = [
                v.name
                for v in kind.versions
                if serving(kind.group, v.name, kind.plural) and (v.served is None or v.served(gates))
            ]
            if served:
                await self.add(kind, served)

    def find(self, group: str, version: str, plural: str) -> tuple[Resource, Codec] | None:
        return self._found.get((group, version, plural))

    def codec(self, group: str, version: str, plural: str) -> Codec:
        """The codec of a kind that is served for certain."""
        return self._found[group, version, plural][1]

    def named(self, group: str, version: str, name: str) -> Kind | None:
        """The kind that has this name in a version, served or not."""
        for resource in self._all.values():
            kind = resource.kind
            if kind.group == group and kind.kind == name and version in resource.codecs.by_version:
                return kind
        return None

    def resource(self, group: str, plural: str) -> Resource | None:
        """What is served under this name, in the group's preferred version where there are several."""
        found = [r for (g, p, _), r in self._all.items() if g == group and p == plural]
        return min(found, key=lambda r: version_rank(r.served[0]), default=None)

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._all.values())

    async def add(self, kind: Kind, served: Sequence[str]) -> Resource:
        """Serve a kind, reading what the store already has of it. Adding it again replaces its definition."""
        codecs = Codecs(kind, self._release, decoded=self._decoded)
        cache = None if kind.virtual else await self._cache(kind, codecs)
        resource = Resource(kind, codecs, tuple(served), cache)
        self._all[kind.group, kind.plural, served[0]] = resource
        for version in served:
            self._found[kind.group, version, kind.plural] = (resource, codecs.by_version[version])
        self._changed()
        return resource

    async def add_custom(self, kinds: Sequence[Kind]) -> None:
        """Serve a custom resource, each of its versions a kind of its own, in the place of what was served so far."""
        self._forget(kinds[0].group, kinds[0].plural)
        for kind in kinds:
            await self.add(kind, [kind.versions[0].name])

    async def _cache(self, kind: Kind, codecs: Codecs) -> WatchCache:
        owner = kind.stored_as or kind
        prefix = prefix_of(owner)
        found = self._caches.get(prefix)
        if found is None:
            mine = codecs if owner is kind else Codecs(owner, self._release, decoded=self._decoded)
            found = self._caches[prefix] = WatchCache(self._store, prefix, mine, budget=self._windows)
            await found.load()
        elif owner is kind:
            found.redefine(codecs)
        return found

    async def remove(self, group: str, plural: str) -> None:
        """Stop serving a custom resource."""
        for resource in self._forget(group, plural):
            if not resource.kind.virtual:
                self._caches.pop(resource.cache.prefix, None)
                resource.cache.close()

    def _forget(self, group: str, plural: str) -> list[Resource]:
        gone = [key for key in self._all if key[:2] == (group, plural)]
        found = [self._all.pop(key) for key in gone]
        for resource in found:
            for version in resource.served:
                self._found.pop((group, version, plural), None)
        if found:
            self._changed()
        return found

    def groups(self) -> list[APIGroup]:
        """Groups in discovery's order: built-in ones first, custom ones by name."""
        groups: dict[str, APIGroup] = {}
        custom: dict[str, set[str]] = {}
        for resource in self._all.values():
            kind = resource.kind
            if kind.custom:
                custom.setdefault(kind.group, set()).update(resource.served)
            elif kind.group not in groups:
                groups[kind.group] = APIGroup(kind.group, ())
        for name, group in groups.items():
            present = {v for r in self._all.values() if r.kind.group == name for v in r.served}
            ordered = [v for v in self._order.get(name, ()) if v in present]
            group.versions = (*ordered, *sorted(present - set(ordered), key=version_rank))
        names = list(self._order)
        ranked = sorted(groups.values(), key=lambda g: names.index(g.name) if g.name in names else len(names))
        for name in sorted(custom):
            if name not in groups:
                ranked.append(APIGroup(name, tuple(sorted(custom[name], key=version_rank)), custom=True))
        for group in ranked:
            for version in group.versions:
                listed = [r for r in self._all.values() if r.kind.group == group.name and version in r.served]
                group.resources[version] = sorted(listed, key=lambda r: r.kind.plural)
        return ranked

    def close(self) -> None:
        for cache in self._caches.values():
            cache.close()
        for close in self.closers:
            close()


def version_rank(version: str) -> tuple[int, int, int, str]:
    """Kubernetes' order of versions: v2 before v1 before v1beta2 before v1alpha1 before anything else."""
    body = version[1:] if version.startswith("v") else ""
    for rank, word in ((1, "beta"), (2, "alpha")):
        major, found, minor = body.partition(word)
        if found and major.isdigit() and minor.isdigit():
            return (rank, -int(major), -int(minor), version)
    if body.isdigit():
        return (0, -int(body), 0, version)
    return (3, 0, 0, version)
