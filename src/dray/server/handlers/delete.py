"""DELETE of one object: preconditions, grace period, finalizers and propagation policy."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from dray.api import errors
from dray.api.scheme.kinds import Object
from dray.api.times import to_epoch
from dray.server import admission
from dray.server.clock import Clock
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import DeleteOptions, delete_options
from dray.server.endpoints.responses import ObjectBody, Response
from dray.server.registry import writes
from dray.server.registry.writes import Stale
from dray.server.storage.documents import Document

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta, Status, StatusDetails

_ORPHAN, _FOREGROUND = "orphan", "foregroundDeletion"


async def delete(call: Call) -> Response:
    options = delete_options(call.request)
    attributes = call.attributes(admission.DELETE, options=options.object(), dry_run=options.dry_run)
    document, gone = await remove(call, call.key, options, attributes)
    code = 202 if not gone and options.orphan is False else 200
    kind = call.resource.kind
    if gone and (call.codec.version.strict or not kind.strategy.delete_returns_object):
        details: StatusDetails = {"name": document.name}
        if kind.group:
            details["group"] = kind.group
        details["kind"], details["uid"] = kind.plural, document.metadata.get("uid", "")
        status: Status = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Success",
            "details": details,
        }
        return Response(code, cast("Object", status))
    return Response(code, ObjectBody(document, call.codec))


async def remove(
    call: Call, key: str, options: DeleteOptions, attributes: admission.Attributes
) -> tuple[Document, bool]:
    """Delete or begin to delete; says what the object last was and whether it is gone."""
    cache = call.resource.cache
    current = cache.get(key)
    admitted = -1
    while True:
        if current is None:
            raise call.not_found(key.rpartition("/")[2])
        if admitted != current.revision:
            attributes.old = current.hub
            await call.api.admission.admit(attributes)
            await call.api.admission.validate(attributes)
            admitted = current.revision
        step = await _step(call, current, options)
        if not isinstance(step, Stale):
            return step
        current = step.current


async def _step(call: Call, current: Document, options: DeleteOptions) -> tuple[Document, bool] | Stale:
    rules = call.resource.kind.strategy
    meta = current.metadata
    _check_preconditions(call, current, options)
    fresh: ObjectMeta = {**meta}
    new: Object = {**current.hub, "metadata": fresh}
    # A namespace's own finalizers hold it, whatever its metadata says.
    if rules.held(current.hub):
        if meta.get("deletionTimestamp"):
            return current, False
        fresh["deletionTimestamp"] = call.api.clock.now()
        return await _mark(call, current, new, options)
    graceful, pending = _grace(call, new, options)
    if pending:
        return current, False
    orphans = call.resource.kind.strategy.orphans_dependents
    changed = _set_finalizers(fresh, options, orphans=orphans)
    finalizers = fresh.get("finalizers")
    if finalizers and not graceful:
        _mark_deleting(call, fresh)
        return await _mark(call, current, new, options)
    if graceful and (finalizers or fresh["deletionGracePeriodSeconds"] > 0):
        return await _mark(call, current, new, options)
    marked: tuple[Document, bool] | Stale | None = None
    if graceful or changed:
        # Watchers see the object once more, marked, before it goes: kubelets rely on it.
        marked = await _mark(call, current, new, options)
        if isinstance(marked, Stale) or options.dry_run:
            return marked if isinstance(marked, Stale) else (marked[0], True)
        current = marked[0]
    if options.dry_run:
        return current, True
    stale = await writes.delete(call, current)
    # A delete that has marked the object has its wish, whoever took it away; otherwise that was another's delete.
    if stale is None or (marked is not None and stale.current is None):
        return current, True
    return stale


async def _mark(
    call: Call, current: Document, new: Object, options: DeleteOptions
) -> tuple[Document, bool] | Stale:
    call.resource.kind.strategy.begin_deletion(new, call.context("delete"))
    if options.dry_run:
        return Document(call.resource.cache.codecs, current.key, current.revision, hub=new), False
    written = await writes.replace(call, current, new)
    return written if isinstance(written, Stale) else (written, False)


def _check_preconditions(call: Call, current: Document, options: DeleteOptions) -> None:
    kind, meta = call.resource.kind, current.metadata
    if options.uid is not None and options.uid != meta.get("uid"):
        raise errors.conflict(
            kind.kind,
            kind.group,
            current.name,
            f"the UID in the precondition ({options.uid}) does not match the UID in record ({meta.get('uid')}). "
            "The object might have been deleted and then recreated",
        )
    if options.revision is not None and options.revision != str(current.revision):
        raise errors.conflict(
            kind.kind,
            kind.group,
            current.name,
            f"the ResourceVersion in the precondition ({options.revision}) does not match the ResourceVersion in "
            f"record ({current.revision}). The object might have been modified",
        )


def _grace(call: Call, new: Object, options: DeleteOptions) -> tuple[bool, bool]:
    """Whether the deletion is graceful, and whether one is under way that this request does not shorten."""
    rules = call.resource.kind.strategy
    meta: ObjectMeta = new["metadata"]
    requested = options.grace
    if requested is not None and requested < 0:
        requested = 1
    if not meta.get("deletionTimestamp"):
        period = rules.grace(new, requested)
        if period is None:
            return False, False
        meta["deletionTimestamp"] = call.api.clock.later(period)
        meta["deletionGracePeriodSeconds"] = period
        if meta.get("generation"):
            meta["generation"] += 1
        return True, False
    if rules.grace(new, requested) is None:
        return False, False
    left = meta.get("deletionGracePeriodSeconds")
    if not left:
        return False, False
    if requested is None or requested >= left:
        return False, True
    began = int(to_epoch(meta["deletionTimestamp"])) - left
    now = int(call.api.clock.seconds())
    due, period = began + requested, requested
    if due < now:
        due, period = now, 1 if requested else 0
    meta["deletionTimestamp"] = Clock.format(due)
    meta["deletionGracePeriodSeconds"] = period
    return True, False


def _set_finalizers(meta: ObjectMeta, options: DeleteOptions, *, orphans: bool) -> bool:
    """Let the garbage collector orphan or delete the dependents first, as the caller wishes."""
    present = meta.get("finalizers") or ()
    orphan = foreground = False
    if options.orphan is not None:
        orphan = options.orphan
    elif options.policy:
        orphan, foreground = options.policy == "Orphan", options.policy == "Foreground"
    else:
        foreground = _FOREGROUND in present
        orphan = _ORPHAN in present or (orphans and not foreground)
    wanted = [f for f in present if f not in (_ORPHAN, _FOREGROUND)]
    wanted += [_ORPHAN] if orphan else []
    wanted += [_FOREGROUND] if foreground else []
    if set(wanted) == set(present):
        return False
    if wanted:
        meta["finalizers"] = wanted
    else:
        meta.pop("finalizers", None)
    return True


def _mark_deleting(call: Call, meta: ObjectMeta) -> None:
    now = call.api.clock.now()
    if not meta.get("deletionTimestamp") and meta.get("generation"):
        meta["generation"] += 1
    if not meta.get("deletionTimestamp") or meta["deletionTimestamp"] > now:
        meta["deletionTimestamp"] = now
    meta["deletionGracePeriodSeconds"] = 0
