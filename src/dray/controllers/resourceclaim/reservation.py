"""Who uses a claim, and what becomes of the claim when its consumers are gone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api import claims, objects, pods

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import OwnerReference
    from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim


def released_status(
    claim: ResourceClaim, remaining: Sequence[ResourceClaimConsumerReference]
) -> ResourceClaimStatus | None:
    """The status of a claim when only ``remaining`` consumers are left; None if it need not change.

    When the last consumer is gone, the claim is deallocated. A claim that was allocated and never used stays
    allocated until it is deleted.
    """
    status = claim.get("status") or {}
    protected = objects.has_finalizer(claim, claims.FINALIZER)
    if len(remaining) < len(status.get("reservedFor") or ()):
        deallocate = not remaining and protected
    elif protected and objects.is_terminating(claim) and not remaining and status.get("allocation"):
        deallocate = True
    else:
        return None
    changed: ResourceClaimStatus = {**status, "reservedFor": remaining}
    if deallocate:
        changed.pop("allocation", None)
    return changed


def has_needless_finalizer(claim: ResourceClaim | ClassicClaim, finalizer: str = claims.FINALIZER) -> bool:
    """Whether the finalizer has nothing left to protect."""
    status = claim.get("status") or {}
    unused = not status.get("allocation") and not status.get("reservedFor")
    return unused and objects.has_finalizer(claim, finalizer)


def owning_pod(claim: ResourceClaim | ClassicClaim) -> OwnerReference | None:
    """The reference to the pod for which a claim was made."""
    owner = objects.controller_of(claim)
    return owner if owner is not None and owner["kind"] == "Pod" and owner["apiVersion"] == "v1" else None


def should_reserve(pod: Pod, claim: ResourceClaim) -> bool:
    """Whether the claim is yet to be reserved for a pod that did not get its node from the scheduler."""
    return (
        bool(pod["spec"].get("nodeName"))
        and claims.allocation(claim) is not None
        and not claims.may_use(pod, claim)
        and not pods.is_done(pod)
    )
