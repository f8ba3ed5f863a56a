"""Devices that stand for cpu or memory of their node: what a claim takes of these counts like a request of the pod.

Devices say so in ``nodeAllocatableResourceMappings``. What a pod's claims take is written into its status
(``nodeAllocatableResourceClaimStatuses``), and from there it is counted on the node. Follows upstream rule for rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from dray.allocation import AllocationError
from dray.api import claims
from dray.api.compute import ComputeResources, compute_resources, plus, pod_requests
from dray.api.quantity import Quantity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES, PodInfo
from dray.placement.status import Rejection

Document = Mapping[str, Any]
#: which resources a device of a pool stands for; None if it is an ordinary one
Mappings = Callable[[str, str], Mapping[str, Document] | None]

_PLUGIN = "DynamicResources"
_BILLION = 10**9


def claim_statuses(
    pod: PodInfo, given: Iterable[tuple[Document, Document]], mappings: Mappings
) -> list[dict[str, Any]]:
    """What claims with new allocations take of a node's resources, as the pod's status tells it.

    ``AllocationError`` if a device leaves open how much that is.
    """
    found: list[dict[str, Any]] = []
    for claim, allocation in given:
        resources = _resources(pod, claim, allocation, mappings)
        if resources:
            name = _name(claim)
            found.append(
                {
                    "resourceClaimName": name,
                    "containers": _containers_using(pod, name),
                    "resources": {resource: str(amount) for resource, amount in sorted(resources.items())},
                }
            )
    return sorted(found, key=lambda status: str(status["resourceClaimName"]))


def fits_node(pod: PodInfo, node: NodeInfo, held: Sequence[Document]) -> Rejection | None:
    """Whether the node has enough for the pod and what its claims take."""
    for status in held:
        if not status["containers"]:
            who = status["resourceClaimName"]
            return _unresolvable(
                f"claim {who}: node-allocatable resource claim not referenced by any container within the pod"
            )
    spec = pod.document["spec"]
    extra = [status["resources"] for status in held]
    total = _total(spec, extra)
    if (spec.get("resources") or {}).get("requests"):
        parts = _total({k: v for k, v in spec.items() if k != "resources"}, extra)
        for name, part, whole in _compare(parts, total):
            if part > whole:
                return _unresolvable(
                    f"pod level request for {name} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA requests"
                )
    return _fits(total, node)


def used_by_another_pod(pod: PodInfo, node: NodeInfo, claim: Document) -> Rejection | None:
    """A claim for a node's resources is nobody's but its first user's."""
    name = claim["metadata"]["name"]
    users = {
        other.uid
        for other in node.pods.values()
        if other.namespace == pod.namespace and any(s["resourceClaimName"] == name for s in _statuses(other))
    }
    if len(users) > 1:
        return _unresolvable(f"node allocatable resource claim {name} shared by multiple pods")
    if users and pod.uid not in users:
        return _unresolvable(f"node allocatable resource claim {name} is already used by another pod")
    return None


def _resources(
    pod: PodInfo, claim: Document, allocation: Document, mappings: Mappings
) -> dict[str, Quantity]:
    found: dict[str, Quantity] = {}
    for result in (allocation.get("devices") or {}).get("results") or ():
        for name, mapping in (mappings(result["pool"], result["device"]) or {}).items():
            factor = mapping.get("allocationMultiplier")
            amount = Quantity() if factor is None else Quantity.from_json(factor)
            if key := mapping.get("capacityKey"):
                consumed = result.get("consumedCapacity")
                if not consumed:
                    raise AllocationError(
                        f"claim {pod.namespace}/{_name(claim)}, device {result['device']}: ConsumedCapacity is nil, "
                        f"but Capacity key '{key}' is set in NodeAllocatableResourceMappings for resource {name}"
                    )
                if key not in consumed:
                    continue
                base = Quantity.from_json(consumed[key])
                amount = base if factor is None else _times(base, amount)
            found[name] = found[name] + amount if name in found else amount
    return found


def _times(base: Quantity, factor: Quantity) -> Quantity:
    return Quantity(base.nano * factor.nano // _BILLION, -9, format=base.format)


def _name(claim: Document) -> str:
    # One that is still to be made has a name that no claim can have.
    return claim["metadata"].get("name") or "<extended-resources>"


def _containers_using(pod: PodInfo, claim: str) -> list[str]:
    """The containers that refer to the claim."""
    entries = {r.entry for r in claims.references(pod.document) if r.claim == claim}
    spec = pod.document["spec"]
    return [
        container["name"]
        for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
        for reference in (container.get("resources") or {}).get("claims") or ()
        if reference["name"] in entries
    ]


def _statuses(pod: PodInfo) -> Sequence[Document]:
    return (pod.document.get("status") or {}).get(NODE_ALLOCATABLE_CLAIM_STATUSES) or ()


def _total(spec: Document, extra: Iterable[Document]) -> ComputeResources:
    """What is asked for with what claims take; where the pod asks for a resource as a whole, that is all there is."""
    named = (spec.get("resources") or {}).get("requests") or {}
    total = pod_requests(spec)
    for resources in extra:
        total = plus(
            total, compute_resources({name: v for name, v in resources.items() if name not in named})
        )
    return total


def _compare(one: ComputeResources, other: ComputeResources) -> list[tuple[str, int, int]]:
    plain = [
        ("cpu", one.cpu, other.cpu),
        ("ephemeral-storage", one.ephemeral, other.ephemeral),
        ("memory", one.memory, other.memory),
    ]
    return plain + [(name, n, other.scalars.get(name, 0)) for name, n in sorted(one.scalars.items())]


def _fits(total: ComputeResources, node: NodeInfo) -> Rejection | None:
    offered, used = node.allocatable, node.requested
    wanted = [
        ("cpu", total.cpu, offered.cpu, used.cpu),
        ("memory", total.memory, offered.memory, used.memory),
        ("ephemeral-storage", total.ephemeral, offered.ephemeral, used.ephemeral),
    ]
    for name, want in total.scalars.items():
        if name.startswith("hugepages-"):
            wanted.append((name, want, offered.scalars.get(name, 0), used.scalars.get(name, 0)))
    lacking = [(name, want, have) for name, want, have, others in wanted if want and want > have - others]
    if not lacking:
        return None
    reasons = tuple(f"Insufficient {name}" for name, _, _ in lacking)
    return Rejection(_PLUGIN, reasons, resolvable=all(want <= have for _, want, have in lacking))


def _unresolvable(reason: str) -> Rejection:
    return Rejection(_PLUGIN, (reason,), resolvable=False)
