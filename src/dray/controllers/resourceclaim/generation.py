"""What the claim controller does differently for each generation of claims.

There are three: modern claims (``modern``), classic claims and the early classic claims of 1.26 and 1.27 (both in
``dray.controllers.classic``). Each has a ``Generation``; ``ResourceClaimController`` and ``ClaimCreator`` do the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from dray.client.informers import Informer
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES, Resource
from dray.controllers.controller import ControllerContext
from dray.controllers.resourceclaim.reservation import owning_pod

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimTemplate
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate

#: The versions that have modern claims, newest first.
MODERN_VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
#: The version that has classic claims.
CLASSIC_VERSIONS: Final = ("v1alpha2",)
FIELD_MANAGER: Final = "ResourceClaimController"

Claim = TypeVar("Claim", "ResourceClaim", "ClassicClaim")
Template = TypeVar("Template", "ResourceClaimTemplate", "ClassicTemplate")


def _named_claims(pod: Pod) -> list[str]:
    """Index: the claims that a pod names itself. Those made for the pod are found through their owner."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return []
    names = [(entry.get("source") or entry).get("resourceClaimName") for entry in entries]
    return [f"{pod['metadata']['namespace']}/{name}" for name in names if name is not None]


def _groups_of_claims(pod: Pod) -> list[str]:
    """Index: the group of a pod that has claims."""
    spec = pod["spec"]
    if "schedulingGroup" not in spec or not spec.get("resourceClaims"):
        return []
    return [f"{pod['metadata']['namespace']}/{spec['schedulingGroup'].get('podGroupName', '')}"]


def _owner_uid(claim: ResourceClaim | ClassicClaim) -> list[str]:
    """Index: the pod for which a claim was made."""
    owner = owning_pod(claim)
    return [owner["uid"]] if owner is not None else []


@dataclass(frozen=True, slots=True)
class ClaimInformers(Generic[Claim, Template]):
    """The informers of one generation; ``other_templates`` are those of the generation that is served beside it."""

    pods: Informer[Pod]
    claims: Informer[Claim]
    templates: Informer[Template]
    other_templates: Informer[Any] | None = None

    @classmethod
    def of(
        cls,
        context: ControllerContext,
        claims: Resource[Claim],
        templates: Resource[Template],
        *,
        versions: Sequence[str],
        other_versions: Sequence[str],
    ) -> ClaimInformers[Claim, Template]:
        get = context.informers.get
        resource, others = context.resource(claims, *versions), None
        if context.discovered is not None:
            others = context.discovered.first_served(RESOURCE_CLAIM_TEMPLATES, other_versions)
        return cls(
            get(PODS, indexers={"named claim": _named_claims, "pod group of claims": _groups_of_claims}),
            get(resource, indexers={"owning pod": _owner_uid}),
            get(context.resource(templates, *versions)),
            get(others) if others is not None else None,
        )


class Generation(Protocol[Claim, Template]):
    """One generation of claims. What is implemented here holds for most of them."""

    informers: ClaimInformers[Claim, Template]
    #: Protects claims that are allocated.
    finalizer: str
    #: Owns the statuses of claims in pods.
    field_manager: str = FIELD_MANAGER
    #: Claims from templates are named POD-ENTRY, and the status of the pod does not say so.
    names_follow_pods: bool = False
    #: A pod that has finished is still a consumer, and the claims that were made for it stay.
    keeps_claims_of_finished_pods: bool = False

    @property
    def is_alone(self) -> bool:
        """Whether all claims are of this generation."""
        return self.informers.other_templates is None

    @property
    def is_secondary(self) -> bool:
        """Whether another generation has the preferred version of claims.

        The garbage collector sees claims in their preferred version only, so the controller deletes the claims of
        deleted pods itself; and a pod that was left to the other generation may turn out to be this one's.
        """
        return False

    def concerns(self, pod: Pod) -> bool:
        """Whether a pod with claims may have claims of this generation."""
        return True

    def is_of_this_generation(self, claim: Claim) -> bool: ...

    # -- reservations

    def released(self, claim: Claim, remaining: Sequence[ResourceClaimConsumerReference]) -> Claim | None:
        """The claim when only ``remaining`` consumers are left; None if it need not change."""

    def should_reserve(self, pod: Pod, claim: Claim) -> bool:
        """Whether the claim is yet to be reserved for a pod that did not get its node from the scheduler."""
        return False

    def needs_pod_work(self, pod: Pod, claim: Claim) -> bool:
        """Whether the pod needs something done about a claim that exists."""
        return False

    def awaits_driver(self, pod: Pod, claim: Claim) -> bool:
        """Whether the driver's controller has to allocate the claim for the pod's node."""
        return False

    async def select_node(self, pod: Pod) -> bool:
        """Ask drivers' controllers to allocate for the pod's node; False if somebody else wrote at the same time."""
        return True

    # -- creation

    def new_claim(self, pod: Pod, entry: str, template: Template) -> Claim:
        """The claim to create for an entry of the pod."""

    def shared_claim(self, pod: Pod, entry: PodResourceClaim) -> str | None:
        """The claim of the pod's group that an entry stands for; empty while it is not made, None: the pod's own."""
        return None

    def requests_admin_access(self, claim: Claim) -> bool:
        return False

    def name_conflict(self, pod: Pod, entry: PodResourceClaim) -> str:
        """Why another claim has the name that the pod's claim must have, or an empty string."""
        return ""

    def is_unannotated_claim_for(self, claim: Claim, entry: str) -> bool:
        """Whether a claim of the pod was made for the entry by a release that did not annotate claims."""
        return False

    def is_of_another_generation(self, pod: Pod, entry: PodResourceClaim) -> bool:
        """Whether another controller creates the claim of an entry that has a template."""
        return False

    @property
    def templates_to_ask_for(self) -> Iterable[Informer[Any]]:
        """Other generations' templates: one that is missing here may have been created there a moment ago."""
        return ()
