"""``ClassicDriver``: the class that the author of a classic driver's controller subclasses."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        ResourceClaim,
        ResourceClaimParametersReference,
        ResourceClass,
        ResourceClassParametersReference,
    )

    ParametersReference = ResourceClassParametersReference | ResourceClaimParametersReference

#: Reads the object that a parametersRef names, from the given namespace unless it names one; None without a reference.
Lookup = Callable[["ParametersReference | None", str], Awaitable[Mapping[str, Any] | None]]


class CannotAllocate(Exception):
    """The claims cannot be had on this node, or not now. Told in an event; tried again later."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim that is to be allocated, with everything that says how."""

    entry: str  # its name in the pod; empty for immediate allocation
    claim: ResourceClaim
    resource_class: ResourceClass
    claim_parameters: Any = None
    class_parameters: Any = None


class ClassicDriver:
    """Subclass it and name it. Calls come one at a time.

    ``others`` are the claims that hold something of this driver at the moment, so a driver needs no state of its own:
    a driver that decides from them alone allocates nothing twice, also after it was killed at any point.
    """

    #: A DNS name: the ``driverName`` of classes and claims.
    name: str = ""

    async def class_parameters(self, resource_class: ResourceClass, lookup: Lookup) -> Any:
        """What the class's parametersRef stands for. Raise ``CannotAllocate`` if it makes no sense."""
        return await lookup(resource_class.get("parametersRef"), "")

    async def claim_parameters(
        self, claim: ResourceClaim, resource_class: ResourceClass, lookup: Lookup
    ) -> Any:
        return await lookup(claim["spec"].get("parametersRef"), claim["metadata"]["namespace"])

    async def allocate(
        self, pending: Sequence[Pending], *, node: str, others: Sequence[ResourceClaim]
    ) -> Sequence[AllocationResult]:
        """An AllocationResult for each claim. ``node`` is empty for immediate allocation: choose one yourself."""
        raise CannotAllocate("this driver allocates nothing")

    async def deallocate(self, claim: ResourceClaim) -> None:
        """Free what the claim holds; also called when an allocation was only begun. Must be idempotent."""

    async def unsuitable_nodes(
        self, pod: Pod, pending: Sequence[Pending], nodes: Sequence[str], others: Sequence[ResourceClaim]
    ) -> Sequence[Collection[str]]:
        """For each claim, those of ``nodes`` where the claims cannot be allocated together."""
        return [() for _ in pending]


def available_on(node: str, *, driver: str = "", data: str = "", shareable: bool = False) -> AllocationResult:
    """The AllocationResult for something that lives on one node; ``data`` is handed to the node's plugin."""
    result: AllocationResult = {
        "availableOnNodes": {
            "nodeSelectorTerms": [
                {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
            ]
        }
    }
    if data:
        result["resourceHandles"] = [{"driverName": driver, "data": data} if driver else {"data": data}]
    if shareable:
        result["shareable"] = True
    return result
