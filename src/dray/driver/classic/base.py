"""``ClassicDriver``: what somebody who writes a driver's controller fills in."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Document = Mapping[str, Any]
#: Reads the object that a parametersRef names, from the given namespace unless it names one; None without a reference.
Lookup = Callable[[Document | None, str], Awaitable[Document | None]]


class CannotAllocate(Exception):
    """The claims cannot be had on this node, or not now. Told in an event; tried again later."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A claim that is to be allocated, with everything that says how."""

    entry: str  # its name in the pod; empty for immediate allocation
    claim: Document
    resource_class: Document
    claim_parameters: Any = None
    class_parameters: Any = None


class ClassicDriver:
    """Subclass it and name it. Calls come one at a time.

    ``others`` are the claims that hold something of this driver at the moment, so a driver needs no state of its own:
    whoever decides from them alone gives nothing twice, also after being killed anywhere.
    """

    #: A DNS name: the ``driverName`` of classes and claims.
    name: str = ""

    async def class_parameters(self, resource_class: Document, lookup: Lookup) -> Any:
        """What the class's parametersRef stands for. Raise ``CannotAllocate`` if it makes no sense."""
        return await lookup(resource_class.get("parametersRef"), "")

    async def claim_parameters(self, claim: Document, resource_class: Document, lookup: Lookup) -> Any:
        return await lookup(claim["spec"].get("parametersRef"), claim["metadata"]["namespace"])

    async def allocate(
        self, pending: Sequence[Pending], *, node: str, others: Sequence[Document]
    ) -> Sequence[Document]:
        """An AllocationResult for each claim. ``node`` is empty for immediate allocation: choose one yourself."""
        raise CannotAllocate("this driver allocates nothing")

    async def deallocate(self, claim: Document) -> None:
        """Free what the claim holds; also called when an allocation was only begun. Must be idempotent."""

    async def unsuitable_nodes(
        self, pod: Document, pending: Sequence[Pending], nodes: Sequence[str], others: Sequence[Document]
    ) -> Sequence[Collection[str]]:
        """For each claim, those of ``nodes`` where the claims cannot be allocated together."""
        return [() for _ in pending]


def available_on(node: str, *, driver: str = "", data: str = "", shareable: bool = False) -> dict[str, Any]:
    """The AllocationResult for something that lives on one node; ``data`` is handed to the node's plugin."""
    result: dict[str, Any] = {
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
