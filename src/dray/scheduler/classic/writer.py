"""What the scheduler writes for classic claims: the negotiation, allocations with reservations, deallocation."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.api import claims
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client, PatchType
from dray.client.resources import CLASSIC_RESOURCE_CLAIMS, POD_SCHEDULING_CONTEXTS, Resource
from dray.placement.classic.cache import FINALIZER, ClassicCache

if TYPE_CHECKING:
    from dray.placement.cache.pods import PodInfo
    from dray.placement.classic.attempt import ClassicPlan

log = logging.getLogger(__name__)

Document = Mapping[str, Any]
First = Callable[[], Awaitable[None]]


class ClassicWriter:
    def __init__(
        self,
        client: Client,
        *,
        resource: Resource[Any] = CLASSIC_RESOURCE_CLAIMS,
        contexts: Resource[Any] = POD_SCHEDULING_CONTEXTS,
        owners_wait: bool = True,
        as_in_130: bool = True,
    ) -> None:
        """``resource`` and ``contexts``: claims and negotiations in the version that the server has.

        ``owners_wait``: a pod that is deleted in the foreground waits for its negotiation to go. ``as_in_130``: nobody
        but drivers is asked to free a claim, even one that the scheduler has allocated.
        """
        self._client = client
        self._resource = resource
        self._contexts = contexts
        self._owners_wait = owners_wait
        self._as_in_130 = as_in_130

    @property
    def negotiation(self) -> str:
        """The kind of the object in which scheduler and drivers meet."""
        return self._contexts.kind

    def publication(
        self, pod: PodInfo, context: Document | None, *, selected: str | None, potential: list[str] | None
    ) -> First:
        """Tell the drivers which nodes are in question, and which one is chosen."""

        async def publish() -> None:
            await self._publish(pod, context, selected, potential)

        return publish

    def release(self, pod: PodInfo, reserved: Sequence[Document], *, after: First | None) -> First:
        """Take back the reservations of a pod that has to wait, as 1.30 does after every attempt."""

        async def take_back() -> None:
            if after is not None:
                await after()
            for claim in reserved:
                await _unreserve(self._client, self._resource, claim, pod)

        return take_back

    def deallocation(self, pod: PodInfo, claim: Document, context: Document | None) -> First:
        """Free an unused claim that kept the pod from its nodes."""

        async def deallocate() -> None:
            by_scheduler = FINALIZER in (claim["metadata"].get("finalizers") or ()) and not self._as_in_130
            # A driver that still sees a selected node would allocate for it again.
            if not by_scheduler and ((context or {}).get("spec") or {}).get("selectedNode"):
                await self._publish(pod, context, "", None)
            status = {k: v for k, v in (claim.get("status") or {}).items() if k != "reservedFor"}
            if by_scheduler:
                status.pop("allocation", None)
            else:
                status["deallocationRequested"] = True
            try:
                await self._client.update_status(self._resource, pod.namespace, {**claim, "status": status})
            except StatusError as problem:
                log.info("claim %s stays allocated: %s", claim["metadata"]["name"], problem)

        return deallocate

    def carry(
        self, classic_cache: ClassicCache, pod: PodInfo, wanted: Sequence[Document], given: ClassicPlan
    ) -> ClassicClaimBinding:
        return ClassicClaimBinding(
            self._client, self._resource, self._contexts, classic_cache, pod, wanted, given
        )

    async def _publish(
        self, pod: PodInfo, context: Document | None, selected: str | None, potential: list[str] | None
    ) -> None:
        change: dict[str, Any] = {}
        if selected is not None:
            change["selectedNode"] = selected
        if potential is not None:
            change["potentialNodes"] = potential
        try:
            if context is None:
                await self._client.create(self._contexts, pod.namespace, self._new_context(pod, change))
                return
            spec = {**(context.get("spec") or {}), **change}
            try:
                await self._client.update(self._contexts, pod.namespace, {**context, "spec": spec})
            except Conflict:
                # A driver has answered meanwhile. Nobody but the scheduler writes the spec, so it may be forced.
                await self._client.apply(
                    self._contexts,
                    pod.namespace,
                    {"metadata": {"name": pod.name}, "spec": spec},
                    field_manager="kube-scheduler",
                    force=True,
                )
        except StatusError as problem:
            log.warning("cannot publish the scheduling context of pod %s: %s", pod.key, problem)

    def _new_context(self, pod: PodInfo, spec: dict[str, Any]) -> dict[str, Any]:
        owner: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": pod.name,
            "uid": pod.uid,
            "controller": True,
        }
        if self._owners_wait:
            owner["blockOwnerDeletion"] = True
        return {
            "metadata": {"name": pod.name, "namespace": pod.namespace, "ownerReferences": [owner]},
            "spec": spec,
        }


@dataclass(frozen=True, slots=True)
class ClassicClaimBinding:
    """A binding of a pod with classic claims, step by step."""

    client: Client
    resource: Resource[Any]
    contexts: Resource[Any]
    classic_cache: ClassicCache
    pod: PodInfo
    claims: Sequence[Document]
    given: ClassicPlan

    def assume(self) -> None:
        for claim, allocation in zip(self.given.claims, self.given.results, strict=True):
            self.classic_cache.assume(claim, allocation)

    def undo(self) -> None:
        for claim in self.given.claims:
            self.classic_cache.forget(claim)

    async def write(self) -> None:
        """Reserve every claim for the pod, with the allocation where the scheduler makes it."""
        allocations = {
            claim["metadata"]["uid"]: (driver, allocation)
            for claim, driver, allocation in zip(
                self.given.claims, self.given.drivers, self.given.results, strict=True
            )
        }
        for claim in self.claims:
            if claims.is_reserved_for(claim, self.pod.uid):
                continue
            metadata = claim["metadata"]
            status: dict[str, Any] = {}
            if metadata["uid"] in allocations:
                await self._protect(claim)
                status["driverName"], status["allocation"] = allocations[metadata["uid"]]
            status["reservedFor"] = [claims.consumer_reference(self.pod.document)]
            written = await self.client.patch_status(
                self.resource,
                metadata["namespace"],
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": status},
                type=PatchType.STRATEGIC,
            )
            self.classic_cache.set_claim(written)

    async def release(self) -> None:
        """The binding failed: give back what is reserved for the pod."""
        for claim in self.claims:
            metadata = claim["metadata"]
            current = self.classic_cache.claim(metadata["namespace"], metadata["name"])
            if current is not None and claims.is_reserved_for(current, self.pod.uid):
                await _unreserve(self.client, self.resource, claim, self.pod)

    async def done(self) -> None:
        """The pod is bound: nothing is left to negotiate."""
        try:
            await self.client.delete(self.contexts, self.pod.namespace, self.pod.name)
        except NotFound:
            pass
        except StatusError as problem:
            log.info("the scheduling context of pod %s is left over: %s", self.pod.key, problem)

    async def _protect(self, claim: Document) -> None:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            protected = {**claim, "metadata": {**metadata, "finalizers": [*finalizers, FINALIZER]}}
            await self.client.update(self.resource, metadata["namespace"], protected)


async def _unreserve(client: Client, resource: Resource[Any], claim: Document, pod: PodInfo) -> None:
    metadata = claim["metadata"]
    patch = {
        "metadata": {"uid": metadata["uid"]},
        "status": {"reservedFor": [{"$patch": "delete", "uid": pod.uid}]},
    }
    try:
        await client.patch_status(
            resource, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
        )
    except StatusError as problem:
        log.warning("claim %s stays reserved: %s", metadata["name"], problem)
