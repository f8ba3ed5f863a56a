"""Patches of a pod's status that several controllers write: conditions, and the phase Failed. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.fields import Patch
from dray.api.pods import condition as pod_condition

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodCondition, PodStatus


def condition_patch(pod: Pod, wanted: PodCondition, *, now: str) -> Patch[PodStatus]:
    """The part of a strategic merge patch for ``status`` that sets a condition; empty if it is so already."""
    present = pod_condition(pod, wanted["type"])
    if present is not None and wanted.items() <= present.items():
        return Patch({})
    since = present["lastTransitionTime"] if present and present["status"] == wanted["status"] else now
    types = [c["type"] for c in (pod.get("status") or {}).get("conditions") or ()]
    order = types if present else [*types, wanted["type"]]
    return Patch(
        {
            # Without its order a list of conditions would get new ones in front.
            "$setElementOrder/conditions": [{"type": kind} for kind in order],
            "conditions": [{"observedGeneration": None, **wanted, "lastTransitionTime": since}],
        }
    )


def disruption_target_patch(
    pod: Pod, *, reason: str, message: str, now: str, generation: int | None = None
) -> Patch[Pod] | None:
    """A patch of the status that says why a pod is about to be deleted; None if it says so already.

    Like all patches here it holds only for the pod with this uid. ``generation`` is the pod's, where the condition has it.
    """
    wanted: PodCondition = {
        "type": "DisruptionTarget",
        "status": "True",
        "reason": reason,
        "message": message,
    }
    if generation:
        wanted["observedGeneration"] = generation
    return _patch(pod, condition_patch(pod, wanted, now=now))


def failed_phase_patch(pod: Pod, *, condition: PodCondition | None = None, now: str) -> Patch[Pod] | None:
    """A patch that sets the phase Failed for a pod that no kubelet runs any more; None if the pod is terminal."""
    status = pod.get("status") or {}
    if status.get("phase") in ("Succeeded", "Failed"):
        return None
    generation = pod["metadata"].get("generation")
    failed: PodStatus = {"phase": "Failed"}
    if generation and status.get("observedGeneration") != generation:
        failed["observedGeneration"] = generation
    changes: Patch[PodStatus] = Patch({**failed})
    if condition is not None:
        if generation:
            condition = {**condition, "observedGeneration": generation}
        changes |= condition_patch(pod, condition, now=now)
    return _patch(pod, changes)


def _patch(pod: Pod, changes: Patch[PodStatus]) -> Patch[Pod] | None:
    return Patch({"metadata": {"uid": pod["metadata"]["uid"]}, "status": changes}) if changes else None
