"""The early classic claims of 1.26 and 1.27, which are named after their pods.

Their controller does less than its successors. It creates claims and removes consumers that are deleted; it neither asks
for deallocation, nor helps pods that got their node without the scheduler, nor reacts when a pod finishes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api import claims
from dray.controllers.classic.resourceclaim import ClassicGeneration
from dray.controllers.controller import ControllerContext, NotServed
from dray.controllers.resourceclaim.controller import ResourceClaimController
from dray.controllers.resourceclaim.generation import CLASSIC_VERSIONS

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodResourceClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.api.types.resource_v1alpha2 import ResourceClaimConsumerReference
    from dray.api.types.resource_v1alpha2 import ResourceClaimTemplate as ClassicTemplate


class EarlyGeneration(ClassicGeneration):
    names_follow_pods = True
    keeps_claims_of_finished_pods = True

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context, (*CLASSIC_VERSIONS, "v1alpha1"), selects_nodes=False)

    def released(
        self, claim: ClassicClaim, remaining: Sequence[ResourceClaimConsumerReference]
    ) -> ClassicClaim | None:
        status = claim.get("status") or {}
        if len(remaining) >= len(status.get("reservedFor") or ()):
            return None
        return {**claim, "status": {**status, "reservedFor": remaining}}

    def should_reserve(self, pod: Pod, claim: ClassicClaim) -> bool:
        return False

    def needs_pod_work(self, pod: Pod, claim: ClassicClaim) -> bool:
        return False

    def awaits_driver(self, pod: Pod, claim: ClassicClaim) -> bool:
        return False

    def new_claim(self, pod: Pod, entry: str, template: ClassicTemplate) -> ClassicClaim:
        claim = super().new_claim(pod, entry, template)
        metadata = claim["metadata"]
        del metadata["generateName"]
        metadata["annotations"] = (template["spec"].get("metadata") or {}).get("annotations") or {}
        metadata["name"] = claims.legacy_claim_name(pod, {"name": entry})
        return claim

    def name_conflict(self, pod: Pod, entry: PodResourceClaim) -> str:
        wanted = claims.reference(pod, entry, fixed_names=True)
        claim = self.informers.claims.get(pod["metadata"]["namespace"], wanted.claim or "")
        if not wanted.generated or claim is None:
            return ""
        return claims.not_for_pod(pod, claim, kind="pod")


class EarlyResourceClaimController(ResourceClaimController["ClassicClaim", "ClassicTemplate"]):
    name = "early-resourceclaim-controller"

    def __init__(self, context: ControllerContext) -> None:
        if not context.quirks.names_claims_after_pod_and_entry:
            raise NotServed("claims with such names")
        super().__init__(context, EarlyGeneration(context))
