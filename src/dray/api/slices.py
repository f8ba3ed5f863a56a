"""Reading resource slices: the pool that a slice belongs to, and its place in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api.identity import PoolID

if TYPE_CHECKING:
    from dray.api.types.resource import ResourceSlice


def pool_id(resource_slice: ResourceSlice) -> PoolID:
    spec = resource_slice["spec"]
    return PoolID(spec["driver"], spec["pool"]["name"])


def generation(resource_slice: ResourceSlice) -> int:
    """Slices of an older generation than the newest of their pool are obsolete."""
    return resource_slice["spec"]["pool"].get("generation") or 0


def node_name(resource_slice: ResourceSlice) -> str:
    """The node whose devices the slice lists; empty if they are not of one node."""
    return resource_slice["spec"].get("nodeName") or ""
