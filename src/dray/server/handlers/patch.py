"""PATCH: JSON patch, merge patch, strategic merge patch, server-side apply.

A patch is applied to the newest state of the object in the request's version. If somebody else writes the object
before the result is stored, the patch is applied again; only an apply's ownership or an explicit resourceVersion makes
it conflict.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

import msgspec

from dray.api import patch as patches
from dray.api.errors import BadRequest, Invalid, StatusError, UnsupportedMediaType
from dray.api.schema import Decoded
from dray.api.scheme.kinds import Object
from dray.api.scheme.strategy import UpdateStrategy
from dray.server import admission
from dray.server.endpoints import negotiation
from dray.server.endpoints.call import Call
from dray.server.endpoints.decoder import IGNORE, split_api_version
from dray.server.endpoints.options import WriteOptions, write_options
from dray.server.endpoints.responses import ObjectBody, Response
from dray.server.endpoints.yamljson import UnreadableYAML
from dray.server.handlers.update import admit
from dray.server.registry import objects
from dray.server.registry.metadata import check_name, ensure_namespace
from dray.server.storage.codec import Codec, encode
from dray.server.storage.documents import Document

if TYPE_CHECKING:
    from dray.api.types.meta import ObjectMeta

_BUILT_IN = (patches.JSON, patches.MERGE, patches.STRATEGIC, patches.APPLY)
_CUSTOM = (patches.JSON, patches.MERGE, patches.APPLY)


def patch(call: Call) -> Awaitable[Response]:
    return patch_resource(call, call.resource.kind.strategy)


def patch_subresource(call: Call) -> Awaitable[Response]:
    return patch_resource(call, call.resource.kind.subresources[call.info.subresource])


async def patch_resource(call: Call, strategy: UpdateStrategy[Any]) -> Response:
    media = patch_type(call)
    applying = media == patches.APPLY
    options = write_options(call.request.query, "PatchOptions", apply=applying)
    attributes = call.attributes(
        admission.UPDATE, options=options.object("PatchOptions"), dry_run=options.dry_run
    )
    body = call.request.body

    def changed(current: Document | None) -> Object:
        if applying:
            try:
                return call.api.field_manager.applied(
                    call, None if current is None else current.hub, body, options
                )
            except UnreadableYAML as e:
                raise e.in_words_of(call.api.api_quirks) from None
        assert current is not None
        data = body if isinstance(body, bytes) else encode(body)
        new = patched(call, current.hub, media, data, options)
        call.api.field_manager.updated(call, new, current.hub, options.manager)
        return new

    async def make(current: Document | None) -> Object:
        new = await call.beside(changed, current) if call.large else changed(current)
        metadata: ObjectMeta = new["metadata"]
        ensure_namespace(metadata, call.namespace)
        check_name(metadata, call.info.name)
        if current is None and (uid := metadata.get("uid")):
            words = f"uid mismatch: the provided object specified uid {uid}, and no existing object was found"
            raise call.conflict(words)
        await admit(call, new, attributes)
        return new

    creating = applying and not call.info.subresource
    written = await objects.update(call, make, strategy, attributes, create_missing=creating)
    return Response(201 if written.created else 200, ObjectBody(written.document, call.codec))


def patch_type(call: Call) -> str:
    allowed = _CUSTOM if call.resource.kind.custom else _BUILT_IN
    media = call.request.headers.get("content-type").partition(";")[0].strip()
    if media not in allowed:
        if call.resource.kind.custom:
            raise negotiation.unsupported(allowed)
        raise UnsupportedMediaType("415: Unsupported Media Type", details={})
    return media


def patched(call: Call, hub: Object, media: str, data: bytes, options: WriteOptions) -> Object:
    """The hub object after a patch that is not an apply."""

    codec = call.codec
    before = codec.object(hub)

    def decode(document: Object) -> Decoded:
        nonlocal codec
        codec = _codec_of(call, document)
        known = before if codec is call.codec else None
        return Decoded(
            *call.api.decoder.shape(document, codec, strict=options.directive != IGNORE, known=known)
        )

    try:
        result = patches.apply_patch(
            media, before, data, decode=decode, type_=codec.type, validation=options.directive
        )
    except StatusError as e:
        if e.http_code == 400 and call.api.api_quirks.checks_patches_first and not _is_json(data):
            raise BadRequest("invalid JSON patch") from None
        if e.http_code == 422 and not e.status_reason:
            # What a JSON patch says about itself is for the log; clients get upstream's general words.
            raise Invalid("the server rejected our request due to an error in our request", details={}) from e
        raise
    for problem in result.problems:
        call.request.warn(problem)
    return call.api.decoder.hub(result.object, codec.version, call.resource.codecs)


def _is_json(data: bytes) -> bool:
    try:
        msgspec.json.decode(data)
    except msgspec.DecodeError:
        return False
    return True


def _codec_of(call: Call, document: Object) -> Codec:
    """The version that a patched object says it has: a patch may name another version of the same kind."""
    kind, api_version = document.get("kind"), document.get("apiVersion")
    if (
        kind != call.codec.kind.kind
        or api_version == call.codec.api_version
        or not isinstance(api_version, str)
    ):
        return call.codec
    group, version = split_api_version(api_version)
    found = call.resource.codecs.by_version.get(version) if group == call.codec.kind.group else None
    return found or call.codec
