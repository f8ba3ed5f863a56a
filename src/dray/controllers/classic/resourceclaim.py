"""Classic claims, which drivers' controllers allocate, or the scheduler under 1.30's structured parameters.

The controller asks a driver's controller to deallocate a claim (``deallocationRequested``) and, for a pod that got its
node without the scheduler, to allocate (by a PodSchedulingContext with that node selected). It clears an allocation of
the scheduler's itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from dray.api import claims, objects
from dray.api.errors import AlreadyExists
from dray.api.pods import controller_reference
from dray.client.resources import (
    CLASSIC_RESOURCE_CLAIM_TEMPLATES,
    CLASSIC_RESOURCE_CLAIMS,
    POD_SCHEDULING_CONTEXTS,
)
from dray.controllers.controller import ControllerContext, NotServed
from dray.controllers.resourceclaim.controller import ResourceClaimController
from dray.controllers.resourceclaim.generation import (
    CLASSIC_VERSIONS,
    FIELD_MANAGER,
    MODERN_VERSIONS,
    ClaimInformers,
    Generation,
)
from dray.controllers.resourceclaim.reservation import owning_pod
from dray.controllers.resourceclaim.template import claim_metadata

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        PodSchedulingContext,
        PodSchedulingContextSpec,
        ResourceClaimConsumerReference,
        ResourceClaimStatus,
    )
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate

#: On claims that the scheduler allocated; drivers' controllers have finalizers of their own.
FINALIZER: Final = "dra.k8s.io/delete-protection"


# -- decisions ------------------------------------------------------------------------------------------------------


def _allocation(claim: ClassicClaim) -> AllocationResult | None:
    return (claim.get("status") or {}).get("allocation")


def allocated_by_scheduler(claim: ClassicClaim) -> bool:
    return objects.has_finalizer(claim, FINALIZER)


def waits_for_first_consumer(claim: ClassicClaim) -> bool:
    return claim["spec"].get("allocationMode") != "Immediate"


def released_status(
    claim: ClassicClaim, remaining: Sequence[ResourceClaimConsumerReference]
) -> ResourceClaimStatus | None:
    """The status of a claim when only ``remaining`` consumers are left; None if it need not change.

    When the last consumer of a delayed claim is gone, the claim is deallocated; an immediate claim stays allocated
    until it is deleted.
    """
    status = claim.get("status") or {}
    deleted = objects.is_terminating(claim)
    wanted: ResourceClaimStatus = {**status, "reservedFor": remaining}
    if len(remaining) < len(status.get("reservedFor") or ()):
        if remaining:
            return wanted
        if allocated_by_scheduler(claim):
            if waits_for_first_consumer(claim) or deleted:
                wanted.pop("allocation", None)
        elif waits_for_first_consumer(claim):
            wanted["deallocationRequested"] = True
        return wanted
    if allocated_by_scheduler(claim) and deleted and not remaining and status.get("allocation"):
        wanted.pop("allocation", None)
        return wanted
    return None


def can_be_reserved(claim: ClassicClaim) -> bool:
    status = claim.get("status") or {}
    if status.get("deallocationRequested"):
        return False
    return bool((status.get("allocation") or {}).get("shareable")) or not status.get("reservedFor")


def should_reserve(pod: Pod, claim: ClassicClaim) -> bool:
    """Whether the claim is yet to be reserved for a pod that did not get its node from the scheduler."""
    return (
        bool(pod["spec"].get("nodeName"))
        and _allocation(claim) is not None
        and not claims.is_reserved_for(claim, pod["metadata"]["uid"])
        and can_be_reserved(claim)
    )


def needs_pod_scheduling_context(pod: Pod, claim: ClassicClaim) -> bool:
    """Whether the driver's controller has to allocate the claim for the pod's node."""
    return (
        bool(pod["spec"].get("nodeName")) and _allocation(claim) is None and waits_for_first_consumer(claim)
    )


def pod_scheduling_context(pod: Pod) -> PodSchedulingContext:
    """A PodSchedulingContext with the pod's node selected; as nothing is left to choose, it names no potential nodes."""
    metadata = pod["metadata"]
    owner = controller_reference(metadata["name"], metadata["uid"])
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
        },
        "spec": {"selectedNode": pod["spec"]["nodeName"]},
    }


# -- the generation -------------------------------------------------------------------------------------------------


