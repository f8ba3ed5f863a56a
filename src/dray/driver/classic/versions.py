"""The two versions of the classic kinds that a cluster may serve, and the difference between them.

v1alpha1 (Kubernetes 1.26) has one handle of no particular driver where v1alpha2 has a list, and calls the
PodSchedulingContext PodScheduling. The rest of the controller knows v1alpha2 only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, cast

from dray.client.client import Client
from dray.client.discovery import Discovery
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIMS,
    CLASSIC_RESOURCE_CLASSES,
    POD_SCHEDULING_CONTEXTS,
    POD_SCHEDULINGS,
    Resource,
)
from dray.driver.resource_api import NoResourceApi

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha1 import AllocationResult as FirstAllocationResult
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        PodSchedulingContext,
        ResourceClaim,
        ResourceClass,
    )


class Served(NamedTuple):
    """What a server has of the classic kinds. To the type checker they are those of v1alpha2."""

    classes: Resource[ResourceClass]
    claims: Resource[ResourceClaim]
    contexts: Resource[PodSchedulingContext]

    def read(self, claim: ResourceClaim) -> ResourceClaim:
        """A claim of the server in v1alpha2's form."""
        status = claim.get("status") or {}
        allocation = cast("FirstAllocationResult | None", status.get("allocation"))
        if self.claims.version != "v1alpha1" or not allocation or "resourceHandle" not in allocation:
            return claim
        kept = {name: value for name, value in allocation.items() if name != "resourceHandle"}
        listed: AllocationResult = {
            **cast("AllocationResult", kept),
            "resourceHandles": [{"data": allocation["resourceHandle"]}],
        }
        return {**claim, "status": {**status, "allocation": listed}}

    def write(self, claim: ResourceClaim) -> ResourceClaim:
        """A claim in v1alpha2's form as the server takes it."""
        status = claim.get("status") or {}
        allocation = status.get("allocation")
        if self.claims.version != "v1alpha1" or not allocation or "resourceHandles" not in allocation:
            return claim
        kept = {name: value for name, value in allocation.items() if name != "resourceHandles"}
        handles = allocation["resourceHandles"]
        single = cast("FirstAllocationResult", kept)
        if handles:
            single["resourceHandle"] = handles[0].get("data") or ""
        return {**claim, "status": {**status, "allocation": cast("AllocationResult", single)}}


NEWEST = Served(CLASSIC_RESOURCE_CLASSES, CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS)
FIRST = Served(
    CLASSIC_RESOURCE_CLASSES.at("v1alpha1"),
    CLASSIC_RESOURCE_CLAIMS.at("v1alpha1"),
    POD_SCHEDULINGS,
)


async def served(client: Client) -> Served:
    """The newest of them."""
    discovery = Discovery(client)
    for candidate in (NEWEST, FIRST):
        if await discovery.serves(candidate.contexts):
            return candidate
    raise NoResourceApi(
        "the server has PodSchedulingContexts in neither v1alpha2 nor v1alpha1; "
        "DynamicResourceAllocation or these versions are switched off"
    )
