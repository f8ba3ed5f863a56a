"""What several controllers say about pods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dray.api.kinds import Object


def condition_of(pod: Mapping[str, Any], kind: str) -> Mapping[str, Any] | None:
    found = (pod.get("status") or {}).get("conditions") or ()
    return next((c for c in found if c["type"] == kind), None)


def disruption(
    pod: Mapping[str, Any],
    *,
    reason: str,
    message: str,
    now: str,
    observed_generation: int | None = None,
    phase: str | None = None,
) -> Object | None:
    """A strategic merge patch of the status that says why a pod is deleted; None if it says so already.

    ``phase``: what the pod's phase is to become besides. The patch holds only for the pod with this uid.
    """
    wanted: Object = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
    if observed_generation:
        wanted["observedGeneration"] = observed_generation
    present = condition_of(pod, "DisruptionTarget") or {}
    status: Object = {}
    if phase is not None and (pod.get("status") or {}).get("phase") != phase:
        status["phase"] = phase
    if any(present.get(name) != value for name, value in wanted.items()):
        since = present["lastTransitionTime"] if present.get("status") == "True" else now
        types = [c["type"] for c in (pod.get("status") or {}).get("conditions") or ()]
        order = types if present else [*types, wanted["type"]]
        status["$setElementOrder/conditions"] = [{"type": kind} for kind in order]
        status["conditions"] = [{"observedGeneration": None, **wanted, "lastTransitionTime": since}]
    return {"metadata": {"uid": pod["metadata"]["uid"]}, "status": status} if status else None
