"""Giving back: what a failed binding has taken, in memory and in the API, and claims that stand in a pod's way."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from dray.api import claims
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client, PatchType
from dray.client.resources import PODS, RESOURCE_CLAIMS
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES, PodInfo
from dray.placement.decision import Bind
from dray.placement.plugins import extended_resources
from dray.scheduler.binding.binder import BindingError
from dray.scheduler.events.pod_status import PodStatusWriter

log = logging.getLogger(__name__)

Document = Any  # documents have no types here yet


class Unreserver:
    """Nothing is taken from a pod that has got a node all the same."""

    def __init__(self, client: Client, claim_cache: ClaimCache, statuses: PodStatusWriter) -> None:
        self._client = client
        self._claim_cache = claim_cache
        self._statuses = statuses

    async def unreserve(self, pod: PodInfo, decision: Bind, problem: BindingError) -> None:
        """Take back the claims of a binding that failed: what was promised, then what was written."""
        if decision.carry is not None:
            decision.carry.undo()
            await decision.carry.release()
        if decision.plan is not None:
            for claim in decision.plan.claims:
                self._claim_cache.forget(
                    claim["metadata"].get("uid") or extended_resources.in_memory_uid(pod)
                )
        made_uid = problem.made["metadata"]["uid"] if problem.made is not None else ""
        await self._unreserve(pod, [c for c in problem.reserved if c["metadata"]["uid"] != made_uid])
        if problem.made is not None:
            metadata = problem.made["metadata"]
            self._claim_cache.forget(made_uid)
            made = self._claim_cache.claim(metadata["namespace"], metadata["name"])
            await self.remove(pod, made if made is not None else problem.made)
        if decision.plan is not None and decision.plan.held:
            await self._release_node(pod)

    async def _unreserve(self, pod: PodInfo, reserved: Sequence[Document]) -> None:
        """Take back reservations a failed binding has left behind; allocations stay for whoever needs them next."""
        if not reserved or await self._is_bound(pod):
            return
        for claim in reserved:
            metadata = claim["metadata"]
            patch = {
                "metadata": {"uid": metadata["uid"]},
                "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
            }
            try:
                await self._client.patch_status(
                    RESOURCE_CLAIMS, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
                )
            except NotFound:
                pass
            except StatusError as problem:
                log.warning(
                    "claim %s/%s stays reserved: %s", metadata["namespace"], metadata["name"], problem
                )

    async def _release_node(self, pod: PodInfo) -> None:
        """The binding failed: the pod takes nothing of the node's resources."""
        try:
            await self._statuses.patch(pod, {NODE_ALLOCATABLE_CLAIM_STATUSES: None})
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s goes on telling what its claims would take: %s", pod.key, problem)

    async def deallocate(self, pod: PodInfo, claim: Document) -> None:
        """An allocated claim that nobody uses kept a pod from its nodes: it may be allocated anew."""
        if claims.is_reserved_for(claim, pod.uid) and await self._is_bound(pod):
            return
        status = {
            k: v
            for k, v in (claim.get("status") or {}).items()
            if k not in ("allocation", "reservedFor", "devices")
        }
        freed = {**claim, "status": status}
        try:
            written = await self._client.update_status(RESOURCE_CLAIMS, claim["metadata"]["namespace"], freed)  # type: ignore[arg-type]
        except StatusError as problem:
            log.info("claim %s stays allocated: %s", claim["metadata"]["name"], problem)
        else:
            self._claim_cache.set_claim(written)

    async def remove(self, pod: PodInfo, claim: Document) -> None:
        """A claim made for extended resources that came to nothing, as long as it is what it was and nobody uses it."""
        if await self._is_bound(pod):
            return
        metadata = claim["metadata"]
        try:
            finalizers = [f for f in metadata.get("finalizers") or () if f != claims.FINALIZER]
            if finalizers != (metadata.get("finalizers") or []):
                released = {**claim, "metadata": {**metadata, "finalizers": finalizers}}
                claim = await self._client.update(RESOURCE_CLAIMS, metadata["namespace"], released)  # type: ignore[arg-type]
            await self._client.delete(
                RESOURCE_CLAIMS,
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                resource_version=claim["metadata"]["resourceVersion"],
            )
        except (NotFound, Conflict):
            pass  # it has gone, or somebody has begun to use it
        except StatusError as problem:
            log.warning("claim %s/%s is left over: %s", metadata["namespace"], metadata["name"], problem)

    async def _is_bound(self, pod: PodInfo) -> bool:
        """Whether the pod has got a node all the same: by a write whose answer was lost, or by another scheduler."""
        try:
            current = await self._client.get(PODS, pod.namespace, pod.name)
        except StatusError:
            return False
        return current["metadata"]["uid"] == pod.uid and bool(current["spec"].get("nodeName"))
