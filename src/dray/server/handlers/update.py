"""PUT: replace an object, or the part of it that belongs to a subresource such as ``status``."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import partial
from typing import Any

from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import UpdateStrategy
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.decoder import IGNORE
from dray.server.endpoints.largedocuments import LARGE
from dray.server.endpoints.options import write_options
from dray.server.endpoints.responses import ObjectBody, Response
from dray.server.registry import metadata, objects
from dray.server.storage.documents import Document


def update(call: Call) -> Awaitable[Response]:
    rules = call.resource.kind.strategy
    return update_resource(call, rules, create_missing=rules.create_on_update)


def update_subresource(call: Call) -> Awaitable[Response]:
    return update_resource(call, call.resource.kind.subresources[call.info.subresource], create_missing=False)


async def update_resource(call: Call, strategy: UpdateStrategy[Any], *, create_missing: bool) -> Response:
    options = write_options(call.request.query, "UpdateOptions")
    sent: Object | None = await _read(call, options.directive)
    assert sent is not None
    metadata.ensure_namespace(sent["metadata"], call.namespace)
    metadata.check_name(sent["metadata"], call.info.name)
    metadata.dedup_owner_references(sent["metadata"], call.request.warn, admitted=False)
    attributes = call.attributes(
        admission.UPDATE, options=options.object("UpdateOptions"), dry_run=options.dry_run
    )

    async def make(current: Document | None) -> Object:
        nonlocal sent
        new, sent = sent, None
        if new is None:  # somebody else has written the object since the first attempt
            new = await _read(call, IGNORE)
            metadata.ensure_namespace(new["metadata"], call.namespace)
        if current is not None:
            objects.check_uid(call, new["metadata"], current)
        track = partial(
            call.api.field_manager.updated,
            call,
            new,
            None if current is None else current.hub,
            options.manager,
        )
        if call.large:
            await call.beside(track)
        else:
            track()
        await admit(call, new, attributes)
        return new

    written = await objects.update(call, make, strategy, attributes, create_missing=create_missing)
    return Response(201 if written.created else 200, ObjectBody(written.document, call.codec))


async def _read(call: Call, directive: str) -> Object:
    body, known = call.request.body, None
    if isinstance(body, dict):
        current = call.resource.cache.get(call.key)
        known = call.codec.object(current.hub) if current is not None else None
        call.large = current is not None and len(current.value or b"") > LARGE
    read = partial(
        call.api.decoder.read,
        call.request,
        call.codec,
        call.resource.codecs,
        directive=directive,
        known=known,
    )
    return await call.beside(read) if call.large else read()


async def admit(call: Call, new: Object, attributes: admission.Attributes) -> None:
    """The mutating pass over an object that is about to replace another (or, with apply, to be created)."""
    attributes.object = new
    await call.api.admission.admit(attributes)
    metadata.dedup_owner_references(new["metadata"], call.request.warn, admitted=True)
    if attributes.replaced and attributes.operation == admission.CREATE:
        metadata.ensure_namespace(new["metadata"], call.namespace)
