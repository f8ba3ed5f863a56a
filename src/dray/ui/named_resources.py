"""The devices of Kubernetes 1.30, published as named resources, in the shape of today's slices and claims.

So they have rows, pages, a place on the map and metrics like all others, by the same code.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, cast

from dray.allocation import PoolID
from dray.explain.classic import allocated_instances, as_device

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceRequestAllocationResult, ResourceClaim, ResourceSlice
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceSlice as ClassicSlice
    from dray.explain.model.cluster import Cluster


def pool_of(document: ClassicSlice) -> PoolID:
    """Such slices name no pool; what a driver has on a node is one."""
    return PoolID(document.get("driverName") or "", document.get("nodeName") or "")


def slices_of(pool: PoolID, documents: Iterable[ClassicSlice]) -> Iterator[ResourceSlice]:
    found = [one for one in documents if pool_of(one) == pool]
    for one in found:
        instances = (one.get("namedResources") or {}).get("instances") or ()
        yield {
            "metadata": one["metadata"],
            "spec": {
                "driver": pool.driver,
                "nodeName": pool.pool,
                "pool": {"name": pool.pool, "generation": 1, "resourceSliceCount": len(found)},
                "devices": [as_device(instance) for instance in instances],
            },
        }


def with_instances(cluster: Cluster, classic: ClassicClaim, claim: ResourceClaim) -> ResourceClaim:
    """The claim in today's shape, with the instances that the scheduler has allocated to it as devices."""
    request = classic["spec"].get("resourceClassName") or ""
    results: list[DeviceRequestAllocationResult] = [
        {"request": request, "driver": one.driver, "pool": one.node, "device": one.name}
        for one in allocated_instances(cluster, classic)
    ]
    if not results:
        return claim
    status = claim.get("status") or {}
    allocation = {**(status.get("allocation") or {}), "devices": {"results": results}}
    return cast("ResourceClaim", {**claim, "status": {**status, "allocation": allocation}})