class ClassicGeneration(Generation["ClassicClaim", "ClassicTemplate"]):
    finalizer = FINALIZER

    def __init__(
        self,
        context: ControllerContext,
        versions: Sequence[str] = CLASSIC_VERSIONS,
        *,
        selects_nodes: bool = True,
    ) -> None:
        """With ``selects_nodes`` the controller writes PodSchedulingContexts."""
        get = context.informers.get
        self._client = context.client
        self._scheduling_contexts = (
            get(context.resource(POD_SCHEDULING_CONTEXTS, *versions)) if selects_nodes else None
        )
        self.informers = ClaimInformers.of(
            context,
            CLASSIC_RESOURCE_CLAIMS,
            CLASSIC_RESOURCE_CLAIM_TEMPLATES,
            versions=versions,
            other_versions=MODERN_VERSIONS,
        )
        # Each generation's controller owns its own entries in the status of a pod.
        self.field_manager = FIELD_MANAGER if self.is_alone else f"Classic{FIELD_MANAGER}"

    @property
    def is_secondary(self) -> bool:
        return not self.is_alone

    def concerns(self, pod: Pod) -> bool:
        """Most pods have no classic claims; this must cost next to nothing for them."""
        if "resourceClaims" not in pod["spec"]:
            return False
        if self.is_alone:
            return True
        known, templates = self.informers.claims, self.informers.templates
        if not templates.items() and not known.items():
            return False
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            template = claims.claim_and_template_names(entry)[1]
            if template is not None and templates.get(namespace, template) is not None:
                return True
        return any(
            reference.claim and known.get(namespace, reference.claim) is not None
            for reference in claims.references(pod)
        )

    def is_of_this_generation(self, claim: ClassicClaim) -> bool:
        return "resourceClassName" in claim["spec"]

    # -- reservations

    def released(
        self, claim: ClassicClaim, remaining: Sequence[ResourceClaimConsumerReference]
    ) -> ClassicClaim | None:
        status = released_status(claim, remaining)
        return None if status is None else {**claim, "status": status}

    def should_reserve(self, pod: Pod, claim: ClassicClaim) -> bool:
        return should_reserve(pod, claim)

    def needs_pod_work(self, pod: Pod, claim: ClassicClaim) -> bool:
        return should_reserve(pod, claim) or (
            needs_pod_scheduling_context(pod, claim) and self._selected_node(pod) != pod["spec"]["nodeName"]
        )

    def awaits_driver(self, pod: Pod, claim: ClassicClaim) -> bool:
        return needs_pod_scheduling_context(pod, claim)

    async def select_node(self, pod: Pod) -> bool:
        namespace, node = pod["metadata"]["namespace"], pod["spec"]["nodeName"]
        scheduling_context = self._scheduling_context(pod)
        if scheduling_context is None:
            try:
                await self._client.create(POD_SCHEDULING_CONTEXTS, namespace, pod_scheduling_context(pod))
            except AlreadyExists:
                return False
        elif self._selected_node(pod) != node:
            spec: PodSchedulingContextSpec = {**(scheduling_context.get("spec") or {}), "selectedNode": node}
            await self._client.update(
                POD_SCHEDULING_CONTEXTS, namespace, {**scheduling_context, "spec": spec}
            )
        return True

    def _scheduling_context(self, pod: Pod) -> PodSchedulingContext | None:
        metadata, known = pod["metadata"], self._scheduling_contexts
        return None if known is None else known.get(metadata["namespace"], metadata["name"])

    def _selected_node(self, pod: Pod) -> str | None:
        scheduling_context = self._scheduling_context(pod)
        return (
            None if scheduling_context is None else (scheduling_context.get("spec") or {}).get("selectedNode")
        )

    # -- creation

    def new_claim(self, pod: Pod, entry: str, template: ClassicTemplate) -> ClassicClaim:
        spec = template["spec"]
        metadata = claim_metadata(pod, entry, spec.get("metadata") or {}, block_owner_deletion=True)
        return {"metadata": metadata, "spec": spec["spec"]}

    def is_unannotated_claim_for(self, claim: ClassicClaim, entry: str) -> bool:
        metadata, owner = claim["metadata"], owning_pod(claim)
        annotated = claims.POD_CLAIM_ANNOTATION in (metadata.get("annotations") or {})
        return not annotated and owner is not None and metadata["name"] == f"{owner['name']}-{entry}"

    def is_of_another_generation(self, pod: Pod, entry: PodResourceClaim) -> bool:
        others = self.informers.other_templates
        if others is None:
            return False
        namespace, template = pod["metadata"]["namespace"], claims.claim_and_template_names(entry)[1] or ""
        if self.informers.templates.get(namespace, template) is not None:
            return others.get(namespace, template) is not None
        known = next((r.claim for r in claims.references(pod) if r.entry == entry["name"]), None)
        return known is None or self.informers.claims.get(namespace, known) is None


class ClassicResourceClaimController(ResourceClaimController["ClassicClaim", "ClassicTemplate"]):
    name = "classic-resourceclaim-controller"

    def __init__(self, context: ControllerContext) -> None:
        if context.quirks.names_claims_after_pod_and_entry:
            raise NotServed("claims with such names")
        super().__init__(context, ClassicGeneration(context))
