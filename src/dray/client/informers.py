"""Informers: a collection kept up to date in memory by list and watch, with handlers that are called for each change.

The reflector's rules are client-go's: list once, watch from there, resume where a watch ended, list anew only when
that revision is gone, and wait longer and longer while the server fails. Handlers are plain functions, called in the
order of events after the cache has changed.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple

from dray.api.errors import BadRequest, Expired, Gone, Invalid, StatusError
from dray.backoff import Backoff
from dray.client.cache import IndexFunc, Store
from dray.client.client import Client
from dray.client.resources import ObjectKey, Resource, T, key_of
from dray.client.timeslice import WORKERS
from dray.client.transport import AnyEvent

if TYPE_CHECKING:
    from dray.api.types import Object

_log = logging.getLogger(__name__)

RELIST_BACKOFF: Final = Backoff(initial=0.8, factor=2.0, maximum=30.0, jitter=1.0)
#: A server is asked to end a watch after some time between these, so that watches spread over servers anew.
WATCH_SECONDS: Final = (300, 600)
#: A watch that ends sooner and brought nothing is a failing server's.
SHORTEST_WATCH: Final = 1.0
#: The annotation on the bookmark that ends the initial events of a watch.
INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"
#: Objects of a list that handlers are told of before others may get a turn.
_IN_ONE_GO: Final = 50

OnAdd = Callable[[T], None]
OnUpdate = Callable[[T, T], None]
OnDelete = Callable[[T], None]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Handler(Generic[T]):
    """What to call for changes. ``on_update`` gets the old object and the new one, ``on_set`` what is there now."""

    on_add: OnAdd[T] | None = None
    on_update: OnUpdate[T] | None = None
    on_set: OnAdd[T] | None = (
        None  # for an object that was added and one that was updated, where that is all the same
    )
    on_delete: OnDelete[T] | None = None


class _Update(NamedTuple):
    function: Callable[..., None]
    with_old: bool


class Selection(NamedTuple):
    """What an informer informs about."""

    resource: Resource[Any]
    namespace: str = ""
    label_selector: str = ""
    field_selector: str = ""


class Informer(Generic[T]):
    """A live copy of a collection. ``run`` keeps it so; everything else is for its readers."""

    def __init__(
        self,
        client: Client,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, IndexFunc[T]] | None = None,
        resync: float | None = None,
        watch_list: bool = False,
        transform: Callable[[T], T] | None = None,
        backoff: Backoff = RELIST_BACKOFF,
    ) -> None:
        """``resync``: seconds after which handlers get an update for every object, changed or not.

        ``watch_list``: get the initial objects through the watch itself where the server can do that.
        ``transform``: what the cache and handlers get in place of an object; it keeps name and resourceVersion.
        """
        self.selection = Selection(resource, namespace, label_selector, field_selector)
        self.cache: Store[T] = Store(indexers)
        self._client = client
        self._worked = False  # the watch that was last tried
        # Reading is the cache's: handlers ask all the time.
        self.get = self.cache.get  # the object of that namespace and name, or None
        self.by_index = self.cache.by_index  # the objects that an index has under a value
        self.items = self.cache.values  # all objects, as a live view: copy it before an ``await``
        self._handlers: list[Handler[T]] = []
        # The same by type of event, so that no handler is called in vain. Replaced, not changed: a loop may be running.
        self._on_add: tuple[OnAdd[T], ...] = ()
        self._on_update: tuple[_Update, ...] = ()
        self._on_delete: tuple[OnDelete[T], ...] = ()
        self._resync = resync
        self._watch_list = watch_list
        self._transform = transform
        self._backoff = backoff
        self._synced = asyncio.Event()
        self._version = ""

    # Reading

    @property
    def resource(self) -> Resource[T]:
        return self.selection.resource

    @property
    def has_synced(self) -> bool:
        """Whether the cache has held the whole collection, and handlers have been called for all of it."""
        return self._synced.is_set()

    async def synced(self) -> None:
        await self._synced.wait()

    @property
    def resource_version(self) -> str:
        """The version up to which the cache is known to be current."""
        return self._version

    def add_index(self, name: str, indexer: IndexFunc[T]) -> None:
        self.cache.add_index(name, indexer)

    # Handlers

    def add_handler(
        self,
        *,
        on_add: OnAdd[T] | None = None,
        on_update: OnUpdate[T] | None = None,
        on_set: OnAdd[T] | None = None,
        on_delete: OnDelete[T] | None = None,
    ) -> Handler[T]:
        """Call these for changes from now on, and ``on_add`` or ``on_set`` at once for what is there already."""
        handler = Handler(on_add=on_add, on_update=on_update, on_set=on_set, on_delete=on_delete)
        self._handlers.append(handler)
        self._sort_handlers()
        for obj in list(self.cache.values()):
            self._notify((f for f in (on_add, on_set) if f is not None), obj)
        return handler

    def remove_handler(self, handler: Handler[T]) -> None:
        self._handlers.remove(handler)
        self._sort_handlers()

    def _sort_handlers(self) -> None:
        handlers = self._handlers
        self._on_add = tuple(f for h in handlers for f in (h.on_add, h.on_set) if f is not None)
        self._on_delete = tuple(h.on_delete for h in handlers if h.on_delete is not None)
        self._on_update = tuple(
            _Update(f, with_old)
            for h in handlers
            for f, with_old in ((h.on_update, True), (h.on_set, False))
            if f is not None
        )

    def _notify(self, functions: Iterable[Callable[[T], None]], obj: T) -> None:
        for function in functions:
            try:
                function(obj)
            except Exception:
                self._log_handler_failure()

    def _notify_update(self, old: T, new: T) -> None:
        for function, with_old in self._on_update:
            try:
                if with_old:
                    function(old, new)
                else:
                    function(new)
            except Exception:
                self._log_handler_failure()

    def _log_handler_failure(self) -> None:
        """One handler's mistake must neither stop the cache nor keep the others from hearing of the change."""
        _log.exception("a handler of %s failed", self.resource)

    # Keeping up to date

    async def run(self) -> None:
        """List and watch until cancelled."""
        resync = (
            None if self._resync is None else asyncio.create_task(self._resync_periodically(self._resync))
        )
        try:
            await self._list_and_watch()
        finally:
            if resync is not None:
                resync.cancel()

    async def _list_and_watch(self) -> None:
        pauses = self._backoff.pauses()
        while True:
            self._worked = False
            try:
                if not self._version:
                    await self._list()
                await self._watch()
                if self._worked:
                    pauses = self._backoff.pauses()
                    continue
                _log.debug("the watch of %s ended at once and brought nothing", self.resource)
            except (Expired, Gone) as error:
                _log.info("%s is listed anew: %s", self.resource, error)
                self._version = ""
            except StatusError as error:
                _log.warning("%s cannot be watched, trying again: %s", self.resource, error)
            if self._worked:  # and broke off: that is no further failure
                pauses = self._backoff.pauses()
            await asyncio.sleep(next(pauses))

    async def _list(self) -> None:
        """Learn the whole collection."""
        if self._watch_list:
            try:
                await self._list_by_watch()
                return
            except (BadRequest, Invalid) as error:
                _log.info("%s is listed, as the server cannot stream it: %s", self.resource, error)
                self._watch_list = False
        _, namespace, labels, fields = self.selection
        listed = await self._client.list(
            self.resource, namespace, label_selector=labels, field_selector=fields
        )
        await self._replace(listed.items, listed.resource_version)

    async def _list_by_watch(self) -> None:
        _, namespace, labels, fields = self.selection
        received: dict[ObjectKey, T] = {}
        async with self._client.watch(
            self.resource, namespace, label_selector=labels, field_selector=fields, send_initial_events=True
        ) as stream:
            async for batch in stream:
                for event in batch:
                    seen: Object = event.object
                    metadata = seen.get("metadata") or {}
                    if event.type == "BOOKMARK":
                        if INITIAL_EVENTS_END in (metadata.get("annotations") or {}):
                            await self._replace(received.values(), metadata["resourceVersion"])
                            return
                    elif event.type == "DELETED":
                        received.pop(key_of(event.object), None)
                    else:
                        received[key_of(event.object)] = event.object

    async def _replace(self, objects: Iterable[T], version: str) -> None:
        """Make the cache equal to ``objects``, telling handlers of the differences. Of very many, others get a turn in
        between."""
        gone = dict(self.cache.items())
        for number, obj in enumerate(objects if self._transform is None else map(self._transform, objects)):
            if number % _IN_ONE_GO == _IN_ONE_GO - 1:
                await WORKERS.pause_if_spent()
            gone.pop(key_of(obj), None)
            old = self.cache.put(obj)
            if old is None:
                self._notify(self._on_add, obj)
            elif _version(old) != _version(obj):
                self._notify_update(old, obj)
        for old in gone.values():
            self.cache.remove(old)
            self._notify(self._on_delete, old)
        self._version = version
        self._synced.set()

    async def _watch(self) -> None:
        """Apply one watch's events until it ends or breaks off. It has not worked if that is at once and it brought
        nothing."""
        _, namespace, labels, fields = self.selection
        clock = asyncio.get_running_loop().time
        async with self._client.watch(
            self.resource,
            namespace,
            resource_version=self._version,
            label_selector=labels,
            field_selector=fields,
            timeout_seconds=random.randint(*WATCH_SECONDS),
        ) as stream:
            began = clock()
            try:
                async for batch in stream:
                    self._worked = True
                    self._apply(batch)
            finally:
                self._worked = self._worked or clock() - began >= SHORTEST_WATCH

    def _apply(self, batch: Sequence[AnyEvent[T]]) -> None:
        put, transform = self.cache.put, self._transform
        for event in batch:
            kind, obj = event.type, event.object
            if kind == "DELETED":
                self.cache.remove(obj)
                self._notify(self._on_delete, obj if transform is None else transform(obj))
            elif kind != "BOOKMARK":
                if transform is not None:
                    obj = transform(obj)
                old = put(obj)
                if old is None:
                    self._notify(self._on_add, obj)
                else:
                    self._notify_update(old, obj)
            self._version = obj["metadata"].get("resourceVersion", "")

    async def _resync_periodically(self, interval: float) -> None:
        while True:
            await asyncio.sleep(interval)
            for obj in list(self.cache.values()):
                self._notify_update(obj, obj)


