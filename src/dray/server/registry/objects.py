"""Create, update and remove one object, each in a single conditional write to the store.

A write is computed from the newest state of the object and stored on condition that this is still the newest; if it
is not, the write is computed again. The caller's preconditions are checked on every attempt.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from dray.api import errors
from dray.api.errors import StatusError
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import Context, UpdateStrategy, name_is_path_segment
from dray.api.validation import field, objectmeta
from dray.api.validation.field import FieldError, Path
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.largedocuments import LARGE
from dray.server.endpoints.options import RevisionError, parse_revision
from dray.server.registry import metadata, writes
from dray.server.registry.writes import Stale
from dray.server.storage.documents import Document

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta

_METADATA: Final = Path("metadata")
_MODIFIED: Final = (
    "the object has been modified; please apply your changes to the latest version and try again"
)
_CREATE_ATTEMPTS: Final = 8

#: Makes the new hub object out of the present document (None: there is none, and it is created).
UpdatedObjectInfo = Callable[[Document | None], Awaitable[Object]]


class WriteResult(NamedTuple):
    document: Document
    created: bool = False
    removed: bool = False


# -- create


async def create(call: Call, obj: Object, attributes: admission.Attributes) -> Document:
    """Store a new object. A generated name that is taken is drawn again."""
    meta_: ObjectMeta = obj["metadata"]
    if not meta_.get("generateName") or meta_.get("name"):
        return await _create_once(call, obj, attributes)
    for attempt in range(_CREATE_ATTEMPTS):
        try:
            return await _create_once(call, obj, attributes)
        except errors.AlreadyExists:
            if attempt == _CREATE_ATTEMPTS - 1:
                raise
            del meta_["name"]
    raise AssertionError("unreachable")


async def _create_once(call: Call, obj: Object, attributes: admission.Attributes) -> Document:
    rules = call.resource.kind.strategy
    meta_: ObjectMeta = obj["metadata"]
    ctx = call.context("create")
    metadata.fill_system_fields(meta_, ctx.now)
    if meta_.get("generateName") and not meta_.get("name"):
        meta_["name"] = metadata.generate_name(meta_["generateName"])
    rules.prepare_create(obj, ctx)
    with call.resource.begin_write(obj, None):
        return await _check_and_insert(call, obj, attributes, ctx)


async def _check_and_insert(
    call: Call, obj: Object, attributes: admission.Attributes, ctx: Context
) -> Document:
    meta_: ObjectMeta = obj["metadata"]
    if call.large:
        await call.beside(_check_new, call, obj, ctx)
    else:
        _check_new(call, obj, ctx)
    await call.api.admission.validate(attributes)
    if meta_.get("resourceVersion"):
        raise StatusError("resourceVersion should not be set on objects to be created")
    key = call.resource.key(call.namespace, meta_["name"])
    if attributes.dry_run:
        writes.check_absent(call, key)
        await writes.check_companions(call, key, None, obj)
        return Document(call.resource.cache.codecs, key, 0, hub=obj)
    return await writes.insert(call, key, obj)


def _check_new(call: Call, obj: Object, ctx: Context) -> None:
    kind, rules = call.resource.kind, call.resource.kind.strategy
    meta_: ObjectMeta = obj["metadata"]
    problems, checked = _metadata_problems(call, meta_, ctx), rules.check(obj, ctx)
    if problems or checked.problems:
        found = [*problems, *checked.problems]
        raise errors.invalid(kind.kind, kind.error_group, meta_.get("name", ""), found)
    for text in checked.warnings:
        call.request.warn(text)
    rules.canonicalize(obj)


def _metadata_problems(call: Call, meta_: ObjectMeta, ctx: Context) -> list[FieldError]:
    kind = call.resource.kind
    return objectmeta.validate_object_meta(
        meta_,
        namespaced=kind.namespaced,
        check_name=kind.strategy.check_name or name_is_path_segment,
        declared=ctx.quirks.declares_rules,
    )


def _update_problems(
    call: Call, new: Object, old: Object, strategy: UpdateStrategy[Any], ctx: Context
) -> Sequence[FieldError]:
    """What the rules find, after what is wrong with the metadata.

    Upstream looks at the metadata of a changed object three times, or four, the last times among the rules of the
    kind, and says each time what it finds, unless rules are declared for the kind.
    """
    declared = ctx.quirks.declares_rules
    found = strategy.validate_update(new, old, ctx)
    meta_: ObjectMeta = new["metadata"]
    before: ObjectMeta = old["metadata"]
    changed = objectmeta.validate_object_meta_update(meta_, before, declared=declared)
    if not changed and meta_.get("finalizers") == before.get("finalizers"):
        return found  # what the first look is about, beyond labels and the like, cannot change
    whole = objectmeta.validate_object_meta(
        meta_, namespaced=call.resource.kind.namespaced, check_name=name_is_path_segment, declared=declared
    )
    if declared and strategy.has_declared_rules:
        everything = [*whole, *changed, *found]
        return [problem for i, problem in enumerate(everything) if problem not in everything[:i]]
    if not changed and not whole:
        return found
    said = [p for p in changed if p in found]
    again = whole if strategy.rechecks_metadata else ()
    return [*whole, *changed, *([] if said else changed), *again, *found]


# -- modify


async def update(
    call: Call,
    make: UpdatedObjectInfo,
    strategy: UpdateStrategy[Any],
    attributes: admission.Attributes,
    *,
    create_missing: bool = False,
) -> WriteResult:
    """Replace an object by the strategy of the resource itself or of a subresource such as status."""
    current = call.resource.cache.get(call.key)
    while True:
        if current is None:
            if not create_missing:
                raise call.not_found()
            call.api.authorize_create(call)
            attributes.operation, attributes.old = admission.CREATE, None
            obj = await make(None)
            attributes.object = obj
            return WriteResult(await create(call, obj, attributes), created=True)
        written = await _update_once(call, make, strategy, attributes, current)
        if isinstance(written, WriteResult):
            return written
        current = written.current


async def _update_once(
    call: Call,
    make: UpdatedObjectInfo,
    strategy: UpdateStrategy[Any],
    attributes: admission.Attributes,
    current: Document,
) -> WriteResult | Stale:
    rules, old = call.resource.kind.strategy, current.hub
    if current.value is not None and len(current.value) > LARGE:
        call.large = True
    attributes.operation, attributes.old = admission.UPDATE, old
    new = await make(current)
    attributes.object = new
    unconditional = rules.unconditional_update and not call.codec.version.strict
    check_revision(call, new["metadata"], current, unconditional=unconditional)
    ctx = call.context()
    before_update(call, new, old, strategy, ctx)
    with call.resource.begin_write(new, old):
        return await _check_and_replace(call, new, current, strategy, attributes, ctx)


async def _check_and_replace(
    call: Call,
    new: Object,
    current: Document,
    strategy: UpdateStrategy[Any],
    attributes: admission.Attributes,
    ctx: Context,
) -> WriteResult | Stale:
    old = current.hub
    if call.large:
        await call.beside(_check_update, call, new, old, strategy, ctx)
    else:
        _check_update(call, new, old, strategy, ctx)
    await call.api.admission.validate(attributes)
    if _finished(call, new, old):
        return await _remove_finished(call, new, current, dry_run=attributes.dry_run)
    if attributes.dry_run:
        await writes.check_companions(call, current.key, old, new)
        new["metadata"]["resourceVersion"] = str(current.revision)
        return WriteResult(Document(call.resource.cache.codecs, current.key, current.revision, hub=new))
    written = await writes.replace(call, current, new)
    return written if isinstance(written, Stale) else WriteResult(written)


def _check_update(call: Call, new: Object, old: Object, strategy: UpdateStrategy[Any], ctx: Context) -> None:
    kind = call.resource.kind
    problems = _update_problems(call, new, old, strategy, ctx)
    if problems:
        raise errors.invalid(kind.kind, kind.error_group, new["metadata"].get("name", ""), problems)
    for text in strategy.warn_update(new, old, ctx):
        call.request.warn(text)
    kind.strategy.canonicalize(new)
    call.api.field_manager.keep_times(new, old)


def check_uid(call: Call, sent: ObjectMeta, current: Document) -> None:
    """A replacement that names a uid is meant for that very object."""
    uid = sent.get("uid")
    if uid and uid != current.metadata.get("uid"):
        path = call.resource.cache.prefix + current.key
        problem = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {current.metadata.get('uid')}"
        raise call.conflict(
            f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, AdditionalErrorMsg: {problem}"
        )


def check_revision(call: Call, new: ObjectMeta, current: Document, *, unconditional: bool) -> None:
    """The resourceVersion, where the caller gave one, is that of the object."""
    try:
        stated = parse_revision(new.get("resourceVersion", ""))
    except RevisionError as e:
        raise StatusError(e.cause) from None
    if stated == 0:
        if not unconditional:
            kind = call.resource.kind
            problem = field.invalid(_METADATA.child("resourceVersion"), 0, "must be specified for an update")
            raise errors.invalid(kind.plural, kind.error_group, call.info.name, [problem])
        new["resourceVersion"] = str(current.revision)
    elif stated != current.revision:
        raise call.conflict(_MODIFIED)


def before_update(call: Call, new: Object, old: Object, strategy: UpdateStrategy[Any], ctx: Context) -> None:
    """Keep what an update cannot change, and let the strategy reset the fields that it does not update."""
    fresh: ObjectMeta = new["metadata"]
    kept: ObjectMeta = old["metadata"]
    metadata.ensure_namespace(fresh, call.namespace)
    if "generation" in kept:
        fresh["generation"] = kept["generation"]
    else:
        fresh.pop("generation", None)
    strategy.prepare_update(new, old, ctx)
    fresh = new["metadata"]
    if not fresh.get("uid"):
        fresh["uid"] = kept["uid"]
    if kept.get("creationTimestamp"):
        fresh["creationTimestamp"] = kept["creationTimestamp"]
    if kept.get("deletionTimestamp"):
        fresh["deletionTimestamp"] = kept["deletionTimestamp"]
        if "deletionGracePeriodSeconds" in kept and "deletionGracePeriodSeconds" not in fresh:
            fresh["deletionGracePeriodSeconds"] = kept["deletionGracePeriodSeconds"]


def _finished(call: Call, new: Object, old: Object) -> bool:
    """An object under deletion that nothing holds any longer goes with this update."""
    fresh: ObjectMeta = new["metadata"]
    kept: ObjectMeta = old["metadata"]
    return (
        bool(kept.get("deletionTimestamp"))
        and not fresh.get("finalizers")
        and not kept.get("deletionGracePeriodSeconds")
        and not call.resource.kind.strategy.held(new)
    )


async def _remove_finished(
    call: Call, new: Object, current: Document, *, dry_run: bool
) -> WriteResult | Stale:
    new["metadata"]["resourceVersion"] = str(current.revision)
    last = Document(call.resource.cache.codecs, current.key, current.revision, hub=new)
    if not dry_run:
        stale = await writes.delete(call, current)
        if stale is not None and stale.current is not None:
            return stale
    return WriteResult(last, removed=True)
