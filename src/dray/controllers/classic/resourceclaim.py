"""Claims of the classic generation: made from templates, reserved, and given back to whoever allocated them.

Differs from today's claims in who allocates. A driver's controller is asked to deallocate (``deallocationRequested``)
and, for a pod that got its node without the scheduler, to allocate (a PodSchedulingContext with that node selected);
what the scheduler allocated by itself under 1.30's structured parameters is simply cleared.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from typing import Any, ClassVar, Final

from dray.api import claims
from dray.api.claims import Document
from dray.api.errors import AlreadyExists, NotFound
from dray.client.informers import Informer
from dray.client.resources import POD_SCHEDULING_CONTEXTS
from dray.controllers.controller import ControllerContext, NotServed
from dray.controllers.resourceclaim.controller import (
    CLASSIC_VERSIONS,
    VERSIONS,
    ResourceClaimController,
    WorkItem,
)
from dray.controllers.resourceclaim.creator import FIELD_MANAGER, ClaimCreator, PodClaimKey
from dray.controllers.resourceclaim.reservation import owning_pod

Object = Any  # documents have no types here yet

#: On claims that the scheduler allocated; drivers' controllers have finalizers of their own.
FINALIZER: Final = "dra.k8s.io/delete-protection"


# -- decisions ------------------------------------------------------------------------------------------------------


def allocated_by_scheduler(claim: Document) -> bool:
    return FINALIZER in (claim["metadata"].get("finalizers") or ())


def waits_for_first_consumer(claim: Document) -> bool:
    return bool(claim["spec"].get("allocationMode") != "Immediate")


def released(claim: Document, remaining: Iterable[Document]) -> Object | None:
    """The status a claim should have when only ``remaining`` consumers are left; None: the one it has.

    The last consumer of a delayed claim takes the allocation with it; an immediate one stays allocated until deleted.
    """
    status = claim.get("status") or {}
    left = list(remaining)
    deleted = "deletionTimestamp" in claim["metadata"]
    wanted = {**status, "reservedFor": left}
    if len(left) < len(status.get("reservedFor") or ()):
        if left:
            return wanted
        if allocated_by_scheduler(claim):
            if waits_for_first_consumer(claim) or deleted:
                wanted.pop("allocation", None)
        elif waits_for_first_consumer(claim):
            wanted["deallocationRequested"] = True
        return wanted
    if allocated_by_scheduler(claim) and deleted and not left and status.get("allocation"):
        wanted.pop("allocation", None)
        return wanted
    return None


def can_be_reserved(claim: Document) -> bool:
    status = claim.get("status") or {}
    if status.get("deallocationRequested"):
        return False
    return bool((status.get("allocation") or {}).get("shareable")) or not status.get("reservedFor")


def should_reserve(pod: Document, claim: Document) -> bool:
    """Whether a pod that did not get its node from the scheduler has yet to be told of as a consumer."""
    return (
        bool(pod["spec"].get("nodeName"))
        and claims.allocation(claim) is not None
        and not claims.is_reserved_for(claim, pod["metadata"]["uid"])
        and can_be_reserved(claim)
    )


def needs_pod_scheduling_context(pod: Document, claim: Document) -> bool:
    """Whether a driver is yet to be asked to allocate for the node that the pod has."""
    return (
        bool(pod["spec"].get("nodeName"))
        and claims.allocation(claim) is None
        and waits_for_first_consumer(claim)
    )


def pod_scheduling_context(pod: Document) -> Object:
    """There is nothing to choose any more, so no potential nodes are named."""
    metadata = pod["metadata"]
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": metadata["name"],
        "uid": metadata["uid"],
        "controller": True,
    }
    return {
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "ownerReferences": [owner],
        },
        "spec": {"selectedNode": pod["spec"]["nodeName"]},
    }


# -- making ---------------------------------------------------------------------------------------------------------


class ClassicClaimCreator(ClaimCreator):
    def _field_manager(self) -> str:
        # Each generation's controller has entries of its own to keep.
        return super()._field_manager() if self._others is None else f"Classic{FIELD_MANAGER}"

    def _new_claim(self, pod: Document, entry: str, template: Document) -> Object:
        made = super()._new_claim(pod, entry, template)
        [owner] = made["metadata"]["ownerReferences"]
        owner["blockOwnerDeletion"] = True
        return made

    def _is_of_another_generation(self, pod: Document, entry: Document) -> bool:
        if self._others is None:
            return False
        namespace, template = pod["metadata"]["namespace"], claims.claim_and_template_names(entry)[1] or ""
        if self._templates.get(namespace, template) is not None:
            return self._others.get(namespace, template) is not None
        known = next((r.claim for r in claims.references(pod) if r.entry == entry["name"]), None)
        return known is None or self._claims.get(namespace, known) is None

    async def _is_in_another_generation(self, namespace: str, template: str) -> bool:
        return False  # else it would have been left to the other controller before

    def _find(self, key: PodClaimKey) -> str | None:
        """Also a claim from before an upgrade, when its name alone told what it is for."""
        if (found := super()._find(key)) is not None:
            return found
        for claim in self._claims.by_index("owning pod", key.pod):
            metadata, owner = claim["metadata"], owning_pod(claim)
            annotated = claims.POD_CLAIM_ANNOTATION in (metadata.get("annotations") or {})
            if not annotated and owner is not None and metadata["name"] == f"{owner['name']}-{key.entry}":
                return str(metadata["name"])
        return None


# -- the controller -------------------------------------------------------------------------------------------------


class ClassicResourceClaimController(ResourceClaimController):
    name = "classic-resourceclaim-controller"
    versions: ClassVar[tuple[str, ...]] = CLASSIC_VERSIONS
    other_versions = VERSIONS
    finalizer = FINALIZER
    creator = ClassicClaimCreator

    def __init__(self, context: ControllerContext) -> None:
        if context.quirks.names_claims_after_pod_and_entry != self.creator.fixed_names:
            raise NotServed("claims with such names")
        self._contexts = self._scheduling_context_informer(context)
        super().__init__(context)

    def _scheduling_context_informer(self, context: ControllerContext) -> Informer[Any] | None:
        return context.informers.get(context.resource(POD_SCHEDULING_CONTEXTS, *self.versions))

    # -- beside other generations -----------------------------------------------------------------------------------

    def is_of_this_generation(self, claim: Document) -> bool:
        return "resourceClassName" in claim["spec"]

    def _concerns(self, pod: Document) -> bool:
        """Whether the pod has to do with classic claims. Most pods have not, and are to cost next to nothing."""
        if self._alone:
            return True
        if not self._templates.items() and not self._claims.items():
            return False
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            template = claims.claim_and_template_names(entry)[1]
            if template is not None and self._templates.get(namespace, template) is not None:
                return True
        return any(
            reference.claim and self._claims.get(namespace, reference.claim) is not None
            for reference in claims.references(pod)
        )

    def _pod_set(self, pod: Object) -> None:
        if "resourceClaims" in pod["spec"] and self._concerns(pod):
            super()._pod_set(pod)

    def _pod_gone(self, pod: Document) -> None:
        if "resourceClaims" in pod["spec"] and self._concerns(pod):
            super()._pod_gone(pod)

    def _template_set(self, template: Object) -> None:
        super()._template_set(template)
        if not self._alone:
            metadata = template["metadata"]
            for pod in list(self._pods.items()):
                if pod["metadata"]["namespace"] == metadata["namespace"]:
                    self._pod_set(pod)

    def _claim_needs_work(self, claim: Document, owner: Document | None) -> bool:
        return super()._claim_needs_work(claim, owner) or (
            not self._alone
            and owner is not None
            and not self._pods.get(claim["metadata"]["namespace"], owner["name"])
        )

    async def sync(self, key: WorkItem) -> float | None:
        pause = await super().sync(key)
        if key.kind == "claim" and not self._alone:
            await self._collect(key)
        return pause

    async def _collect(self, key: WorkItem) -> None:
        """Delete a claim whose pod has gone: the garbage collector sees claims in their preferred version only."""
        claim = self._claims.get(key.namespace, key.name)
        owner = owning_pod(claim) if claim is not None else None
        if claim is None or owner is None or "deletionTimestamp" in claim["metadata"]:
            return
        if await self._is_still_used_by(key.namespace, {**owner, "resource": "pods"}):
            return
        with contextlib.suppress(NotFound):
            await self.context.client.delete(
                self._resource, key.namespace, key.name, uid=claim["metadata"]["uid"]
            )

    # -- what is different ------------------------------------------------------------------------------------------

    def released(self, claim: Document, remaining: Iterable[Document]) -> Object | None:
        return released(claim, remaining)

    def needs_pod_work(self, pod: Document, claim: Document) -> bool:
        return should_reserve(pod, claim) or (
            needs_pod_scheduling_context(pod, claim) and self._selected(pod) != pod["spec"]["nodeName"]
        )

    async def reserve_all(self, pod: Object) -> None:
        for claim in self._usable(pod):
            if needs_pod_scheduling_context(pod, claim):
                await self._select_node(pod)
                return
            if should_reserve(pod, claim):
                await self.reserve(pod, claim)

    def _context(self, pod: Document) -> Object | None:
        metadata = pod["metadata"]
        return self._contexts.get(metadata["namespace"], metadata["name"]) if self._contexts else None

    def _selected(self, pod: Document) -> Any:
        return ((self._context(pod) or {}).get("spec") or {}).get("selectedNode")

    async def _select_node(self, pod: Object) -> None:
        metadata, node = pod["metadata"], pod["spec"]["nodeName"]
        context = self._context(pod)
        if context is None:
            try:
                await self.context.client.create(
                    POD_SCHEDULING_CONTEXTS, metadata["namespace"], pod_scheduling_context(pod)
                )
            except AlreadyExists:
                self.enqueue(WorkItem("pod", metadata["namespace"], metadata["name"]))
        elif self._selected(pod) != node:
            spec = {**(context.get("spec") or {}), "selectedNode": node}
            await self.context.client.update(
                POD_SCHEDULING_CONTEXTS,
                metadata["namespace"],
                {**context, "spec": spec},  # type: ignore[typeddict-item]
            )
