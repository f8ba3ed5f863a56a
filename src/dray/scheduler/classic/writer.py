"""What the scheduler writes for classic claims besides allocations: scheduling contexts, deallocation, reservations."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from dray.api import objects
from dray.api.errors import Conflict, NotFound, StatusError
from dray.api.fields import Patch
from dray.api.pods import controller_reference
from dray.client.client import Client, PatchType
from dray.client.resources import CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS
from dray.placement.classic.cache import FINALIZER

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import (
        PodSchedulingContext,
        PodSchedulingContextSpec,
        ResourceClaim,
    )
    from dray.client.resources import Resource
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClassicDeallocate, PublishSchedulingContext
    from dray.placement.classic.quirks import ClassicQuirks

log = logging.getLogger(__name__)


class ClassicWriter:
    """Writes claims and scheduling contexts in the version that the API server has."""

    def __init__(
        self,
        client: Client,
        *,
        claims: Resource[ResourceClaim] = CLASSIC_RESOURCE_CLAIMS,
        contexts: Resource[PodSchedulingContext] = POD_SCHEDULING_CONTEXTS,
        quirks: ClassicQuirks,
    ) -> None:
        self.client = client
        self.claims = claims
        self._contexts = contexts
        self._quirks = quirks

    async def deallocate(self, pod: PodInfo, write: ClassicDeallocate) -> None:
        """Free an unused claim that kept the pod from its nodes, or ask its driver to."""
        claim, context = write.claim, write.context
        by_scheduler = (
            objects.has_finalizer(claim, FINALIZER) and not self._quirks.asks_drivers_to_free_every_claim
        )
        # A driver that still sees a selected node would allocate for it again.
        if not by_scheduler and ((context or {}).get("spec") or {}).get("selectedNode"):
            await self._publish(pod, context, {"selectedNode": ""})
        status = (claim.get("status") or {}).copy()
        status.pop("reservedFor", None)
        if by_scheduler:
            status.pop("allocation", None)
        else:
            status["deallocationRequested"] = True
        try:
            await self.client.update_status(self.claims, pod.namespace, {**claim, "status": status})
        except StatusError as problem:
            log.info("claim %s stays allocated: %s", claim["metadata"]["name"], problem)

    async def publish(self, pod: PodInfo, write: PublishSchedulingContext) -> None:
        """Tell the drivers which nodes are possible, and which one is selected."""
        change: PodSchedulingContextSpec = {}
        if write.selected is not None:
            change["selectedNode"] = write.selected
        if write.potential is not None:
            change["potentialNodes"] = write.potential
        await self._publish(pod, write.context, change)

    async def _publish(
        self, pod: PodInfo, context: PodSchedulingContext | None, change: PodSchedulingContextSpec
    ) -> None:
        try:
            if context is None:
                await self.client.create(self._contexts, pod.namespace, self._new_context(pod, change))
                return
            spec: PodSchedulingContextSpec = {**(context.get("spec") or {}), **change}
            try:
                await self.client.update(self._contexts, pod.namespace, {**context, "spec": spec})
            except Conflict:
                # A driver has answered meanwhile. Nobody but the scheduler writes the spec, so it may be forced.
                await self.client.apply(
                    self._contexts,
                    pod.namespace,
                    {"metadata": {"name": pod.name}, "spec": spec},
                    field_manager="kube-scheduler",
                    force=True,
                )
        except StatusError as problem:
            log.warning("cannot publish the scheduling context of pod %s: %s", pod.key, problem)

    def _new_context(self, pod: PodInfo, spec: PodSchedulingContextSpec) -> PodSchedulingContext:
        owner = controller_reference(
            pod.name, pod.uid, block_owner_deletion=self._quirks.context_blocks_owner_deletion
        )
        return {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "ownerReferences": [owner]},
            "spec": spec,
        }

    async def delete_context(self, pod: PodInfo) -> None:
        """The pod is bound: drivers have nothing left to answer."""
        try:
            await self.client.delete(self._contexts, pod.namespace, pod.name)
        except NotFound:
            pass
        except StatusError as problem:
            log.info("the scheduling context of pod %s is left over: %s", pod.key, problem)

    async def unreserve(self, pod: PodInfo, claim: ResourceClaim) -> None:
        metadata = claim["metadata"]
        patch: Patch[ResourceClaim] = Patch(
            {
                "metadata": {"uid": metadata["uid"]},
                "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
            }
        )
        try:
            await self.client.patch_status(
                self.claims, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
            )
        except StatusError as problem:
            log.warning("claim %s stays reserved: %s", metadata["name"], problem)
