"""Binding: a scheduler puts a pod on a node. One write sets the node, the annotations and the PodScheduled condition."""

from __future__ import annotations

from collections.abc import Awaitable
from functools import lru_cache
from typing import TYPE_CHECKING, Final, cast

from dray.api.errors import BadRequest, StatusError, conflict
from dray.api.validation import field
from dray.api.validation.field import Path
from dray.server import admission
from dray.server.admission.matchconditions import aggregate
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import write_options
from dray.server.endpoints.responses import Response
from dray.server.registry import writes
from dray.server.registry.metadata import ensure_namespace

if TYPE_CHECKING:
    from dray.api.types.core import Binding, ObjectReference, Pod, PodCondition, PodStatus
    from dray.api.types.meta import ObjectMeta

_TARGET = Path("target")


def bind(call: Call) -> Awaitable[Response]:
    """POST to ``pods/NAME/binding``."""
    return _bind(call, call.info.name)


def bind_by_body(call: Call) -> Awaitable[Response]:
    """POST to ``bindings``: the older way, the pod is named in the body."""
    pods = call.api.resource("", "pods")
    return _bind(Call(call.api, call.request, call.info, pods, call.codec, call.user, call.media), "")


async def _bind(call: Call, name: str) -> Response:
    options = write_options(call.request.query, "CreateOptions")
    codec = call.api.resources.codec("", "v1", "bindings")
    binding: Binding = call.api.decoder.versioned(call.request, codec, directive=options.directive)
    meta, target = binding["metadata"], binding.get("target") or {}
    ensure_namespace(meta, call.info.namespace)
    attributes = call.attributes(
        admission.CREATE,
        obj=binding,
        name=name or meta.get("name", ""),
        options=options.object("CreateOptions"),
        dry_run=options.dry_run,
        codec=codec,
    )
    if not name:
        attributes.resource = "bindings"  # as it was asked for; it is no pod that is created
    await call.api.admission.admit(attributes)
    if name and name != meta.get("name", ""):
        raise BadRequest("name in URL does not match name in Binding object")
    _check(target)
    await call.api.admission.validate(attributes)
    pod_name = meta.get("name", "")
    try:
        await writes.guaranteed_update(
            call,
            f"{call.info.namespace}/{pod_name}",
            lambda pod: _assign(call, pod, meta, target["name"]),
            dry_run=options.dry_run,
        )
    except _Refused as e:
        raise conflict("pods/binding", "", pod_name, str(e)) from None
    return Response(
        201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    )


def _check(target: ObjectReference) -> None:
    problems = []
    if target.get("kind", "") not in ("", "Node"):
        problems.append(field.not_supported(_TARGET.child("kind"), target["kind"], ("Node", "<empty>")))
    if not target.get("name"):
        problems.append(field.required(_TARGET.child("name")))
    if problems:
        # Upstream does not dress these up as a 422.
        raise StatusError(aggregate([str(p) for p in problems]))


class _Refused(Exception):
    """The pod's state does not allow it to be bound."""


def _assign(call: Call, pod: Pod, sent: ObjectMeta, node: str) -> None:
    meta = pod["metadata"]
    name = meta["name"]
    _check_preconditions(call, meta, sent)
    if meta.get("deletionTimestamp"):
        raise _Refused(f"pod {name} is being deleted, cannot be assigned to a host")
    spec = pod["spec"]
    if spec.get("nodeName"):
        raise _Refused(f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise _Refused(f"pod {name} has non-empty .spec.schedulingGates")
    spec["nodeName"] = node
    if sent.get("annotations"):
        meta["annotations"] = {**(meta.get("annotations") or {}), **sent["annotations"]}
    if sent.get("labels") and call.api.quirks.copies_labels_of_binding:
        meta["labels"] = {**(meta.get("labels") or {}), **sent["labels"]}
    status = pod.setdefault("status", {})
    if call.api.quirks.clears_nominated_node_on_binding:
        status.pop("nominatedNodeName", None)
    set_condition(status, _SCHEDULED, call.api.clock.now())


def _check_preconditions(call: Call, meta: ObjectMeta, sent: ObjectMeta) -> None:
    for name, wanted, found in (
        ("UID", sent.get("uid"), meta.get("uid")),
        ("ResourceVersion", sent.get("resourceVersion"), meta.get("resourceVersion")),
    ):
        if wanted and wanted != found:
            path = f"{call.resource.cache.prefix}{meta['namespace']}/{meta['name']}"
            problem = f"Precondition failed: {name} in precondition: {wanted}, {name} in object meta: {found}"
            raise call.conflict(
                f"StorageError: invalid object, Code: 4, Key: {path}, ResourceVersion: 0, "
                f"AdditionalErrorMsg: {problem}",
                meta["name"],
            )


_SCHEDULED: Final[PodCondition] = {"type": "PodScheduled", "status": "True"}


def _timed(condition: PodCondition, since: str | None) -> PodCondition:
    if condition is _SCHEDULED:
        return _scheduled(since)
    return cast("PodCondition", {"lastProbeTime": None, "lastTransitionTime": since, **condition})


@lru_cache(maxsize=16)
def _scheduled(since: str | None) -> PodCondition:
    """Pods that are bound within a second share it."""
    return cast("PodCondition", {"lastProbeTime": None, "lastTransitionTime": since, **_SCHEDULED})


def set_condition(status: PodStatus, condition: PodCondition, now: str) -> None:
    """Put a condition into a pod's status; its time changes only when its status does."""
    conditions: list[PodCondition] = list(status.get("conditions") or ())
    for i, old in enumerate(conditions):
        if old["type"] == condition["type"]:
            since = old.get("lastTransitionTime") if old.get("status") == condition["status"] else now
            conditions[i] = _timed(condition, since)
            break
    else:
        conditions.append(_timed(condition, now))
    status["conditions"] = conditions
