"""The scheduler's cache of the classic generation: classes, claims, parameters, slices and scheduling contexts.

Like the ``ClaimCache`` it counts allocations that are decided but not written yet.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

from dray.placement.classic.structured_parameters import (
    NamedResources,
    NodeDriver,
    StructuredClaim,
    allocated_instances,
    default_parameters,
)

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        PodSchedulingContext,
        ResourceClaim,
        ResourceClaimParameters,
        ResourceClaimParametersReference,
        ResourceClass,
        ResourceClassParameters,
        ResourceClassParametersReference,
        ResourceSlice,
    )

Key = tuple[str, str]  # namespace and name

GROUP = "resource.k8s.io"
FINALIZER = "dra.k8s.io/delete-protection"  # the scheduler allocated the claim, not a driver's controller


class ParametersNotFound(Exception):
    """The parameters that a claim or class refers to are not there yet."""


def allocation_of(claim: ResourceClaim) -> AllocationResult | None:
    return (claim.get("status") or {}).get("allocation")


class ClassicCache:
    """Filled by informers, and by the scheduler itself with what it has just decided or written."""

    def __init__(self) -> None:
        self.classes: dict[str, ResourceClass] = {}
        self.contexts: dict[Key, PodSchedulingContext] = {}
        self.claim_parameters: dict[Key, ResourceClaimParameters] = {}
        self.class_parameters: dict[Key, ResourceClassParameters] = {}
        self.taken: dict[NodeDriver, Counter[str]] = {}
        self._claims: dict[Key, ResourceClaim] = {}
        self._instances: dict[str, list[tuple[NodeDriver, str]]] = {}  # claim uid → instances
        self._pending_allocations: set[str] = set()
        self._slices: dict[str, NamedResources] = {}
        self._slices_by_node: dict[NodeDriver, list[NamedResources]] | None = None

    # -- claims -----------------------------------------------------------------------------------------------------

    @property
    def has_claims(self) -> bool:
        return bool(self._claims)

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self._claims.get((namespace, name))

    def set_claim(self, claim: ResourceClaim) -> None:
        """A claim as the API server has it; a version older than the cached one is ignored."""
        metadata = claim["metadata"]
        known = self._claims.get((metadata["namespace"], metadata["name"]))
        if known is not None:
            if known["metadata"]["uid"] != metadata["uid"]:
                self.remove_claim(known)
            elif int(known["metadata"]["resourceVersion"]) > int(metadata["resourceVersion"]):
                return
        self._claims[metadata["namespace"], metadata["name"]] = claim
        allocation = allocation_of(claim)
        if allocation is not None:
            self._pending_allocations.discard(metadata["uid"])
        if metadata["uid"] not in self._pending_allocations:
            self._count(metadata["uid"], allocation)

    def remove_claim(self, claim: ResourceClaim) -> None:
        metadata = claim["metadata"]
        key = (metadata["namespace"], metadata["name"])
        known = self._claims.get(key)
        if known is not None and known["metadata"]["uid"] == metadata["uid"]:
            del self._claims[key]
        self._pending_allocations.discard(metadata["uid"])
        self._count(metadata["uid"], None)

    def has_pending_allocation(self, uid: str) -> bool:
        return uid in self._pending_allocations

    def assume(self, claim: ResourceClaim, allocation: AllocationResult) -> None:
        uid = claim["metadata"]["uid"]
        self._pending_allocations.add(uid)
        self._count(uid, allocation)

    def forget(self, claim: ResourceClaim) -> None:
        """The write did not happen."""
        uid = claim["metadata"]["uid"]
        if uid in self._pending_allocations:
            self._pending_allocations.discard(uid)
            self._count(uid, None)

    def _count(self, uid: str, allocation: AllocationResult | None) -> None:
        for node_driver, name in self._instances.pop(uid, ()):
            counts = self.taken[node_driver]
            counts[name] -= 1
            if not counts[name]:
                del counts[name]
        instances = allocated_instances(allocation)
        if instances:
            self._instances[uid] = instances
            for node_driver, name in instances:
                self.taken.setdefault(node_driver, Counter())[name] += 1

    # -- slices -----------------------------------------------------------------------------------------------------

    def set_slice(self, document: ResourceSlice) -> None:
        self._slices[document["metadata"]["name"]] = NamedResources(document)
        self._slices_by_node = None

    def remove_slice(self, name: str) -> None:
        self._slices.pop(name, None)
        self._slices_by_node = None

    @property
    def slices(self) -> Mapping[NodeDriver, list[NamedResources]]:
        if self._slices_by_node is None:
            self._slices_by_node = {}
            for name in sorted(self._slices):
                named_resources = self._slices[name]
                self._slices_by_node.setdefault(named_resources.node_driver, []).append(named_resources)
        return self._slices_by_node

    # -- parameters -------------------------------------------------------------------------------------------------

    def wanted(self, claim: ResourceClaim, resource_class: ResourceClass) -> StructuredClaim:
        """What a claim of a structured class asks for, or ``ParametersNotFound`` with upstream's words."""
        return StructuredClaim(
            resource_class["driverName"],
            self._class_parameters(resource_class),
            self._claim_parameters(claim, resource_class),
        )

    def _class_parameters(self, resource_class: ResourceClass) -> ResourceClassParameters:
        reference = resource_class.get("parametersRef")
        if not reference:
            return {}
        namespace, name = reference.get("namespace") or "", reference["name"]
        if reference.get("apiGroup") == GROUP and reference["kind"] == "ResourceClassParameters":
            found = self.class_parameters.get((namespace, name))
            if found is None:
                raise ParametersNotFound(f"class parameters {_named(namespace, name)} not found")
            return found
        for document in self.class_parameters.values():
            origin = document.get("generatedFrom")
            if origin and _same(origin, reference) and (origin.get("namespace") or "") == namespace:
                return document
        what = f"{reference['kind']}.{reference.get('apiGroup') or ''}"
        raise ParametersNotFound(f"generated class parameters for {what} {name} not found")

    def _claim_parameters(
        self, claim: ResourceClaim, resource_class: ResourceClass
    ) -> ResourceClaimParameters:
        reference = claim["spec"].get("parametersRef")
        if not reference:
            return default_parameters(resource_class["driverName"])
        namespace, name = claim["metadata"]["namespace"], reference["name"]
        if reference.get("apiGroup") == GROUP and reference["kind"] == "ResourceClaimParameters":
            found = self.claim_parameters.get((namespace, name))
            if found is None:
                raise ParametersNotFound(f"claim parameters {_named(namespace, name)} not found")
            return found
        for (where, _), document in self.claim_parameters.items():
            generated_from = document.get("generatedFrom")
            if where == namespace and generated_from and _same(generated_from, reference):
                return document
        what = f"{reference['kind']}.{reference.get('apiGroup') or ''}"
        raise ParametersNotFound(f"generated claim parameters for {what} {_named(namespace, name)} not found")


def _same(
    origin: ResourceClassParametersReference | ResourceClaimParametersReference,
    reference: ResourceClassParametersReference | ResourceClaimParametersReference,
) -> bool:
    return (
        (origin.get("apiGroup") or "") == (reference.get("apiGroup") or "")
        and (origin.get("kind") or "") == (reference.get("kind") or "")
        and (origin.get("name") or "") == (reference.get("name") or "")
    )


def _named(namespace: str, name: str) -> str:
    return f"{namespace}/{name}" if namespace else name
