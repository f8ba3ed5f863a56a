"""Devices that stand for cpu or memory of their node: what a claim takes of these counts like a request of the pod.

Devices say so in ``nodeAllocatableResources``, in 1.36 in ``nodeAllocatableResourceMappings``. The scheduler writes what a pod's claims take into the pod's
status (``nodeAllocatableResourceClaimStatuses``), and the cache counts it on the node. Follows upstream rule for rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias, cast

from dray.allocation import AllocationError
from dray.api import claims
from dray.api.compute import ComputeResources, compute_resources, plus, pod_requests
from dray.api.quantity import Quantity
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES, PodInfo, node_allocatable_amounts
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import (
        NodeAllocatableOverheadResources,
        NodeAllocatableResourceClaimStatus,
        PodSpec,
    )
    from dray.api.types.resource import (
        AllocationResult,
        DeviceRequestAllocationResult,
        NodeAllocatableResource,
        NodeAllocatableResourceMapping,
        ResourceClaim,
    )

#: which resources a device of a pool stands for; None if it is an ordinary one
Mappings: TypeAlias = (
    "Callable[[str, str], Mapping[str, NodeAllocatableResource | NodeAllocatableResourceMapping] | None]"
)

_PLUGIN = "DynamicResources"
_BILLION = 10**9


def claim_statuses(
    pod: PodInfo, given: Iterable[tuple[ResourceClaim, AllocationResult]], mappings: Mappings
) -> list[NodeAllocatableResourceClaimStatus]:
    """What claims with new allocations take of a node's resources, as the pod's status will say.

    ``AllocationError`` if a device leaves open how much that is.
    """
    found: list[NodeAllocatableResourceClaimStatus] = []
    for claim, allocation in given:
        taken = _Taken()
        for result in (allocation.get("devices") or {}).get("results") or ():
            for resource, mapping in (mappings(result["pool"], result["device"]) or {}).items():
                taken.add(resource, mapping, result, f"{pod.namespace}/{_name(claim)}")
        if taken:
            name = _name(claim)
            found.append(taken.status(name, _containers_using(pod, name)))
    return sorted(found, key=lambda status: status["resourceClaimName"])


def fits_node(
    pod: PodInfo, node: NodeInfo, statuses: Sequence[NodeAllocatableResourceClaimStatus]
) -> Rejection | None:
    """Whether the node has enough for the pod and what its claims take."""
    for status in statuses:
        if not status["containers"]:
            who = status["resourceClaimName"]
            return _unresolvable(
                f"claim {who}: node-allocatable resource claim not referenced by any container within the pod"
            )
    spec = pod.document["spec"]
    extra = [amounts for status in statuses for amounts in node_allocatable_amounts(status)]
    total = _total(spec, extra)
    if (spec.get("resources") or {}).get("requests"):
        containers_only = spec.copy()
        del containers_only["resources"]
        parts = _total(containers_only, extra)
        for name, part, whole in _compare(parts, total):
            if part > whole:
                return _unresolvable(
                    f"pod level request for {name} is insufficient to cover the aggregated container and "
                    "node-allocatable DRA requests"
                )
    return _fits(total, node)


def used_by_another_pod(pod: PodInfo, node: NodeInfo, claim: ResourceClaim) -> Rejection | None:
    """A claim that takes resources of a node cannot be shared: it belongs to its first user."""
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


class _Taken:
    """What the devices of one claim take of their node, by resource; as 1.36 says it, or as 1.37 does."""

    def __init__(self) -> None:
        self._sums: dict[str, Quantity] = {}
        self._mapped: dict[str, Quantity] = {}
        self._per_pod: dict[str, Quantity] = {}
        self._per_container: dict[str, Quantity] = {}

    def __bool__(self) -> bool:
        return bool(self._sums or self._mapped or self._per_pod or self._per_container)

    def add(
        self,
        name: str,
        wanted: NodeAllocatableResource | NodeAllocatableResourceMapping,
        result: DeviceRequestAllocationResult,
        claim: str,
    ) -> None:
        if "mapping" not in wanted and "overhead" not in wanted:
            legacy = cast("NodeAllocatableResourceMapping", wanted)
            factor = legacy.get("allocationMultiplier")
            key = legacy.get("capacityKey")
            _count(self._sums, name, _amount(name, key, factor, None if key else factor, result, claim))
            return
        resource = cast("NodeAllocatableResource", wanted)
        if (mapping := resource.get("mapping")) is not None:
            amount = _amount(
                name, mapping.get("capacityKey"), mapping.get("capacityMultiplier"), mapping.get("deviceMultiplier"),
                result, claim,
            )  # fmt: skip
            _count(self._mapped, name, amount)
        overhead = resource.get("overhead") or {}
        for total, given in (
            (self._per_pod, overhead.get("perPod")),
            (self._per_container, overhead.get("perContainer")),
        ):
            if given is not None:
                _count(total, name, Quantity.from_json(given))

    def status(self, claim: str, containers: list[str]) -> NodeAllocatableResourceClaimStatus:
        found: NodeAllocatableResourceClaimStatus = {"resourceClaimName": claim, "containers": containers}
        if self._sums:
            found["resources"] = {name: str(amount) for name, amount in sorted(self._sums.items())}
        if self._mapped:
            found["mapping"] = [{"name": n, "quantity": str(q)} for n, q in sorted(self._mapped.items())]
        names = sorted(self._per_pod.keys() | self._per_container.keys())
        overhead: list[NodeAllocatableOverheadResources] = []
        for name in names:
            one: NodeAllocatableOverheadResources = {"name": name}
            if name in self._per_pod:
                one["perPod"] = str(self._per_pod[name])
            if name in self._per_container:
                one["perContainer"] = str(self._per_container[name])
            overhead.append(one)
        if overhead:
            found["overhead"] = overhead
        return found


def _count(totals: dict[str, Quantity], name: str, amount: Quantity | None) -> None:
    if amount is not None:
        totals[name] = totals[name] + amount if name in totals else amount


def _amount(
    name: str,
    key: str | None,
    factor: str | None,
    per_device: str | None,
    result: DeviceRequestAllocationResult,
    claim: str,
) -> Quantity | None:
    """What one device takes: so much of each unit of a capacity that is consumed, or so much by itself."""
    if not key:
        return Quantity() if per_device is None else Quantity.from_json(per_device)
    consumed = result.get("consumedCapacity")
    if not consumed:
        raise AllocationError(
            f"claim {claim}, device {result['device']}: ConsumedCapacity is nil, "
            f"but Capacity key '{key}' is set in NodeAllocatableResourceMappings for resource {name}"
        )
    if key not in consumed:
        return None
    base = Quantity.from_json(consumed[key])
    return base if factor is None else _times(base, Quantity.from_json(factor))


def _times(base: Quantity, factor: Quantity) -> Quantity:
    return Quantity(base.nano * factor.nano // _BILLION, -9, format=base.format)


def _name(claim: ResourceClaim) -> str:
    # A claim that is still to be created has no name yet.
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


def _statuses(pod: PodInfo) -> Sequence[NodeAllocatableResourceClaimStatus]:
    return (pod.document.get("status") or {}).get(NODE_ALLOCATABLE_CLAIM_STATUSES) or ()


def _total(spec: PodSpec, extra: Iterable[Mapping[str, str]]) -> ComputeResources:
    """The requests of the pod with what its claims take. A pod level request for a resource already covers both."""
    named: Mapping[str, str] = (spec.get("resources") or {}).get("requests") or {}
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
