"""Scale: the replicas of anything that has them, in one shape (autoscaling/v1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from dray.api import errors, schema
from dray.api import patch as patches
from dray.api.errors import BadRequest
from dray.api.schema import Decoded
from dray.api.scheme.kinds import Object, Scale
from dray.api.validation import field
from dray.api.validation.field import Path
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import json_object, write_options
from dray.server.endpoints.responses import Response
from dray.server.endpoints.yamljson import load_yaml_object
from dray.server.handlers.patch import patch_type
from dray.server.handlers.update import admit
from dray.server.registry import objects
from dray.server.registry.metadata import check_name, ensure_namespace
from dray.server.storage.codec import encode
from dray.server.storage.documents import Document
from dray.server.subresources import codecs

if TYPE_CHECKING:
    from dray.api.types import autoscaling_v1
    from dray.api.types.meta import ObjectMeta

_TYPE = "autoscaling/v1.Scale"
_API_VERSION = "autoscaling/v1"


async def get(call: Call) -> Response:
    await call.api.store.wait_until_fresh()
    return Response(200, scale_of(call, call.existing().hub))


async def update(call: Call) -> Response:
    options = write_options(call.request.query, "UpdateOptions")
    sent = _decode(json_object(call.request, _TYPE)).object

    def change(present: Object) -> Object:
        return sent

    return await _rescale(
        call, change, options.manager, options.object("UpdateOptions"), dry_run=options.dry_run
    )


async def patch(call: Call) -> Response:
    media = patch_type(call)
    options = write_options(call.request.query, "PatchOptions", apply=media == patches.APPLY)
    body = call.request.body
    data = body if isinstance(body, bytes) else encode(body)

    def change(present: Object) -> Object:
        if media == patches.APPLY:
            config, _ = load_yaml_object(data)
            spec = config.get("spec") or {}
            merged = {**present["spec"], **spec} if isinstance(spec, dict) else spec
            return _decode({**present, "spec": merged}).object
        result = patches.apply_patch(
            media, present, data, decode=_decode, type_=schema.type_of(_TYPE), validation=options.directive
        )
        for problem in result.problems:
            call.request.warn(problem)
        return result.object

    return await _rescale(
        call, change, options.manager, options.object("PatchOptions"), dry_run=options.dry_run
    )


def _decode(document: Object) -> Decoded:
    kind, version = document.get("kind") or "Scale", document.get("apiVersion") or _API_VERSION
    if kind != "Scale" or version != _API_VERSION:
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a Scale: unknown kind')
    return schema.decode(schema.type_of(_TYPE), document)


async def _rescale(
    call: Call, change: Callable[[Object], Object], manager: str, options: Object, *, dry_run: bool
) -> Response:
    kind = call.resource.kind
    assert kind.scale is not None
    layout = kind.scale
    shown = codecs.ProjectionCodec(codecs.body_codec(*codecs.SCALE), lambda hub: scale_of(call, hub))
    attributes = call.attributes(admission.UPDATE, options=options, dry_run=dry_run, codec=shown)

    def restore(scale: Object, obj: Object) -> Object:
        return _with(obj, layout.spec_replicas, _replicas(cast("autoscaling_v1.Scale", scale)))

    attributes.restore = restore

    async def make(current: Document | None) -> Object:
        assert current is not None
        wanted = change(scale_of(call, current.hub))
        meta: ObjectMeta = wanted["metadata"]
        ensure_namespace(meta, call.namespace)
        check_name(meta, call.info.name)
        replicas = _replicas(cast("autoscaling_v1.Scale", wanted))
        if replicas < 0:
            problem = field.invalid(
                Path("spec").child("replicas"), replicas, "must be greater than or equal to 0"
            )
            raise errors.invalid("Scale", "autoscaling", call.info.name, [problem])
        new = _with(current.hub, layout.spec_replicas, replicas)
        kept: ObjectMeta = new["metadata"]
        named: ObjectMeta = {**kept, "resourceVersion": meta.get("resourceVersion", "")}
        if meta.get("uid"):
            named["uid"] = meta["uid"]
        new["metadata"] = named
        call.api.field_manager.updated(call, new, current.hub, manager)
        await admit(call, new, attributes)
        return new

    written = await objects.update(call, make, kind.strategy, attributes)
    return Response(200, scale_of(call, written.document.hub))


def _replicas(scale: autoscaling_v1.Scale) -> int:
    return (scale.get("spec") or {}).get("replicas", 0)


def scale_of(call: Call, hub: Object) -> Object:
    layout = call.resource.kind.scale
    assert isinstance(layout, Scale)
    meta = hub["metadata"]
    kept = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    status: autoscaling_v1.ScaleStatus = {"replicas": _at(hub, layout.status_replicas) or 0}
    selector = layout.selector(hub) if layout.selector is not None else ""
    if selector:
        status["selector"] = selector
    replicas = _at(hub, layout.spec_replicas)
    scale: autoscaling_v1.Scale = {
        "kind": "Scale",
        "apiVersion": _API_VERSION,
        "metadata": cast("ObjectMeta", {k: meta[k] for k in kept if k in meta}),
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }
    return cast("Object", scale)


def _at(obj: Any, path: tuple[str, ...]) -> Any:
    for name in path:
        obj = obj.get(name) if isinstance(obj, dict) else None
    return obj


def _with(obj: Object, path: tuple[str, ...], value: Any) -> Object:
    """A copy with one value changed; everything beside the path is shared."""
    head, *rest = path
    inner = obj.get(head)
    if rest:
        value = _with(inner if isinstance(inner, dict) else {}, tuple(rest), value)
    return {**obj, head: value}
