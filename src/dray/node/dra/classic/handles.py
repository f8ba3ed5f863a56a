"""Resource handles: what the allocation of a classic claim tells the drivers."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, TypeGuard, cast

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha1 import AllocationResult as FirstAllocationResult
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import StructuredResourceHandle


class ResourceHandle(NamedTuple):
    """What the allocation of a classic claim tells one driver: data of the driver's own controller, or of the scheduler."""

    driver: str
    data: str = ""
    structured: StructuredResourceHandle | None = None


def is_classic(claim: ResourceClaim | ClassicClaim) -> TypeGuard[ClassicClaim]:
    return "resourceClassName" in (cast("ClassicClaim", claim).get("spec") or {})


def resource_handles(claim: ResourceClaim | ClassicClaim) -> tuple[ResourceHandle, ...]:
    """What the drivers of a classic claim are to be told; nothing for claims that name devices."""
    if not is_classic(claim):
        return ()
    status = claim["status"]
    allocation, default = status["allocation"], status.get("driverName") or ""
    listed = allocation.get("resourceHandles")
    if not listed:
        # 1.26 had one handle, of no particular driver. The claim's driver is called even if there is none.
        first = cast("FirstAllocationResult", allocation)
        return (ResourceHandle(default, first.get("resourceHandle") or ""),)
    return tuple(
        ResourceHandle(h.get("driverName") or default, h.get("data") or "", h.get("structuredData"))
        for h in listed
    )
