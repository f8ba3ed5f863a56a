"""LIST: consistent by default, in pages or at a revision on request."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from dray.api.errors import BadRequest, Expired, Timeout
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import ListOptions, RevisionError, list_options, parse_revision
from dray.server.endpoints.responses import Response
from dray.server.registry.selection import Selection, select
from dray.server.storage import continue_token
from dray.server.storage.documents import AT_ONCE, Document, Listing
from dray.store.interface import Compacted, FutureRevision

_FRESH_SECONDS = 3.0
#: Objects that are read from the store at once where the caller wants all of them.
_AT_ONCE = 1000


async def list_(call: Call) -> Response:
    options = list_options(call.request.query)
    selection = select(call.resource, call.codec, call.namespace, options, name=call.info.name)
    tell_undecodable(call)
    return Response(200, await listing(call, options, selection))


async def listing(call: Call, options: ListOptions, selection: Selection) -> Listing:
    if options.token:
        if options.revision not in ("", "0"):
            raise BadRequest("specifying resource version is not allowed when using continue")
        return await _continued(call, options, selection)
    cache = call.resource.cache
    if options.revision in ("", "0"):
        revision = (
            await call.api.store.wait_until_fresh() if not options.revision else call.api.store.revision
        )
    elif options.match == "Exact" or (options.limit > 0 and not options.match):
        exact = _revision(options.revision)
        if exact < call.api.store.revision and cache.modified > exact:
            return await read_at(call, options, selection, exact, start="", limit=options.limit)
        await wait_for_revision(call, options.revision)
        revision = exact
    else:
        await wait_for_revision(call, options.revision)
        revision = call.api.store.revision
    # resourceVersion=0 reads whatever is at hand and, as upstream, ignores the limit.
    limit = 0 if options.revision == "0" else options.limit
    if cache.on_disk:
        return await read_at(call, options, selection, revision, start="", limit=limit)
    return await _present(call, selection, limit, revision, start="")


def tell_undecodable(call: Call) -> None:
    """Name what the store holds and the list lacks, or refuse where a list that lacks objects does harm."""
    for error in call.resource.cache.undecodable(call.namespace):
        if call.resource.kind.must_list_all:
            raise error
        call.request.warn(error.message)


async def _present(call: Call, selection: Selection, limit: int, revision: int, *, start: str) -> Listing:
    """A page of what is there now. Selecting among many objects, which may have to be decoded, gives way to others."""
    cache = call.resource.cache
    matches, documents = selection.matches, cache.documents
    if selection.name and not start and (selection.namespace or not call.resource.kind.namespaced):
        found = cache.get(call.resource.key(selection.namespace, selection.name))
        chosen = [found] if found is not None and (matches is None or matches(found)) else []
        return Listing(call.codec, chosen, revision)
    keys = cache.range(selection.namespace, after=start)
    if matches is None:
        if limit <= 0 or len(keys) <= limit:
            return Listing(call.codec, [documents[k] for k in keys], revision)
        page = [documents[k] for k in keys[:limit]]
        return Listing(call.codec, page, revision, _after(page[-1], revision), len(keys) - limit)
    page = []
    for number, document in enumerate([documents[key] for key in keys], 1):
        if not number % AT_ONCE:
            await asyncio.sleep(0)
        if not matches(document):
            continue
        if 0 < limit == len(page):
            return Listing(call.codec, page, revision, _after(page[-1], revision))
        page.append(document)
    return Listing(call.codec, page, revision)


def _after(document: Document, revision: int) -> str:
    return continue_token.encode_continue(document.key + "\x00", revision)


async def _continued(call: Call, options: ListOptions, selection: Selection) -> Listing:
    token = continue_token.decode_continue(options.token)
    cache = call.resource.cache
    start = token.start
    if selection.namespace and not start.startswith(selection.namespace + "/"):
        start = selection.namespace + "/" + start
    if token.revision < 0 or cache.modified <= token.revision <= call.api.store.revision:
        if token.revision > 0:
            await _check_kept(call, token.revision, start)
        revision = token.revision if token.revision > 0 else await call.api.store.wait_until_fresh()
        if cache.on_disk:
            return await read_at(call, options, selection, revision, start=start, limit=options.limit)
        return await _present(call, selection, options.limit, revision, start=start)
    return await read_at(call, options, selection, token.revision, start=start, limit=options.limit)


async def _check_kept(call: Call, revision: int, start: str) -> None:
    """A token expires with its revision, even if none of these objects has changed since: clients count on it."""
    store = call.api.store
    if revision < store.revision:
        try:
            await store.range(call.resource.cache.prefix, limit=1, revision=revision)
        except Compacted:
            raise continue_token.ContinueExpired(start) from None


async def read_at(
    call: Call, options: ListOptions, selection: Selection, revision: int, *, start: str, limit: int
) -> Listing:
    """A page as of an earlier revision, or of objects that are only there, read from the store."""
    cache = call.resource.cache
    prefix = cache.prefix + (f"{selection.namespace}/" if selection.namespace else "")
    chosen: list[Document] = []
    matches = selection.matches
    begin = cache.prefix + start if start else ""
    at_once = limit if limit > 0 and matches is None else max(limit, _AT_ONCE)
    while True:
        try:
            page = await call.api.store.range(prefix, start=begin, limit=at_once, revision=revision)
        except Compacted as e:
            if options.token:
                raise continue_token.ContinueExpired(start) from None
            raise Expired(f"The resourceVersion for the provided list is too old. ({e.revision})") from None
        except FutureRevision:
            raise _too_large(revision, call.api.store.revision) from None
        documents = [cache.document(entry) for entry in page.entries]
        chosen += documents if matches is None else [d for d in documents if matches(d)]
        if 0 < limit < len(chosen) or (page.more and 0 < limit == len(chosen)):
            return _cut(call, chosen, limit, revision, remaining=page.remaining if matches is None else None)
        if not page.more:
            return Listing(call.codec, chosen, revision)
        begin = page.entries[-1].key + "\x00"


def _cut(
    call: Call, chosen: Sequence[Document], limit: int, revision: int, *, remaining: int | None
) -> Listing:
    page = chosen[:limit]
    return Listing(call.codec, page, revision, _after(page[-1], revision), remaining)


def _revision(text: str) -> int:
    try:
        return parse_revision(text)
    except RevisionError as e:
        raise BadRequest(f"invalid resource version: {e}") from None


async def wait_for_revision(call: Call, text: str) -> None:
    """Until the cache is no older than the caller asks; 504 if that takes too long."""
    revision = _revision(text)
    store = call.api.store
    if revision <= store.revision:
        return
    try:
        async with asyncio.timeout(_FRESH_SECONDS):
            await store.wait_until_fresh(revision)
    except (TimeoutError, FutureRevision):
        raise _too_large(revision, store.revision) from None


def _too_large(revision: int, current: int) -> Timeout:
    return Timeout(
        f"Too large resource version: {revision}, current: {current}",
        details={
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        },
    )
