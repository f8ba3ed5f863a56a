"""Conditional writes of one object to the store: insert, replace, delete.

A write succeeds only if the object is still the one that the caller read; otherwise it returns ``Stale`` with the
newest state, and the caller computes the write again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.api import errors
from dray.api.errors import StatusError
from dray.api.objects import MOST_STORED
from dray.api.schema.gojson import TOO_DEEP
from dray.api.schema.nesting import is_too_deep
from dray.api.scheme.kinds import Object
from dray.server.endpoints.call import Call
from dray.server.registry import fencing
from dray.server.registry.resources import Behind
from dray.server.storage.bridge import BridgedDocument
from dray.server.storage.codec import Codecs
from dray.server.storage.documents import Document
from dray.server.storage.watchcache import WatchCache
from dray.store.interface import Delete, KeyExists, KeyNotFound, Operation, Put, RevisionMismatch, Unchanged


class Stale(NamedTuple):
    """The object changed while the write was on its way; this is what it is now."""

    current: Document | None


async def _write(
    call: Call,
    write: Put | Delete,
    key: str,
    old: Object | None,
    new: Object | None,
    *,
    conditions: Sequence[Unchanged] = (),
) -> int:
    """One conditional write, in a transaction with whatever else must hold or be written at the same time.

    Returns the revision of the write.
    """
    store, companions, leaders = call.api.store, call.resource.companions, call.api.leaders
    fresh = not store.shared
    ttl = call.resource.kind.ttl
    # Leases are written by their holders, and what goes by itself (events) harms nobody.
    fenced = leaders is not None and companions is not leaders and ttl is None
    claimed = call.request.headers.get(fencing.HEADER) if fenced else None
    while True:
        others: Sequence[Operation] = conditions
        if companions is not None:
            try:
                others = (*others, *companions.operations(key, old, new, fresh=fresh))
            except Behind:
                await store.wait_until_fresh()
                fresh = True
                continue
        if claimed and leaders is not None:
            others = (*others, await leaders.condition(claimed))
        if not others:
            if isinstance(write, Delete):
                return await store.delete(write.key, expected=write.expected)
            if write.expected:
                return await store.update(write.key, write.value, expected=write.expected, ttl=ttl)
            return await store.create(write.key, write.value, ttl=ttl)
        try:
            # The object comes last: its revision is then the newest of the transaction on every store.
            return await store.transact([*others, write])
        except (KeyExists, KeyNotFound, RevisionMismatch) as e:
            if e.key == write.key or any(e.key == condition.key for condition in conditions):
                raise
            if claimed and e.key.startswith(fencing.PREFIX):
                raise fencing.lost(claimed) from None
            assert companions is not None
            companions.learn(e.key, e.current)


async def check_companions(call: Call, key: str, old: Object | None, new: Object | None) -> None:
    """Raise what would stand against a write that is not made."""
    if call.resource.companions is not None:
        await call.api.store.wait_until_fresh()
        call.resource.companions.operations(key, old, new, fresh=True)


async def insert(call: Call, key: str, obj: Object) -> Document:
    """Store a new object, or raise that the name is taken."""
    cache = call.resource.cache
    check_absent(call, key)
    value = cache.codecs.value(obj)
    _check_size(value)
    cache.announce(value, obj)
    try:
        free = [Unchanged(place.prefix + key, 0) for place in cache.name_shared_with]
        revision = await _write(call, Put(cache.prefix + key, value), key, None, obj, conditions=free)
    except KeyExists:
        raise _exists(call, cache.get(key), key) from None
    finally:
        cache.retract(value)
    return _after_write(cache, key, obj, revision)


def _check_size(value: bytes, before: bytes = b"") -> None:
    """Refuse what etcd would refuse, and what no reader could read again: defaults and admission may have added to what
    was sent.

    An object that is too large or too deep already may stay so, or it could not even lose its finalizers.
    """
    if len(value) > max(MOST_STORED, len(before)):
        raise errors.RequestEntityTooLarge(
            f"the object would have {len(value)} bytes in storage; at most {MOST_STORED} are stored"
        )
    if is_too_deep(value) and not is_too_deep(before):
        raise errors.BadRequest(TOO_DEEP)


def check_absent(call: Call, key: str) -> None:
    """The name is free here and in the other generations of the kind."""
    cache = call.resource.cache
    if cache.on_disk:
        return  # the store itself knows best, and is asked anyway
    for place in (cache, *cache.name_shared_with):
        existing = place.get(key)
        if existing is not None:
            raise _exists(call, existing, key)


def _exists(call: Call, existing: Document | None, key: str) -> StatusError:
    kind = call.resource.kind
    error = errors.already_exists(kind.plural, kind.error_group, key.rpartition("/")[2])
    if existing is not None and existing.metadata.get("deletionTimestamp"):
        return errors.AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    return error


async def replace(call: Call, current: Document, new: Object) -> Document | Stale:
    """Store ``new`` in the place of ``current``. Writing what is there already is no write."""
    cache = home = call.resource.cache
    stored, original = new, current
    if isinstance(current, BridgedDocument):
        home, original = current.home(), current.original
        value, stored = current.stored(new)
    else:
        value = cache.codecs.value(new)
    _check_size(value, original.value or b"")
    if _same(home.codecs, original, stored, value):
        return current
    home.announce(value, stored)
    try:
        put = Put(home.prefix + current.key, value, current.revision)
        revision = await _write(call, put, current.key, current.hub, new)
    except (RevisionMismatch, KeyNotFound) as e:
        return await _stale(call, current.key, e)
    finally:
        home.retract(value)
    return _after_write(cache, current.key, new, revision)


def _same(codecs: Codecs, current: Document, new: Object, value: bytes) -> bool:
    """Whether a write would change nothing. The order of members is no change; the size tells 1 from true."""
    before, old = current.value, current.hub
    if value == before:
        return True
    new["metadata"]["resourceVersion"] = old["metadata"]["resourceVersion"]
    return before is not None and len(value) == len(before) and new == old and codecs.is_current(before)


async def delete(call: Call, current: Document) -> Stale | None:
    """Take an object out of the store; None when that has been done."""
    home = current.home() if isinstance(current, BridgedDocument) else call.resource.cache
    try:
        removal = Delete(home.prefix + current.key, current.revision)
        await _write(call, removal, current.key, current.hub, None)
    except (RevisionMismatch, KeyNotFound) as e:
        return await _stale(call, current.key, e)
    return None


async def guaranteed_update(
    call: Call, key: str, change: Callable[[Any], None], *, dry_run: bool = False
) -> Document:
    """Change an object without strategy and admission, for subresources that check the change themselves.

    ``change`` gets a copy whose top level, metadata, spec and status may be changed in place, and may raise.
    """
    cache = call.resource.cache
    current = cache.get(key)
    while True:
        if current is None:
            raise call.not_found(key.rpartition("/")[2])
        new = {k: dict(v) if isinstance(v, dict) else v for k, v in current.hub.items()}
        change(new)
        if dry_run:
            return Document(cache.codecs, key, current.revision, hub=new)
        written = await replace(call, current, new)
        if isinstance(written, Document):
            return written
        current = written.current


async def _stale(call: Call, key: str, error: RevisionMismatch | KeyNotFound) -> Stale:
    """The state that made a conditional write fail. On etcd the cache may have yet to hear of it."""
    if isinstance(error, RevisionMismatch) and error.current is not None:
        await call.api.store.wait_until_fresh(error.current.mod_revision)
    else:
        await call.api.store.wait_until_fresh()
    return Stale(call.resource.cache.get(key))


def _after_write(cache: WatchCache, key: str, obj: Object, revision: int) -> Document:
    """The document as it was written, even if somebody has changed or removed it since, or the cache is behind."""
    found = cache.documents.get(key)
    if found is not None and found.revision == revision:
        return found
    obj["metadata"]["resourceVersion"] = str(revision)
    return Document(cache.codecs, key, revision, hub=obj)
