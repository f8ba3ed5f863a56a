"""Eviction: a deletion that the pod's disruption budget must allow."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, cast

from dray.api import selectors
from dray.api.errors import BadRequest, Conflict, StatusError, Timeout, TooManyRequests, forbidden
from dray.api.objects import clone
from dray.api.pods import is_ready
from dray.api.scheme.kinds import Object
from dray.server import admission
from dray.server.endpoints.call import Call
from dray.server.endpoints.options import DeleteOptions, delete_options_from, json_object, write_options
from dray.server.endpoints.responses import Response
from dray.server.handlers.delete import remove
from dray.server.registry import writes
from dray.server.storage.documents import Document
from dray.server.subresources import codecs
from dray.server.subresources.binding import set_condition

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodCondition
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.policy import (
        Eviction,
        PodDisruptionBudget,
        PodDisruptionBudgetStatus,
    )

_ATTEMPTS = 10
_MAX_DISRUPTED = 2000
_VIOLATES = "Cannot evict pod as it would violate the pod's disruption budget."


async def evict(call: Call) -> Response:
    write = write_options(call.request.query, "CreateOptions")
    body = _decode(call)
    eviction = cast("Eviction", body)
    if eviction.get("metadata", {}).get("name", "") != call.info.name:
        raise BadRequest("name in URL does not match name in Eviction object")
    options = delete_options_from(cast("Object", eviction.get("deleteOptions") or {}))
    options = replace(options, dry_run=options.dry_run or write.dry_run)
    attributes = call.attributes(
        admission.CREATE,
        obj=body,
        options=write.object("CreateOptions"),
        dry_run=options.dry_run,
        codec=codecs.body_codec(*codecs.EVICTION),
    )
    await call.api.admission.admit(attributes)
    await call.api.admission.validate(attributes)
    await _evict(call, options)
    return Response(
        201, {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
    )


def _decode(call: Call) -> Object:
    decoded: Object = clone(json_object(call.request, "policy/v1.Eviction"))
    found = cast("Eviction", decoded)
    kind = found.get("kind") or "Eviction"
    version = found.get("apiVersion") or "policy/v1"
    if kind != "Eviction" or version not in ("policy/v1", "policy/v1beta1"):
        raise BadRequest(f'{kind} in version "{version}" cannot be handled as a Eviction: unknown kind')
    if not isinstance(found.setdefault("metadata", {}), dict):
        raise BadRequest("metadata is not an object")
    return decoded


async def _evict(call: Call, options: DeleteOptions) -> None:
    for _ in range(_ATTEMPTS):
        pod = call.existing()
        if not _unguarded(pod.hub):
            break
        strict = options
        if options.revision is None and _may_become_ready(pod.hub):
            strict = replace(options, revision=str(pod.revision))
        try:
            await _mark_and_delete(call, strict)
            return
        except Conflict:
            if options.revision is not None:
                raise
    else:
        raise Timeout("couldn't evict the pod due to conflicts", details={"retryAfterSeconds": 10})
    budgets = _budgets(call, pod)
    if len(budgets) > 1:
        raise StatusError(
            "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.",
            code=500,
            reason="",
        )
    if not budgets:
        await _mark_and_delete(call, options)
        return
    await _evict_within(call, pod, budgets[0], options)


async def _evict_within(call: Call, pod: Document, budget: Document, options: DeleteOptions) -> None:
    """Evict a pod that a budget guards."""
    if not is_ready(pod.hub) and _spare_unhealthy(budget.hub):
        strict = options if options.revision is not None else replace(options, revision=str(pod.revision))
        try:
            await _mark_and_delete(call, strict)
        except Conflict:
            if options.revision is not None:
                raise
            raise _being_processed(budget.name) from None
        return
    budgets = call.api.resource("policy", "poddisruptionbudgets")
    on_budgets = Call(call.api, call.request, call.info, budgets, call.codec, call.user, call.media)
    await writes.guaranteed_update(
        on_budgets,
        budget.key,
        lambda obj: _take_one(call, obj, pod.name),
        dry_run=options.dry_run,
    )
    await _mark_and_delete(call, options)


def _unguarded(pod: Pod) -> bool:
    """A pod that has ended, has not begun or is going already causes no further disruption."""
    phase = pod.get("status", {}).get("phase")
    return phase in ("Succeeded", "Failed", "Pending") or bool(pod["metadata"].get("deletionTimestamp"))


def _may_become_ready(pod: Pod) -> bool:
    return pod.get("status", {}).get("phase") == "Pending" and not pod["metadata"].get("deletionTimestamp")


def _spare_unhealthy(budget: PodDisruptionBudget) -> bool:
    """Whether a pod that is not ready may go without using the budget up."""
    if budget.get("spec", {}).get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    desired = status.get("desiredHealthy", 0)
    return status.get("currentHealthy", 0) >= desired > 0


def _budgets(call: Call, pod: Document) -> list[Document]:
    resource = call.api.resources.resource("policy", "poddisruptionbudgets")
    if resource is None:
        return []
    cache = resource.cache
    found = []
    for key in cache.range(pod.namespace):
        budget = cache.documents[key]
        try:
            known: PodDisruptionBudget = budget.hub
            selector = selectors.label_selector(known.get("spec", {}).get("selector"))
        except (ValueError, KeyError):
            continue  # such a selector selects nothing
        if selector.matches(pod.labels):
            found.append(budget)
    return found


def _take_one(call: Call, budget: PodDisruptionBudget, pod: str) -> None:
    """Check that the budget allows a disruption, and count this one."""
    meta, status = budget["metadata"], budget.setdefault("status", {})
    name = meta["name"]
    if status.get("observedGeneration", 0) < meta.get("generation", 0):
        raise _being_processed(name)
    allowed = status.get("disruptionsAllowed", 0)
    if allowed < 0:
        raise forbidden("poddisruptionbudget", "policy", name, "pdb disruptions allowed is negative")
    if len(status.get("disruptedPods") or ()) > _MAX_DISRUPTED:
        words = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        raise forbidden("poddisruptionbudget", "policy", name, words)
    if allowed == 0:
        raise _budget_error(_why(name, status), retry=0)
    status["disruptionsAllowed"] = allowed - 1
    if allowed == 1:
        _set_insufficient(status, meta, call.api.clock.now())
    status["disruptedPods"] = {**(status.get("disruptedPods") or {}), pod: call.api.clock.now()}


def _why(name: str, status: PodDisruptionBudgetStatus) -> str:
    condition = next(
        (c for c in status.get("conditions") or () if c.get("type") == "DisruptionAllowed"), None
    )
    denied = condition is not None and condition.get("status") == "False"
    message, reason = (
        (condition.get("message"), condition.get("reason", "")) if condition and denied else ("", "")
    )
    if message and reason == "SyncFailed":
        return f"The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
    current, desired = status.get("currentHealthy", 0), status.get("desiredHealthy", 0)
    if current <= desired:
        return f"The disruption budget {name} needs {desired} healthy pods and has {current} currently"
    if message:
        return f"The disruption budget {name} does not allow evicting pods currently ({reason}): {message}"
    return f"The disruption budget {name} does not allow evicting pods currently"


def _set_insufficient(status: PodDisruptionBudgetStatus, meta: ObjectMeta, now: str) -> None:
    conditions = [c for c in status.get("conditions") or () if c.get("type") != "DisruptionAllowed"]
    conditions.append(
        {
            "type": "DisruptionAllowed",
            "status": "False",
            "observedGeneration": status.get("observedGeneration", meta.get("generation", 0)),
            "lastTransitionTime": now,
            "reason": "InsufficientPods",
            "message": "",
        }
    )
    status["conditions"] = conditions


def _being_processed(name: str) -> TooManyRequests:
    return _budget_error(f"The disruption budget {name} is still being processed by the server.", retry=10)


def _budget_error(message: str, *, retry: int) -> TooManyRequests:
    details: Object = {"causes": [{"reason": "DisruptionBudget", "message": message}]}
    if retry:
        details["retryAfterSeconds"] = retry
    return TooManyRequests(_VIOLATES, details=details)


async def _mark_and_delete(call: Call, options: DeleteOptions) -> None:
    """Say on the pod why it goes, then delete it."""
    if not options.dry_run:
        written = await writes.guaranteed_update(call, call.key, lambda obj: _mark(call, obj, options))
        if options.revision is not None:
            options = replace(options, revision=str(written.revision))
    attributes = call.attributes(admission.DELETE, options=options.object(), dry_run=options.dry_run)
    attributes.subresource = ""
    await remove(call, call.key, options, attributes)


def _mark(call: Call, pod: Pod, options: DeleteOptions) -> None:
    meta = pod["metadata"]
    for name, stated, actual in (
        ("UID", options.uid, meta.get("uid")),
        ("ResourceVersion", options.revision, meta.get("resourceVersion")),
    ):
        if stated and stated != actual:
            raise call.conflict(
                f"the {name} in the precondition ({stated}) does not match the {name} in record ({actual})"
            )
    condition: PodCondition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": "EvictionByEvictionAPI",
        "message": "Eviction API: evicting",
    }
    set_condition(pod.setdefault("status", {}), condition, call.api.clock.now())
