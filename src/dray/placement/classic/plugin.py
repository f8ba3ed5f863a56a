"""The plugin for classic claims: negotiation with drivers' controllers, and 1.30's structured parameters.

It follows the DynamicResources plugin of 1.30 in what it decides, writes and reports. Nothing of this package is
imported unless the API server serves the classic generation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dray.api import claims, nodeaffinity, objects
from dray.placement.classic.attempt import ClaimInformation, ClassicAttempt
from dray.placement.classic.cache import ClassicCache, ParametersNotFound
from dray.placement.classic.mixed import MixedPlugin
from dray.placement.outcome import Failure, Gated
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import PodSchedulingContext, ResourceClaim
    from dray.placement.cache.pods import PodInfo
    from dray.placement.classic.quirks import ClassicQuirks
    from dray.placement.plugins.dynamic_resources import DynamicResources

MAX_CONSUMERS = 32  # of a claim that can be shared


class ClaimNotReady(Exception):
    """A claim of the pod is missing, being deleted or not usable for it: the pod has to wait."""


class ForeignSchedulingContext(Exception):
    """The scheduling context with the pod's name does not belong to the pod."""


class ClassicPlugin:
    """The plugin for claims of v1alpha1 and v1alpha2."""

    def __init__(self, classic_cache: ClassicCache, quirks: ClassicQuirks, *, context_kind: str) -> None:
        """``context_kind``: what the version that is served calls the PodSchedulingContext."""
        self.classic_cache = classic_cache
        self._context_kind = context_kind
        self.quirks = quirks

    def beside(self, device: DynamicResources) -> MixedPlugin:
        """This plugin and the one for claims of the current generation as one."""
        return MixedPlugin(self, device)

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the pod has classic claims."""
        if not pod.claims or not (self.quirks.owns_every_claim or self.classic_cache.has_claims):
            return False
        return self.quirks.owns_every_claim or any(
            reference.claim and self.classic_cache.claim(pod.namespace, reference.claim) is not None
            for reference in claims.references(pod.document)
        )

    def pre_enqueue(self, pod: PodInfo) -> str:
        if self.quirks.tries_pods_without_claims:
            return ""
        try:
            self._pod_claims(pod)
        except ClaimNotReady as problem:
            return str(problem)
        return ""

    def claim_names(self, pod: PodInfo) -> frozenset[str]:
        """The names of the pod's classic claims, once ``pre_enqueue`` lets the pod be tried."""
        return frozenset(claim["metadata"]["name"] for _, claim in self._pod_claims(pod))

    def pre_filter(self, pod: PodInfo) -> ClassicAttempt | Rejection | Gated | Failure | None:
        try:
            found = self._pod_claims(pod)
        except ClaimNotReady as problem:
            return _unresolvable(problem) if self.quirks.tries_pods_without_claims else Gated(str(problem))
        if not found:
            return None
        try:
            context = self._context(pod)
            entries = [self._claim_information(pod, name, claim, context) for name, claim in found]
        except (ClaimNotReady, ParametersNotFound) as problem:
            return _unresolvable(problem)
        except ForeignSchedulingContext as problem:
            return Failure(f'running PreFilter plugin "{PLUGIN}": {problem}')
        return ClassicAttempt(pod, entries, context, self.classic_cache, self.quirks)

    def _pod_claims(self, pod: PodInfo) -> list[tuple[str, ResourceClaim]]:
        """The classic claims of a pod, each with the name of its entry in the pod."""
        found = []
        for entry in pod.document["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(
                    pod.document, entry, fixed_names=self.quirks.names_claims_after_pod_and_entry
                )
            except claims.ClaimNotCreated as problem:
                raise ClaimNotReady(str(problem)) from None
            if wanted.claim is None:
                continue
            claim = self.classic_cache.claim(pod.namespace, wanted.claim)
            if claim is None and not self.quirks.owns_every_claim:
                continue  # of the current generation, or missing
            if claim is None:
                if self.quirks.names_claims_after_pod_and_entry and wanted.generated:
                    raise ClaimNotReady(
                        f'waiting for dynamic resource controller to create the resourceclaim "{wanted.claim}"'
                    )
                raise ClaimNotReady(f'resourceclaim.resource.k8s.io "{wanted.claim}" not found')
            if "deletionTimestamp" in claim["metadata"]:
                raise ClaimNotReady(f'resourceclaim "{wanted.claim}" is being deleted')
            foreign = claims.not_for_pod(pod.document, claim, kind="pod") if wanted.generated else ""
            if foreign:
                raise ClaimNotReady(foreign)
            found.append((wanted.entry, claim))
        return found

    def _context(self, pod: PodInfo) -> PodSchedulingContext | None:
        context = self.classic_cache.contexts.get((pod.namespace, pod.name))
        if context is None:
            return None
        owner = objects.controller_of(context)
        if owner is None or owner["uid"] != pod.uid:
            uid = context["metadata"]["uid"]
            raise ForeignSchedulingContext(
                f"{self._context_kind} object with UID {uid} is not owned by Pod {pod.namespace}/{pod.name}"
            )
        return context

    def _claim_information(
        self, pod: PodInfo, name: str, claim: ResourceClaim, context: PodSchedulingContext | None
    ) -> ClaimInformation:
        """Upstream's checks before any node is filtered; ``ClaimNotReady`` says why the pod has to wait."""
        status = claim.get("status") or {}
        if status.get("deallocationRequested"):
            raise ClaimNotReady("resourceclaim must be reallocated")
        allocation = status.get("allocation")
        if allocation is not None:
            users = status.get("reservedFor") or ()
            in_use = users and not allocation.get("shareable")
            full = len(users) >= MAX_CONSUMERS and not self.quirks.tries_full_claims
            if (in_use or full) and not claims.is_reserved_for(claim, pod.uid):
                raise ClaimNotReady("resourceclaim in use")
            selector = allocation.get("availableOnNodes")
            return ClaimInformation(name, claim, nodeaffinity.node_selector(selector) if selector else None)
        class_name = claim["spec"]["resourceClassName"]
        resource_class = self.classic_cache.classes.get(class_name)
        if resource_class is None:
            raise ClaimNotReady(f"resource class {class_name} does not exist")
        selector = resource_class.get("suitableNodes")
        nodes = nodeaffinity.node_selector(selector) if selector else None
        if resource_class.get("structuredParameters"):
            metadata = claim["metadata"]
            if self.classic_cache.has_pending_allocation(metadata["uid"]):
                raise ClaimNotReady(
                    f"resource claim {metadata['namespace']}/{metadata['name']} is in the process of being allocated"
                )
            wanted = self.classic_cache.wanted(claim, resource_class)
            return ClaimInformation(name, claim, nodes, wanted=wanted)
        if claim["spec"].get("allocationMode") == "Immediate":
            raise ClaimNotReady("unallocated immediate resourceclaim")
        answers = ((context or {}).get("status") or {}).get("resourceClaims") or ()
        scheduling_status = next((a for a in answers if a["name"] == name), None)
        return ClaimInformation(name, claim, nodes, scheduling_status)


def _unresolvable(problem: Exception) -> Rejection:
    return Rejection(PLUGIN, (str(problem),), resolvable=False)
