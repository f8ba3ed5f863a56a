"""CREATE: POST to a resource."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from dray.api.scheme.kinds import Object
from dray.server.admission import CREATE, Attributes
from dray.server.endpoints.call import Call
from dray.server.endpoints.largedocuments import LARGE
from dray.server.endpoints.options import write_options
from dray.server.endpoints.responses import ObjectBody, Response
from dray.server.registry import metadata, objects
from dray.server.storage.codec import encode

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta


async def create(call: Call) -> Response:
    options = write_options(call.request.query, "CreateOptions")
    obj = await _read(call, options.directive)
    meta: ObjectMeta = obj["metadata"]
    metadata.wipe_system_fields(meta)
    metadata.ensure_namespace(meta, call.namespace)
    attributes = call.attributes(
        CREATE,
        obj=obj,
        name=meta.get("name", ""),
        options=options.object("CreateOptions"),
        dry_run=options.dry_run,
    )
    await admit_new(call, obj, attributes, manager=options.manager)
    document = await objects.create(call, obj, attributes)
    return Response(201, ObjectBody(document, call.codec))


async def _read(call: Call, directive: str) -> Object:
    read = partial(call.api.decoder.read, call.request, call.codec, call.resource.codecs, directive=directive)
    if call.large:
        return await call.beside(read)
    if isinstance(call.request.body, dict):
        call.large = len(encode(call.request.body)) > LARGE  # as templates may be
    return read()


async def admit_new(call: Call, obj: Object, attributes: Attributes, *, manager: str) -> None:
    """What happens to a new object between being read and being checked by its own rules."""
    warn = call.request.warn
    metadata.dedup_owner_references(obj["metadata"], warn, admitted=False)
    if call.large:
        await call.beside(call.api.field_manager.created, call, obj, manager)
    else:
        call.api.field_manager.created(call, obj, manager)
    await call.api.admission.admit(attributes)
    metadata.dedup_owner_references(obj["metadata"], warn, admitted=True)
    if attributes.replaced:
        metadata.ensure_namespace(obj["metadata"], call.namespace)
