"""The resource claim controller: it creates claims for pods, reserves and releases them, and deletes those left behind.

The controller never allocates; the scheduler or a driver does. Its handlers see every change of every pod and claim,
thousands a second: they look things up, queue a key only where there is something to write, and leave the rest to the
workers. What differs between generations of claims is in ``generation``.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final, Generic, NamedTuple

from dray.api import claims, pods
from dray.api.errors import NotFound
from dray.client.informers import Informer
from dray.client.resources import PODS, ObjectKey, Resource, key_of
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.resourceclaim.creator import ClaimCreator
from dray.controllers.resourceclaim.generation import Claim, Generation, Template
from dray.controllers.resourceclaim.groups import is_group
from dray.controllers.resourceclaim.reservation import has_needless_finalizer, owning_pod

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.meta import ObjectMeta, OwnerReference
    from dray.api.types.resource import ResourceClaimConsumerReference
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.controllers.resourceclaim.groups import GroupClaims

_MAX_DELETED_PODS: Final = 5000


class WorkItem(NamedTuple):
    """A pod or a claim to look at."""

    kind: str  # "pod", "claim" or "group"
    namespace: str
    name: str


class ResourceClaimController(Controller[WorkItem], Generic[Claim, Template]):
    """The controller of one generation of claims; subclasses name it and say which."""

    workers = 50

    def __init__(
        self,
        context: ControllerContext,
        generation: Generation[Claim, Template],
        *,
        groups: GroupClaims | None = None,
    ) -> None:
        """``groups``: where PodGroups have claims."""
        super().__init__(context)
        self._groups = groups
        self._generation: Generation[Claim, Template] = generation
        self._pods = generation.informers.pods
        self._claims: Informer[Claim] = generation.informers.claims
        self._resource: Resource[Claim] = self._claims.resource
        self._creator: ClaimCreator[Claim, Template] = ClaimCreator(context, generation)
        self._fixed_names = generation.names_follow_pods
        self._deleted_pods: dict[str, None] = {}  # uids, oldest first
        #: By a claim that has the name of a pod's claim and is not the pod's: the pods.
        self._pods_by_foreign_claim: dict[ObjectKey, dict[ObjectKey, None]] = {}
        self._skips_claims_with_other_consumers = context.quirks.skips_claims_with_other_consumers
        self._stops_at_first_unusable_claim = context.quirks.stops_at_first_unusable_claim
        self._pods.add_handler(on_set=self._pod_set, on_delete=self._pod_deleted)
        self._claims.add_handler(on_set=self._claim_set, on_delete=self._claim_deleted)
        generation.informers.templates.add_handler(on_set=self._template_set)
        if groups is not None:
            groups.informer.add_handler(on_set=self._group_set, on_delete=self._group_deleted)

    # -- events -----------------------------------------------------------------------------------------------------

    def _pod_set(self, pod: Pod) -> None:
        if not self._has_claims(pod):
            return
        metadata = pod["metadata"]
        if self._creator.unobserved_statuses:
            self._creator.pod_observed(pod)
        if pods.is_done(pod):
            self._enqueue_claims_of(pod)
        elif "deletionTimestamp" not in metadata and self._pod_needs_work(pod):
            self.enqueue(WorkItem("pod", metadata["namespace"], metadata["name"]))

    def _has_claims(self, pod: Pod) -> bool:
        """Whether a pod has claims that may be of this generation."""
        if "resourceClaims" not in pod["spec"] and _extended_resource_claim(pod) is None:
            return False
        return self._generation.concerns(pod)

    def _pod_deleted(self, pod: Pod) -> None:
        if not self._has_claims(pod):
            return
        self._creator.pod_deleted(pod)
        self._deleted_pods[pod["metadata"]["uid"]] = None
        while len(self._deleted_pods) > _MAX_DELETED_PODS:
            del self._deleted_pods[next(iter(self._deleted_pods))]
        self._enqueue_claims_of(pod)

    def _enqueue_claims_of(self, pod: Pod) -> None:
        namespace = pod["metadata"]["namespace"]
        for wanted in claims.references(pod, fixed_names=self._fixed_names):
            if wanted.claim is not None:
                self.enqueue(WorkItem("claim", namespace, wanted.claim))
        if (extended := _extended_resource_claim(pod)) is not None:
            self.enqueue(WorkItem("claim", namespace, extended))

    def _claim_set(self, claim: Claim) -> None:
        if not self._generation.is_of_this_generation(claim):
            return
        metadata = claim["metadata"]
        owner = owning_pod(claim)
        if owner is not None and self._creator.unobserved_claims:
            self._creator.claim_observed(claim, owner)
        if self._claim_needs_work(claim, owner):
            self.enqueue(WorkItem("claim", metadata["namespace"], metadata["name"]))
        self._recheck_pods_of(claim, owner)

    def _claim_deleted(self, claim: Claim) -> None:
        self._recheck_pods_of(claim, owning_pod(claim), deleted=True)

    def _recheck_pods_of(self, claim: Claim, owner: OwnerReference | None, *, deleted: bool = False) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if owner is not None:
            pod = self._pods.get(namespace, owner["name"])
            # The scheduler reserves claims for pods that it places; only others may need something from the controller.
            if (
                pod is not None
                and pod["metadata"]["uid"] == owner["uid"]
                and (deleted or pod["spec"].get("nodeName"))
            ):
                self._pod_set(pod)
        for pod in self._pods.by_index("named claim", f"{namespace}/{name}"):
            self._pod_set(pod)
        if self._pods_by_foreign_claim:
            self._recheck_pods(self._pods_by_foreign_claim.pop(ObjectKey(namespace, name), ()))

    def _template_set(self, template: Template) -> None:
        self._recheck_pods(self._creator.template_observed(template))
        if self._groups is not None:
            for key in self._groups.template_observed(template):
                self.enqueue(WorkItem("group", *key))
        if self._generation.is_secondary:
            namespace = template["metadata"]["namespace"]
            for pod in list(self._pods.items()):
                if pod["metadata"]["namespace"] == namespace:
                    self._pod_set(pod)

    # -- groups -----------------------------------------------------------------------------------------------------

    def _group_set(self, group: PodGroup) -> None:
        assert self._groups is not None
        if self._groups.needs_claims(group):
            self.enqueue(WorkItem("group", group["metadata"]["namespace"], group["metadata"]["name"]))
        if group["spec"].get("resourceClaims"):
            namespace, name = group["metadata"]["namespace"], group["metadata"]["name"]
            for pod in self._pods.by_index("pod group of claims", f"{namespace}/{name}"):
                self._pod_set(pod)

    def _group_deleted(self, group: PodGroup) -> None:
        assert self._groups is not None
        for name in self._groups.names(group):
            self.enqueue(WorkItem("claim", group["metadata"]["namespace"], name))

    def _recheck_pods(self, pods: Iterable[ObjectKey]) -> None:
        for key in pods:
            pod = self._pods.get(*key)
            if pod is not None:
                self._pod_set(pod)

    def _pod_needs_work(self, pod: Pod) -> bool:
        return self._needs_claims(pod) or (
            self._fixed_names
            and any(
                self._generation.name_conflict(pod, entry)
                for entry in pod["spec"].get("resourceClaims") or ()
            )
        )

    def _needs_claims(self, pod: Pod) -> bool:
        """Whether a claim is to be created or reserved for the pod."""
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            wanted = claims.known_reference(pod, entry, fixed_names=self._fixed_names)
            if wanted is None:
                return True
            stuck = wanted.claim is None  # the pod turned out to need no claim for this entry
            if wanted.claim is None:
                pass
            elif (claim := self._claims.get(namespace, wanted.claim)) is None:
                uid = pod["metadata"]["uid"]
                if wanted.generated and self._creator.created_name(uid, wanted.entry) != wanted.claim:
                    return True
                stuck = not wanted.generated
            elif wanted.generated and claims.not_for_pod(pod, claim):
                # Nothing can be done until that other claim is gone.
                self._pods_by_foreign_claim.setdefault(key_of(claim), {})[key_of(pod)] = None
                stuck = True
            elif self._generation.needs_pod_work(pod, claim):
                return True
            if stuck and self._stops_at_first_unusable_claim:
                return False
        return False

    def _claim_needs_work(self, claim: Claim, owner: OwnerReference | None) -> bool:
        return self._needs_release(claim, owner) or (
            self._generation.is_secondary
            and owner is not None
            and not self._pods.get(claim["metadata"]["namespace"], owner["name"])
        )

    def _needs_release(self, claim: Claim, owner: OwnerReference | None) -> bool:
        metadata = claim["metadata"]
        if "deletionTimestamp" in metadata:
            return True
        if reserved := claims.reserved_for(claim):
            return not all(self._is_used_by(metadata["namespace"], entry) for entry in reserved)
        return owner is not None and self._is_abandoned(metadata["namespace"], owner)

    def _is_used_by(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool | None:
        """Whether a consumer still exists; None if only the server can tell."""
        if self._groups is not None and is_group(consumer):
            return self._groups.is_used_by(namespace, consumer)
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True  # the controller knows nothing of consumers that are not pods
        pod = self._pods.get(namespace, consumer["name"])
        same = pod is not None and pod["metadata"]["uid"] == consumer["uid"]
        if same and self._generation.keeps_claims_of_finished_pods:
            return True
        if consumer["uid"] in self._deleted_pods:
            return False
        return None if pod is None else same and not pods.is_done(pod)

    def _is_abandoned(self, namespace: str, owner: OwnerReference) -> bool:
        """Whether the pod that a claim was made for is certain not to need it. A pod not known may just be new."""
        if self._generation.keeps_claims_of_finished_pods:
            return False  # the garbage collector deletes the claim
        pod = self._pods.get(namespace, owner["name"])
        return pod is not None and (pod["metadata"]["uid"] != owner["uid"] or pods.is_done(pod))

    async def sync(self, key: WorkItem) -> float | None:
        if key.kind == "pod":
            await self._sync_pod(key)
        elif key.kind == "group":
            if self._groups is not None and (group := self._groups.informer.get(key.namespace, key.name)):
                await self._groups.sync(group)
        else:
            await self._sync_claim(key)
            if self._generation.is_secondary:
                await self._collect(key)
        return None

    # -- pods -------------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: WorkItem) -> None:
        pod = self._pods.get(key.namespace, key.name)
        if pod is None or "deletionTimestamp" in pod["metadata"] or not self._pod_needs_work(pod):
            return
        await self._creator.create_for(pod)
        if pod["spec"].get("nodeName"):
            await self._reserve_all(key, pod)

    async def _reserve_all(self, key: WorkItem, pod: Pod) -> None:
        """Do for a pod that got its node without the scheduler what the scheduler would have done."""
        for claim in self._usable(pod):
            if self._generation.awaits_driver(pod, claim):
                if not await self._generation.select_node(pod):
                    self.enqueue(key)
                return
            if self._generation.should_reserve(pod, claim):
                await self._reserve(pod, claim)

    def _usable(self, pod: Pod) -> Iterator[Claim]:
        """The pod's claims up to the first that is missing or not the pod's, unless it may be of another generation."""
        for entry in pod["spec"].get("resourceClaims") or ():
            wanted = claims.known_reference(pod, entry, fixed_names=self._fixed_names)
            if wanted is not None and wanted.claim is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], wanted.claim or "") if wanted else None
            if wanted and claim and not (wanted.generated and claims.not_for_pod(pod, claim)):
                yield claim
            elif self._generation.is_alone:
                return

    async def _reserve(self, pod: Pod, claim: Claim) -> None:
        reserved = [*(claim["status"].get("reservedFor") or ()), claims.consumer_reference(pod)]
        changed: Claim = {**claim, "status": {**claim["status"], "reservedFor": reserved}}
        await self.context.client.update_status(self._resource, pod["metadata"]["namespace"], changed)

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: WorkItem) -> None:
        claim = self._claims.get(key.namespace, key.name)
        if claim is None or not self._generation.is_of_this_generation(claim):
            return
        consumers = claims.reserved_for(claim)
        if self._skips_claims_with_other_consumers and any(
            c.get("apiGroup") or c["resource"] != "pods" for c in consumers
        ):
            return
        remaining = [c for c in consumers if await self._is_still_used_by(key.namespace, c)]
        released = self._generation.released(claim, remaining)
        if released is not None:
            claim = await self.context.client.update_status(self._resource, key.namespace, released)
        finalizer = self._generation.finalizer
        may_go = released is not None or "deletionTimestamp" in claim["metadata"]
        if may_go and has_needless_finalizer(claim, finalizer):
            metadata = claim["metadata"]
            finalizers = [f for f in metadata["finalizers"] if f != finalizer]
            kept: ObjectMeta = {**metadata, "finalizers": finalizers}
            changed: Claim = {**claim, "metadata": kept}
            claim = await self.context.client.update(self._resource, key.namespace, changed)
        owner = owning_pod(claim)
        if remaining or owner is None or "deletionTimestamp" in claim["metadata"]:
            return
        # The garbage collector would do this, too, but perhaps not for a long time: finished pods stay.
        if self._is_abandoned(key.namespace, owner):
            await self._delete(claim)

    async def _collect(self, key: WorkItem) -> None:
        """Delete a claim whose pod is deleted."""
        claim = self._claims.get(key.namespace, key.name)
        owner = owning_pod(claim) if claim is not None else None
        if claim is None or owner is None or "deletionTimestamp" in claim["metadata"]:
            return
        consumer: ResourceClaimConsumerReference = {
            "resource": "pods",
            "name": owner["name"],
            "uid": owner["uid"],
        }
        if not await self._is_still_used_by(key.namespace, consumer):
            await self._delete(claim)

    async def _delete(self, claim: Claim) -> None:
        metadata = claim["metadata"]
        with contextlib.suppress(NotFound):
            await self.context.client.delete(
                self._resource, metadata["namespace"], metadata["name"], uid=metadata["uid"]
            )

    async def _is_still_used_by(self, namespace: str, consumer: ResourceClaimConsumerReference) -> bool:
        known = self._is_used_by(namespace, consumer)
        if known is not None:
            return known
        if self._groups is not None and is_group(consumer):
            return await self._groups.is_still_used_by(namespace, consumer)
        # The pod may be so new that no informer has shown it; then its claim must stay reserved.
        try:
            pod = await self.context.client.get(PODS, namespace, consumer["name"])
        except NotFound:
            return False
        return pod["metadata"]["uid"] == consumer["uid"]


def _extended_resource_claim(pod: Pod) -> str | None:
    """The claim that the scheduler created for the pod's extended resources."""
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return found["resourceClaimName"] if found else None