class Informers:
    """Informers shared by all parts of a component: one per selection, all of them running inside ``async with``."""

    def __init__(self, client: Client, *, resync: float | None = None, watch_list: bool = False) -> None:
        self._client = client
        self._resync = resync
        self._watch_list = watch_list
        self._informers: dict[Selection, Informer[Any]] = {}
        self._tasks: asyncio.TaskGroup | None = None
        self._running: list[asyncio.Task[None]] = []

    def get(
        self,
        resource: Resource[T],
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        indexers: Mapping[str, IndexFunc[T]] | None = None,
    ) -> Informer[T]:
        """The informer for this selection; made, and started if the others run, when first asked for."""
        selection = Selection(resource, namespace, label_selector, field_selector)
        informer = self._informers.get(selection)
        if informer is None:
            informer = self._informers[selection] = Informer(
                self._client,
                resource,
                namespace=namespace,
                label_selector=label_selector,
                field_selector=field_selector,
                resync=self._resync,
                watch_list=self._watch_list,
            )
            self._start(informer)
        for name, indexer in (indexers or {}).items():
            informer.add_index(name, indexer)
        return informer

    async def synced(self) -> None:
        """Wait until every informer asked for so far knows its collection."""
        for informer in list(self._informers.values()):
            await informer.synced()

    async def __aenter__(self) -> Informers:
        self._tasks = await asyncio.TaskGroup().__aenter__()
        for informer in self._informers.values():
            self._start(informer)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        for task in self._running:
            task.cancel()
        self._running.clear()
        group, self._tasks = self._tasks, None
        if isinstance(error, asyncio.CancelledError):
            await group.__aexit__(kind, error, trace)
        else:
            # What went wrong outside leaves as it is, not wrapped into a group with our cancelled tasks.
            await group.__aexit__(None, None, None)

    def _start(self, informer: Informer[Any]) -> None:
        if self._tasks is not None:
            name = f"informer-{informer.resource}"
            self._running.append(self._tasks.create_task(informer.run(), name=name))


def _version(obj: Object) -> str:
    return obj["metadata"].get("resourceVersion", "")
