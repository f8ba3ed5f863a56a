"""Writes that survive concurrency: create, modify and remove one object, as one step from the store's point of view.

A write is computed from the newest state and stored on condition that the state has not moved on; if it has, it is
computed anew. What the caller said about versions is checked against the state on every turn.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from dray.api import errors, field, meta
from dray.api.errors import StatusError
from dray.api.field import FieldError, Path
from dray.api.kinds import Context, Object, UpdateRules
from dray.api.strategies import path_segment
from dray.server import admission, metadata
from dray.server.calls import Call, ensure_namespace
from dray.server.documents import Document
from dray.store.interface import KeyExists, KeyNotFound, RevisionMismatch

_METADATA = Path("metadata")
_MODIFIED = "the object has been modified; please apply your changes to the latest version and try again"
_CREATE_ATTEMPTS = 8

#: Makes the new hub object out of the present document (None: there is none, and it is created).
Make = Callable[[Document | None], Awaitable[Object]]


class Written(NamedTuple):
    document: Document
    created: bool = False
    removed: bool = False


# -- create


async def create(call: Call, obj: Object, attributes: admission.Attributes) -> Document:
    """Store a new object. A generated name that is taken is drawn again."""
    meta_ = obj["metadata"]
    generating = bool(meta_.get("generateName")) and not meta_.get("name")
    if not generating:
        return await _create_once(call, obj, attributes)
    from dray.server.bodies import clone

    for attempt in range(_CREATE_ATTEMPTS):
        try:
            fresh = clone(obj)
            attributes.object = fresh
            return await _create_once(call, fresh, attributes)
        except errors.AlreadyExists:
            if attempt == _CREATE_ATTEMPTS - 1:
                raise
    raise AssertionError("unreachable")


async def _create_once(call: Call, obj: Object, attributes: admission.Attributes) -> Document:
    kind, rules = call.resource.kind, call.resource.kind.rules
    meta_ = obj["metadata"]
    ctx = call.context("create")
    metadata.fill(meta_, ctx.now)
    if meta_.get("generateName") and not meta_.get("name"):
        meta_["name"] = metadata.generate_name(meta_["generateName"])
    ensure_namespace(meta_, call.namespace)
    rules.prepare_create(obj, ctx)
    problems = [*_metadata_problems(call, meta_), *rules.validate(obj, ctx)]
    if problems:
        raise errors.invalid(kind.kind, kind.group, meta_.get("name", ""), problems)
    for text in rules.warn(obj, ctx):
        call.request.warn(text)
    rules.canonicalize(obj)
    attributes.name = attributes.name or meta_["name"]
    await call.api.admission.validate(attributes)
    if meta_.get("resourceVersion"):
        raise StatusError("resourceVersion should not be set on objects to be created")
    key = call.resource.key(call.namespace, meta_["name"])
    collection = call.resource.stored
    if attributes.dry_run:
        existing = collection.get(key)
        if existing is not None:
            raise _exists(call, existing, meta_)
        return Document(collection.codecs, key, 0, hub=obj)
    value = collection.codecs.value(obj)
    collection.announce(value, obj)
    try:
        await call.api.store.create(collection.prefix + key, value, ttl=kind.ttl)
    except KeyExists:
        raise _exists(call, collection.get(key), meta_) from None
    finally:
        collection.withdraw(value)
    return collection.documents.get(key) or Document(collection.codecs, key, 0, hub=obj)


def _metadata_problems(call: Call, meta_: Object) -> list[FieldError]:
    kind = call.resource.kind
    return meta.validate_object_meta(
        meta_, namespaced=kind.namespaced, check_name=kind.rules.check_name or path_segment
    )


def _exists(call: Call, existing: Document | None, meta_: Object) -> StatusError:
    kind, name = call.resource.kind, meta_["name"]
    error = errors.already_exists(kind.plural, kind.group, name)
    if existing is not None and existing.metadata.get("deletionTimestamp"):
        return errors.AlreadyExists(f"object is being deleted: {error.message}", details=error.details)
    return error


# -- modify


async def modify(
    call: Call,
    make: Make,
    door: UpdateRules,
    attributes: admission.Attributes,
    *,
    create_missing: bool = False,
) -> Written:
    """Replace an object through one door (the resource itself, or a view such as status)."""
    collection = call.resource.stored
    key = call.key
    current = collection.get(key)
    while True:
        if current is None:
            if not create_missing:
                raise call.not_found()
            attributes.operation, attributes.old = admission.CREATE, None
            obj = await make(None)
            attributes.object = obj
            return Written(await create(call, obj, attributes), created=True)
        written = await _modify_once(call, make, door, attributes, current)
        if isinstance(written, Written):
            return written
        current = written.current


class Moved(NamedTuple):
    """The object changed while the write was on its way; this is what it is now."""

    current: Document | None


async def _modify_once(
    call: Call, make: Make, door: UpdateRules, attributes: admission.Attributes, current: Document
) -> Written | Moved:
    kind, rules = call.resource.kind, call.resource.kind.rules
    collection = call.resource.stored
    old = current.hub
    attributes.operation, attributes.old = admission.UPDATE, old
    new = await make(current)
    attributes.object = new
    check_version(call, new["metadata"], current, unconditional=rules.unconditional_update)
    ctx = call.context()
    before_update(call, new, old, door, ctx)
    problems = [
        *meta.validate_object_meta_update(new["metadata"], old["metadata"]),
        *door.validate_update(new, old, ctx),
    ]
    if problems:
        raise errors.invalid(kind.kind, kind.group, new["metadata"].get("name", ""), problems)
    for text in door.warn_update(new, old, ctx):
        call.request.warn(text)
    rules.canonicalize(new)
    call.api.managing.keep_times(new, old)
    await call.api.admission.validate(attributes)
    if _finished(call, new, old):
        return await _remove_finished(call, new, current, dry_run=attributes.dry_run)
    value = collection.codecs.value(new)
    if value == current.value:
        return Written(current)
    if attributes.dry_run:
        new["metadata"]["resourceVersion"] = str(current.revision)
        return Written(Document(collection.codecs, current.key, current.revision, hub=new))
    collection.announce(value, new)
    try:
        await call.api.store.update(
            collection.prefix + current.key, value, expected=current.revision, ttl=kind.ttl
        )
    except (RevisionMismatch, KeyNotFound) as e:
        return await _refresh(call, current.key, e)
    finally:
        collection.withdraw(value)
    written = collection.documents.get(current.key)
    if written is None or written.metadata.get("uid") != new["metadata"].get("uid"):
        written = Document(collection.codecs, current.key, current.revision, hub=new)
    return Written(written)


async def _refresh(call: Call, key: str, error: RevisionMismatch | KeyNotFound) -> Moved:
    """The state that made a conditional write fail; the cache may not have seen it yet."""
    collection = call.resource.stored
    entry = error.current if isinstance(error, RevisionMismatch) else None
    if entry is None and isinstance(error, RevisionMismatch):
        entry = await call.api.store.get(collection.prefix + key)
    if entry is None:
        return Moved(None)
    cached = collection.get(key)
    if cached is not None and cached.revision == entry.modified:
        return Moved(cached)
    return Moved(collection.document(entry))


def check_version(call: Call, new: Object, current: Document, *, unconditional: bool) -> None:
    """The caller's uid and resourceVersion, where given, are those of the object."""
    uid = new.get("uid")
    if uid and uid != current.metadata.get("uid"):
        path = call.resource.stored.prefix + current.key
        problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current.metadata.get('uid')}"
        raise call.conflict(
            f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: {problem}"
        )
    stated = new.get("resourceVersion", "")
    if stated in ("", "0"):
        if not unconditional:
            kind = call.resource.kind
            problem_ = field.invalid(
                _METADATA.child("resourceVersion"), Hex(0), "must be specified for an update"
            )
            raise errors.invalid(kind.plural, kind.group, call.target.name, [problem_])
        new["resourceVersion"] = str(current.revision)
        return
    if not (stated.isascii() and stated.isdigit()):
        from dray.server.options import RevisionError, parse_revision

        try:
            parse_revision(stated)
        except RevisionError as e:
            raise e.internal() from None
    if int(stated) != current.revision:
        raise call.conflict(_MODIFIED)


