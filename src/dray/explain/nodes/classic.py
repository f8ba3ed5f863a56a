"""Classic claims of a snapshot before the scheduler's own plugin for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dray.api import claims as pod_claims
from dray.api.identity import object_key
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.attempt import ClassicAttempt, ClassicPlan
from dray.placement.classic.cache import ClassicCache
from dray.placement.classic.plugin import ClassicPlugin
from dray.placement.classic.quirks import ClassicQuirks
from dray.placement.outcome import Failure, Gated
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.api.types.core import PodResourceClaim, PodSpec
    from dray.api.types.meta import ObjectMeta
    from dray.api.types.resource_v1alpha2 import ResourceClaim, ResourceClaimStatus
    from dray.explain.model.cluster import Cluster


class ClassicClaims:
    """The classic generation of a snapshot as the scheduler's cache has it; more allocations can be assumed."""

    def __init__(self, cluster: Cluster) -> None:
        self._fixed_names = cluster.fixed_names
        self._cache = ClassicCache()
        self._cache.classes.update(cluster.resource_classes)
        snapshot = cluster.snapshot
        self._cache.contexts.update({object_key(one): one for one in snapshot.scheduling_contexts})
        self._cache.claim_parameters.update({object_key(one): one for one in snapshot.claim_parameters})
        self._cache.class_parameters.update({object_key(one): one for one in snapshot.class_parameters})
        for resource_slice in snapshot.classic_slices:
            self._cache.set_slice(resource_slice)
        for claim in snapshot.classic_claims:
            self._cache.set_claim(_completed(claim))
        quirks = ClassicQuirks.of(cluster.version)
        self._plugin = ClassicPlugin(self._cache, quirks, context_kind="PodSchedulingContext")

    def attempt(self, pod: PodInfo, claims: Sequence[ResourceClaim]) -> ClassicAttempt | Rejection | None:
        """The pod with these claims, which need not exist yet, or why no node will do."""
        known = pod_claims.references(pod.document, fixed_names=self._fixed_names)
        entries = {reference.claim: reference.entry for reference in known}
        wanted: list[PodResourceClaim] = []
        for claim in claims:
            key = object_key(claim)
            if self._cache.claim(*key) is None:
                self._cache.set_claim(_completed(claim))
            wanted.append({"name": entries.get(key.name, key.name), "resourceClaimName": key.name})
        spec: PodSpec = {**pod.document["spec"], "resourceClaims": wanted}
        match self._plugin.pre_filter(PodInfo({**pod.document, "spec": spec})):
            case Gated(reason=message) | Failure(message=message):
                return Rejection(PLUGIN, (message,))
            case found:
                return found

    def assume(self, plan: ClassicPlan) -> list[ResourceClaim]:
        """Count what the scheduler would allocate as allocated from now on; the claims with it."""
        allocated: list[ResourceClaim] = []
        for claim, allocation in zip(plan.claims, plan.results, strict=True):
            status: ResourceClaimStatus = {**(claim.get("status") or {}), "allocation": allocation}
            allocated.append({**claim, "status": status})
            self._cache.set_claim(allocated[-1])
        return allocated


def _completed(claim: ResourceClaim) -> ResourceClaim:
    """A claim from a manifest lacks what the server would fill in."""
    key = object_key(claim)
    metadata: ObjectMeta = {"uid": str(key), "resourceVersion": "0", **claim["metadata"]}
    return {**claim, "metadata": metadata}
