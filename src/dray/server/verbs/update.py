"""PUT: replace an object, or the part of it that a view such as ``status`` leads to."""

from __future__ import annotations

from collections.abc import Awaitable

from dray.api.kinds import Object, UpdateRules
from dray.server import admission, metadata, writing
from dray.server.bodies import IGNORE
from dray.server.calls import Call, check_name, ensure_namespace
from dray.server.documents import Document
from dray.server.options import write_options
from dray.server.responses import One, Response


def update(call: Call) -> Awaitable[Response]:
    rules = call.resource.kind.rules
    return replace(call, rules, create_missing=rules.create_on_update)


def update_view(call: Call) -> Awaitable[Response]:
    return replace(call, call.resource.kind.views[call.target.subresource], create_missing=False)


async def replace(call: Call, door: UpdateRules, *, create_missing: bool) -> Response:
    options = write_options(call.request.query, "UpdateOptions")
    sent: Object | None = _read(call, options.directive)
    assert sent is not None
    ensure_namespace(sent["metadata"], call.namespace)
    check_name(sent["metadata"], call.target)
    metadata.dedup_owners(sent["metadata"], call.request.warn, admitted=False)
    attributes = call.attributes(
        admission.UPDATE, options=options.object("UpdateOptions"), dry_run=options.dry_run
    )

    async def make(current: Document | None) -> Object:
        nonlocal sent
        new, sent = sent, None
        if new is None:  # the object moved on while the first try was under way
            new = _read(call, IGNORE)
            ensure_namespace(new["metadata"], call.namespace)
        if current is not None:
            writing.check_uid(call, new["metadata"], current)
        call.api.managing.updated(call, new, None if current is None else current.hub, options.manager)
        await admit(call, new, attributes)
        return new

    written = await writing.modify(call, make, door, attributes, create_missing=create_missing)
    return Response(201 if written.created else 200, One(written.document, call.codec))


def _read(call: Call, directive: str) -> Object:
    body, known = call.request.body, None
    if isinstance(body, dict):
        current = call.resource.stored.get(call.key)
        known = call.codec.object(current.hub) if current is not None else None
    return call.api.decoder.read(
        call.request, call.codec, call.resource.codecs, directive=directive, known=known
    )


async def admit(call: Call, new: Object, attributes: admission.Attributes) -> None:
    """The mutating pass over an object that is about to replace another (or, with apply, to be created)."""
    attributes.object = new
    await call.api.admission.admit(attributes)
    metadata.dedup_owners(new["metadata"], call.request.warn, admitted=True)