class Hex(int):
    """A number that upstream prints as an unsigned Go value."""

    def __str__(self) -> str:
        return f"0x{self:x}"


def before_update(call: Call, new: Object, old: Object, door: UpdateRules, ctx: Context) -> None:
    """Keep what an update cannot change, and let the door reset what it does not lead to."""
    fresh, kept = new["metadata"], old["metadata"]
    ensure_namespace(fresh, call.namespace)
    _carry(fresh, kept, "generation")
    door.prepare_update(new, old, ctx)
    fresh = new["metadata"]
    if not fresh.get("uid"):
        fresh["uid"] = kept["uid"]
    if kept.get("creationTimestamp"):
        fresh["creationTimestamp"] = kept["creationTimestamp"]
    if kept.get("deletionTimestamp"):
        fresh["deletionTimestamp"] = kept["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in kept and "deletionGracePeriodSeconds" not in fresh:
            fresh["deletionGracePeriodSeconds"] = kept["deletionGracePeriodSeconds"]


def _carry(new: Object, old: Object, key: str) -> None:
    if key in old:
        new[key] = old[key]
    else:
        new.pop(key, None)


def _finished(call: Call, new: Object, old: Object) -> bool:
    """An object under deletion that nothing holds any longer goes with this update."""
    kept = old["metadata"]
    return (
        bool(kept.get("deletionTimestamp"))
        and not new["metadata"].get("finalizers")
        and not kept.get("deletionGracePeriodSeconds")
        and not call.resource.kind.rules.held(new)
    )


async def _remove_finished(call: Call, new: Object, current: Document, *, dry_run: bool) -> Written | Moved:
    collection = call.resource.stored
    new["metadata"]["resourceVersion"] = str(current.revision)
    last = Document(collection.codecs, current.key, current.revision, hub=new)
    if dry_run:
        return Written(last, removed=True)
    try:
        await call.api.store.delete(collection.prefix + current.key, expected=current.revision)
    except KeyNotFound:
        return Written(last, removed=True)
    except RevisionMismatch as e:
        return await _refresh(call, current.key, e)
    return Written(last, removed=True)


async def amend(call: Call, key: str, change: Callable[[Object], None], *, dry_run: bool = False) -> Document:
    """Change an object past its doors, for subresources that know what they do.

    ``change`` gets a copy whose top level, metadata, spec and status may be changed in place, and may raise.
    """
    collection = call.resource.stored
    current = collection.get(key)
    while True:
        if current is None:
            raise call.not_found(key.rpartition("/")[2])
        new = {k: dict(v) if isinstance(v, dict) else v for k, v in current.hub.items()}
        change(new)
        if dry_run:
            return Document(collection.codecs, key, current.revision, hub=new)
        written = await store_marked(call, new, current)
        if isinstance(written, Document):
            return written
        current = written.current


# -- remove


async def store_marked(call: Call, new: Object, current: Document) -> Document | Moved:
    """Write an object whose deletion has begun."""
    collection = call.resource.stored
    value = collection.codecs.value(new)
    if value == current.value:
        return current
    collection.announce(value, new)
    try:
        await call.api.store.update(
            collection.prefix + current.key, value, expected=current.revision, ttl=call.resource.kind.ttl
        )
    except (RevisionMismatch, KeyNotFound) as e:
        return await _refresh(call, current.key, e)
    finally:
        collection.withdraw(value)
    return collection.documents.get(current.key) or Document(collection.codecs, current.key, 0, hub=new)


async def erase(call: Call, current: Document) -> Moved | None:
    """Take an object out of the store."""
    collection = call.resource.stored
    try:
        await call.api.store.delete(collection.prefix + current.key, expected=current.revision)
    except KeyNotFound:
        return Moved(None)
    except RevisionMismatch as e:
        return await _refresh(call, current.key, e)
    return None
