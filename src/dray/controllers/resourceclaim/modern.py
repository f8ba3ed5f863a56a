"""Modern claims, which the scheduler allocates: the resource claim controller of 1.31 and later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from dray.api import claims
from dray.api.groups.resource.classic import bridge
from dray.client.informers import Informer
from dray.client.resources import POD_GROUPS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS
from dray.controllers.controller import ControllerContext
from dray.controllers.resourceclaim.controller import ResourceClaimController
from dray.controllers.resourceclaim.generation import (
    CLASSIC_VERSIONS,
    MODERN_VERSIONS,
    ClaimInformers,
    Generation,
)
from dray.controllers.resourceclaim.groups import GroupClaims, group_claim
from dray.controllers.resourceclaim.metrics import count_claims, requests_admin_access
from dray.controllers.resourceclaim.reservation import released_status, should_reserve
from dray.controllers.resourceclaim.template import claim_from_template

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
    from dray.api.types.scheduling_v1beta1 import PodGroup


class ModernGeneration(Generation["ResourceClaim", "ResourceClaimTemplate"]):
    finalizer = claims.FINALIZER

    def __init__(
        self,
        context: ControllerContext,
        informers: ClaimInformers[ResourceClaim, ResourceClaimTemplate],
        *,
        creates_with_finalizer: bool = False,
    ) -> None:
        """With ``creates_with_finalizer`` new claims have the scheduler's finalizer, which spares it a write."""
        self.informers = informers
        self._quirks = context.quirks
        self._creates_with_finalizer = creates_with_finalizer
        self.groups: GroupClaims | None = None

    def shared_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        return self.groups.shared_claim(pod, entry) if self.groups is not None else None

    def new_group_claim(self, group: PodGroup, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
        """The claim to create for an entry of a group."""
        stand_in: Pod = {"metadata": group["metadata"], "spec": {"containers": []}}
        return group_claim(group, entry, template, self.new_claim(stand_in, entry, template))

    def is_of_this_generation(self, claim: ResourceClaim) -> bool:
        return self.is_alone or not bridge.is_classic(claim)

    def released(
        self, claim: ResourceClaim, remaining: Sequence[ResourceClaimConsumerReference]
    ) -> ResourceClaim | None:
        status = released_status(claim, remaining)
        return None if status is None else {**claim, "status": status}

    def should_reserve(self, pod: Pod, claim: ResourceClaim) -> bool:
        return should_reserve(pod, claim) and self.is_of_this_generation(claim)

    def needs_pod_work(self, pod: Pod, claim: ResourceClaim) -> bool:
        return should_reserve(pod, claim)

    def new_claim(self, pod: Pod, entry: str, template: ResourceClaimTemplate) -> ResourceClaim:
        claim = claim_from_template(
            pod,
            entry,
            template,
            admin_access=self._quirks.allows_admin_access,
            prioritized_list=self._quirks.allows_prioritized_list,
        )
        if self._creates_with_finalizer:
            claim["metadata"]["finalizers"] = [claims.FINALIZER]
        return claim

    def requests_admin_access(self, claim: ResourceClaim) -> bool:
        return requests_admin_access(claim)

    def is_of_another_generation(self, pod: Pod, entry: PodResourceClaim) -> bool:
        others = self.informers.other_templates
        if others is None or not others.items():
            return False
        namespace, template = pod["metadata"]["namespace"], claims.claim_and_template_names(entry)[1] or ""
        return (
            self.informers.templates.get(namespace, template) is None
            and others.get(namespace, template) is not None
        )

    @property
    def templates_to_ask_for(self) -> Iterable[Informer[Any]]:
        return () if self.informers.other_templates is None else (self.informers.other_templates,)


class ModernResourceClaimController(ResourceClaimController["ResourceClaim", "ResourceClaimTemplate"]):
    name = "resourceclaim-controller"

    def __init__(self, context: ControllerContext, *, creates_with_finalizer: bool = False) -> None:
        informers = ClaimInformers.of(
            context,
            RESOURCE_CLAIMS,
            RESOURCE_CLAIM_TEMPLATES,
            versions=MODERN_VERSIONS,
            other_versions=CLASSIC_VERSIONS,
        )
        generation = ModernGeneration(context, informers, creates_with_finalizer=creates_with_finalizer)
        served = (
            context.discovered is None
            or context.discovered.first_served(POD_GROUPS, ("v1beta1",)) is not None
        )
        if context.quirks.creates_claims_of_groups and served:
            generation.groups = GroupClaims(context, generation)
        super().__init__(context, generation, groups=generation.groups)
        context.metrics.registry.gauge(
            "resourceclaim_controller_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be "
            "'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty "
            "(manually created by a user).",
            "allocated", "admin_access", "source",
            read=lambda: count_claims(informers.claims.items()),
        )  # fmt: skip
