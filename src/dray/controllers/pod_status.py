"""What several controllers say about pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.scheme.kinds import Object


def pod_condition(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == kind), None)


def condition_patch(pod: Mapping[str, Any], wanted: Object, *, now: str) -> Object:
    """The part of a strategic merge patch for ``status`` that sets a condition; empty if it is so already."""
    present = pod_condition(pod, wanted["type"]) or {}
    if all(present.get(name) == value for name, value in wanted.items()):
        return {}
    since = present["lastTransitionTime"] if present.get("status") == wanted["status"] else now
    types = [c["type"] for c in (pod.get("status") or {}).get("conditions") or ()]
    order = types if present else [*types, wanted["type"]]
    return {
        # Without its order a list of conditions would get new ones in front.
        "$setElementOrder/conditions": [{"type": kind} for kind in order],
        "conditions": [{"observedGeneration": None, **wanted, "lastTransitionTime": since}],
    }


def disruption_target_patch(
    pod: Mapping[str, Any], *, reason: str, message: str, now: str, generation: int | None = None
) -> Object | None:
    """A patch of the status that says why a pod is about to be deleted; None if it says so already.

    Like all patches here it holds only for the pod with this uid. ``generation``: the pod's, where that is told, too.
    """
    wanted: Object = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    if generation:
        wanted["observedGeneration"] = generation
    return _patch(pod, condition_patch(pod, wanted, now=now))


def failed_phase_patch(pod: Mapping[str, Any], *, condition: Object | None = None, now: str) -> Object | None:
    """A patch of the status that ends a pod which nobody runs any more; None if it has ended already."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    generation = pod["metadata"].get("generation")
    changes: Object = {"phase": "Failed"}
    if generation and status.get("observedGeneration") != generation:
        changes["observedGeneration"] = generation
    if condition is not None:
        wanted = {**condition, "observedGeneration": generation} if generation else condition
        changes |= condition_patch(pod, wanted, now=now)
    return _patch(pod, changes)


def _patch(pod: Mapping[str, Any], changes: Object) -> Object | None:
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": changes} if changes else None
