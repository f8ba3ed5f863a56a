"""When objects came into the state they are in, as far as they say so themselves.

The dashboard sees a change when it happens. What was there before it was started can only be told from timestamps of the
objects; where they have none the answer is None, and nobody claims to know.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api import claims as resource_claims
from dray.api import objects, pods
from dray.api.times import to_epoch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim


def claim_since(claim: ResourceClaim) -> float | None:
    """Since when a claim is pending or allocated."""
    metadata = claim["metadata"]
    if metadata.get("deletionTimestamp"):
        return _epoch(metadata.get("deletionTimestamp"))
    allocation = resource_claims.allocation(claim)
    if allocation is None:
        return _epoch(metadata.get("creationTimestamp"))
    return _epoch(allocation.get("allocationTimestamp"))


def pod_since(pod: Pod) -> float | None:
    """Since when a pod is in its phase, on its node if it has one."""
    if pods.is_terminating(pod):
        return None  # its timestamp is when it has to be gone
    phase = pods.phase(pod)
    if phase == "Pending" and not pods.node_name(pod):
        return _epoch(pod["metadata"].get("creationTimestamp"))
    if phase == "Pending":
        bound = objects.find_condition((pod.get("status") or {}).get("conditions"), "PodScheduled")
        return _epoch(bound.get("lastTransitionTime") if bound is not None else None)
    moments = [
        moment for text in _container_times(pod, running=phase == "Running") if (moment := _epoch(text))
    ]
    if not moments:
        return None
    return min(moments) if phase == "Running" else max(moments)


def _container_times(pod: Pod, *, running: bool) -> Iterator[str | None]:
    for one in (pod.get("status") or {}).get("containerStatuses") or ():
        state = one.get("state") or {}
        if running:
            yield (state.get("running") or {}).get("startedAt")
        else:
            yield (state.get("terminated") or {}).get("finishedAt")


def _epoch(text: str | None) -> float | None:
    return to_epoch(text) if text else None
