"""GET with watch=1: from the present, from a revision, or from the initial state."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from functools import partial

from dray.api.errors import Expired, StatusError
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import ListOptions, RevisionError, list_options, parse_revision
from dray.server.endpoints.responses import Response
from dray.server.endpoints.watch import Watch
from dray.server.handlers.list import read_at, tell_undecodable, wait_for_revision
from dray.server.registry.selection import Selection, select
from dray.server.storage.documents import AT_ONCE, Document
from dray.server.storage.watchcache import Change, Watcher
from dray.store.interface import Compacted, Event

_MIN_SECONDS = 1800.0  # a watch without a time-out lives this long, up to twice as long


async def watch(call: Call) -> Response:
    options = list_options(call.request.query, watch=True)
    selection = select(call.resource, call.codec, call.namespace, options, name=call.info.name)
    try:
        revision = parse_revision(options.revision)
    except RevisionError as e:
        raise e.internal() from None
    timeout = float(options.timeout) if options.timeout else _MIN_SECONDS * (1 + random.random())
    return Response(200, await _open_watch(call, options, selection, revision, timeout))


async def _open_watch(
    call: Call, options: ListOptions, selection: Selection, revision: int, timeout: float
) -> Watch:
    cache, store = call.resource.cache, call.api.store
    allowed = partial(call.api.still_allows, call.request) if call.request.authenticated else None
    with_initial = options.initial_events is True or (options.initial_events is None and not revision)
    try:
        if revision and options.initial_events is not None:
            await wait_for_revision(call, options.revision)
        elif not revision and options.revision != "0":
            await store.wait_until_fresh()
        if not with_initial and not revision:
            revision = store.revision
        if with_initial:
            tell_undecodable(call)
            # The watcher is registered and the state is read without a pause in between: nothing is missed or told twice.
            revision = store.revision
            watcher = cache.watch(
                selection.namespace, since=revision, matches=selection.matches, index=selection.index
            )
            try:
                initial = await _initial(call, options, selection, revision)
            except BaseException:
                watcher.close()
                raise
            return Watch(
                call.codec,
                watcher,
                initial=initial,
                initial_end=options.initial_events is True and options.bookmarks,
                bookmarks=options.bookmarks,
                timeout=timeout,
                revision=lambda: store.revision,
                since=revision,
                allowed=allowed,
            )
        earlier = _history(call, selection, revision) if revision < cache.floor else ()
        watcher = cache.watch(
            selection.namespace,
            since=max(revision, cache.floor) if earlier != () or revision < cache.floor else revision,
            matches=selection.matches,
            index=selection.index,
        )
        return Watch(
            call.codec,
            watcher,
            earlier=earlier,
            bookmarks=options.bookmarks,
            timeout=timeout,
            revision=lambda: store.revision,
            since=revision,
            allowed=allowed,
        )
    except StatusError as e:
        # Once the request itself is sound, upstream reports problems inside the stream.
        return Watch(call.codec, None, timeout=timeout, revision=lambda: store.revision, error=e.status())


async def _initial(
    call: Call, options: ListOptions, selection: Selection, revision: int
) -> Sequence[Document]:
    """What is there at ``revision``, which is the present one when this is called. Selecting among many objects, which
    may have to be decoded, gives way to others."""
    cache, matches = call.resource.cache, selection.matches
    if cache.on_disk:
        return (await read_at(call, options, selection, revision, start="", limit=0)).documents
    documents = [cache.documents[key] for key in cache.range(selection.namespace)]
    if matches is None:
        return documents
    found: list[Document] = []
    for start in range(0, len(documents), AT_ONCE):
        if start:
            await asyncio.sleep(0)
        found += [each for each in documents[start : start + AT_ONCE] if matches(each)]
    return found


def _history(call: Call, selection: Selection, revision: int) -> Sequence[tuple[str, Change]]:
    """What happened between ``revision`` and the cache's window, read from the store: watchers outlive a restart."""
    cache, store = call.resource.cache, call.api.store
    prefix = cache.prefix + (f"{selection.namespace}/" if selection.namespace else "")
    reader = Watcher(cache, selection.namespace, since=revision, matches=selection.matches, index=None)
    found: list[tuple[str, Change]] = []

    def take(events: Sequence[Event]) -> None:
        """There may be thousands, of which few concern the reader: the others are not held."""
        for event in events:
            if event.revision > cache.floor:
                break
            before = cache.document(event.previous) if event.previous is not None else None
            entry = event.entry
            change = Change(event.revision, before, cache.document(entry) if entry is not None else None)
            type = reader.classify(change)
            if type is not None:
                found.append((type, change))

    try:
        store.subscribe(prefix, take, after=revision).close()
    except Compacted as e:
        raise Expired(f"too old resource version: {revision} ({e.oldest})") from None
    return found
