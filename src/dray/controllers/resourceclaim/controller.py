"""Resource claims: watched, reserved for pods that bypassed the scheduler, released when nobody is left.

Never allocates: that is the scheduler's. Handlers see every change of every pod and claim, thousands a second: they
look things up, queue a key only where there is something to write, and leave the rest to the workers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any, ClassVar, Final, NamedTuple

from dray.api import claims, pods
from dray.api.claims import Document
from dray.api.errors import NotFound
from dray.api.groups.resource.classic import bridge
from dray.client.resources import PODS, RESOURCE_CLAIM_TEMPLATES, RESOURCE_CLAIMS, ObjectKey, key_of
from dray.controllers.controller import Controller, ControllerContext
from dray.controllers.resourceclaim.creator import ClaimCreator
from dray.controllers.resourceclaim.reservation import (
    count_claims,
    has_needless_finalizer,
    owning_pod,
    released,
    should_reserve,
)

Object = Any  # documents have no types here yet

#: Where claims have the shape that is dealt with here, newest first.
VERSIONS: Final = ("v1", "v1beta2", "v1beta1", "v1alpha3")
#: Where they have the classic one, which another controller deals with.
CLASSIC_VERSIONS: Final = ("v1alpha2",)
_MAX_DELETED_PODS: Final = 5000


class WorkItem(NamedTuple):
    """A pod or a claim to look at."""

    kind: str  # "pod" or "claim"
    namespace: str
    name: str


class ResourceClaimController(Controller[WorkItem]):
    name = "resourceclaim-controller"
    workers = 50
    versions: ClassVar[tuple[str, ...]] = VERSIONS
    #: Of the generation that may be served beside this.
    other_versions: ClassVar[tuple[str, ...]] = CLASSIC_VERSIONS
    finalizer = claims.FINALIZER
    creator: ClassVar[type[ClaimCreator]] = ClaimCreator

    def __init__(self, context: ControllerContext, *, creates_with_finalizer: bool = False) -> None:
        """With ``creates_with_finalizer``, claims made here spare the scheduler a write: they have its finalizer."""
        super().__init__(context)
        get = context.informers.get
        self._resource = context.resource(RESOURCE_CLAIMS, *self.versions)
        self._pods = get(PODS, indexers={"named claim": _named_claims})
        self._claims = get(self._resource, indexers=ClaimCreator.INDEXERS)
        self._templates = get(context.resource(RESOURCE_CLAIM_TEMPLATES, *self.versions))
        others = None
        if context.discovered is not None:
            others = context.discovered.newest(RESOURCE_CLAIM_TEMPLATES, self.other_versions)
        self._alone = others is None  # all claims are of this generation
        self._creator = self.creator(
            context,
            claims=self._claims,
            templates=self._templates,
            others=get(others) if others is not None else None,
            creates_with_finalizer=creates_with_finalizer,
        )
        self._fixed_names = self.creator.fixed_names
        self._gone: dict[str, None] = {}  # uids of deleted pods, oldest first
        self._pods_by_foreign_claim: dict[
            ObjectKey, dict[ObjectKey, None]
        ] = {}  # claim with a name taken from pods → pods
        self._pods_only = context.quirks.skips_claims_with_other_consumers
        self._in_order = context.quirks.stops_at_first_unusable_claim
        if self.name == ResourceClaimController.name:
            self._show()
        self._pods.add_handler(on_set=self._pod_set, on_delete=self._pod_gone)
        self._claims.add_handler(on_set=self._claim_set, on_delete=self._claim_gone)
        self._templates.add_handler(on_set=self._template_set)

    def _show(self) -> None:
        self.context.metrics.registry.gauge(
            "resourceclaim_controller_resource_claims",
            "Number of ResourceClaims, categorized by allocation status, admin access, and source. Source can be "
            "'resource_claim_template' (created from a template), 'extended_resource' (extended resources), or empty "
            "(manually created by a user).",
            "allocated", "admin_access", "source",
            read=lambda: count_claims(self._claims.items()),
        )  # fmt: skip

    # -- what generations differ in ---------------------------------------------------------------------------------

    def is_of_this_generation(self, claim: Document) -> bool:
        return self._alone or not bridge.is_classic(claim)

    def released(self, claim: Document, remaining: Iterable[Document]) -> Object | None:
        return released(claim, remaining)

    def needs_pod_work(self, pod: Document, claim: Document) -> bool:
        return should_reserve(pod, claim)

    # -- what happens -----------------------------------------------------------------------------------------------

    def _pod_set(self, pod: Object) -> None:
        if "resourceClaims" not in pod["spec"] and _extended_resource_claim(pod) is None:
            return
        metadata = pod["metadata"]
        if self._creator.told:
            self._creator.pod_observed(pod)
        if pods.is_done(pod):
            self._enqueue_claims_of(pod)
        elif "deletionTimestamp" not in metadata and self._pod_needs_work(pod):
            self.enqueue(WorkItem("pod", metadata["namespace"], metadata["name"]))

    def _pod_gone(self, pod: Document) -> None:
        if "resourceClaims" not in pod["spec"] and _extended_resource_claim(pod) is None:
            return
        self._creator.pod_gone(pod)
        self._gone[pod["metadata"]["uid"]] = None
        while len(self._gone) > _MAX_DELETED_PODS:
            del self._gone[next(iter(self._gone))]
        self._enqueue_claims_of(pod)

    def _enqueue_claims_of(self, pod: Document) -> None:
        namespace = pod["metadata"]["namespace"]
        for wanted in claims.references(pod, fixed_names=self._fixed_names):
            if wanted.claim is not None:
                self.enqueue(WorkItem("claim", namespace, wanted.claim))
        if (extended := _extended_resource_claim(pod)) is not None:
            self.enqueue(WorkItem("claim", namespace, extended))

    def _claim_set(self, claim: Object) -> None:
        if not self.is_of_this_generation(claim):
            return
        metadata = claim["metadata"]
        owner = owning_pod(claim)
        if owner is not None and self._creator.unobserved:
            self._creator.claim_observed(claim, owner)
        if self._claim_needs_work(claim, owner):
            self.enqueue(WorkItem("claim", metadata["namespace"], metadata["name"]))
        self._recheck_pods_of(claim, owner)

    def _claim_gone(self, claim: Object) -> None:
        self._recheck_pods_of(claim, owning_pod(claim), gone=True)

    def _recheck_pods_of(self, claim: Object, owner: Document | None, *, gone: bool = False) -> None:
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        if owner is not None:
            pod = self._pods.get(namespace, owner["name"])
            # The scheduler reserves claims for pods that it places; only others may need something from us.
            if (
                pod is not None
                and pod["metadata"]["uid"] == owner["uid"]
                and (gone or pod["spec"].get("nodeName"))
            ):
                self._pod_set(pod)
        for pod in self._pods.by_index("named claim", f"{namespace}/{name}"):
            self._pod_set(pod)
        if self._pods_by_foreign_claim:
            self._recheck_pods(self._pods_by_foreign_claim.pop(ObjectKey(namespace, name), ()))

    def _template_set(self, template: Object) -> None:
        self._recheck_pods(self._creator.template_observed(template))

    def _recheck_pods(self, pods: Iterable[ObjectKey]) -> None:
        for key in pods:
            pod = self._pods.get(*key)
            if pod is not None:
                self._pod_set(pod)

    def _pod_needs_work(self, pod: Object) -> bool:
        """Whether a claim is to be made or reserved."""
        namespace = pod["metadata"]["namespace"]
        for entry in pod["spec"].get("resourceClaims") or ():
            try:
                wanted = claims.reference(pod, entry, fixed_names=self._fixed_names)
            except claims.ClaimNotCreated:
                return True
            stuck = wanted.claim is None  # long ago somebody found that none is needed
            if wanted.claim is None:
                pass
            elif (claim := self._claims.get(namespace, wanted.claim)) is None:
                uid = pod["metadata"]["uid"]
                if wanted.generated and self._creator.made(uid, wanted.entry) != wanted.claim:
                    return True
                stuck = not wanted.generated
            elif wanted.generated and claims.not_for_pod(pod, claim):
                # Nothing can be done until that other claim is gone.
                self._pods_by_foreign_claim.setdefault(key_of(claim), {})[key_of(pod)] = None
                stuck = True
            elif self.needs_pod_work(pod, claim):
                return True
            if stuck and self._in_order:
                return False
        return False

    def _claim_needs_work(self, claim: Document, owner: Document | None) -> bool:
        metadata = claim["metadata"]
        if "deletionTimestamp" in metadata:
            return True
        reserved = (claim.get("status") or {}).get("reservedFor")
        if reserved:
            return not all(self._is_used_by(metadata["namespace"], entry) for entry in reserved)
        return owner is not None and self._is_abandoned(metadata["namespace"], owner)

    def _is_used_by(self, namespace: str, consumer: Document) -> bool | None:
        """Whether a consumer is still there; None if only the server can tell."""
        if consumer.get("apiGroup") or consumer["resource"] != "pods":
            return True  # somebody we do not know
        if consumer["uid"] in self._gone:
            return False
        pod = self._pods.get(namespace, consumer["name"])
        if pod is None:
            return None
        return bool(pod["metadata"]["uid"] == consumer["uid"]) and not pods.is_done(pod)

    def _is_abandoned(self, namespace: str, owner: Document) -> bool:
        """Whether the pod that a claim was made for is certain not to need it. A pod not known may just be new."""
        pod = self._pods.get(namespace, owner["name"])
        return pod is not None and (pod["metadata"]["uid"] != owner["uid"] or pods.is_done(pod))

    async def sync(self, key: WorkItem) -> float | None:
        if key.kind == "pod":
            await self._sync_pod(key)
        else:
            await self._sync_claim(key)
        return None

    # -- pods -------------------------------------------------------------------------------------------------------

    async def _sync_pod(self, key: WorkItem) -> None:
        pod = self._pods.get(key.namespace, key.name)
        if pod is None or "deletionTimestamp" in pod["metadata"] or not self._pod_needs_work(pod):
            return
        await self._creator.create_for(pod)
        if pod["spec"].get("nodeName"):
            await self.reserve_all(pod)

    async def reserve_all(self, pod: Object) -> None:
        for claim in self._usable(pod):
            if should_reserve(pod, claim) and self.is_of_this_generation(claim):
                await self.reserve(pod, claim)

    def _usable(self, pod: Object) -> Iterator[Object]:
        """The pod's claims up to the first that is not there or not the pod's, unless another generation has it."""
        for entry in pod["spec"].get("resourceClaims") or ():
            wanted = claims.known_reference(pod, entry, fixed_names=self._fixed_names)
            if wanted is not None and wanted.claim is None:
                continue
            claim = self._claims.get(pod["metadata"]["namespace"], wanted.claim or "") if wanted else None
            if wanted and claim and not (wanted.generated and claims.not_for_pod(pod, claim)):
                yield claim
            elif self._alone:
                return

    async def reserve(self, pod: Object, claim: Object) -> None:
        status = claim["status"]
        reserved = [*(status.get("reservedFor") or ()), claims.consumer_reference(pod)]
        changed = {**claim, "status": {**status, "reservedFor": reserved}}
        await self.context.client.update_status(self._resource, pod["metadata"]["namespace"], changed)  # type: ignore[arg-type]

    # -- claims -----------------------------------------------------------------------------------------------------

    async def _sync_claim(self, key: WorkItem) -> None:
        claim = self._claims.get(key.namespace, key.name)
        if claim is None or not self.is_of_this_generation(claim):
            return
        consumers = (claim.get("status") or {}).get("reservedFor") or ()
        if self._pods_only and any(c.get("apiGroup") or c["resource"] != "pods" for c in consumers):
            return
        remaining = [c for c in consumers if await self._is_still_used_by(key.namespace, c)]
        status = self.released(claim, remaining)
        if status is not None:
            claim = await self.context.client.update_status(
                self._resource, key.namespace, {**claim, "status": status}
            )
        looked_at = status is not None or "deletionTimestamp" in claim["metadata"]
        if looked_at and has_needless_finalizer(claim, self.finalizer):
            metadata = claim["metadata"]
            finalizers = [f for f in metadata["finalizers"] if f != self.finalizer]
            changed = {**claim, "metadata": {**metadata, "finalizers": finalizers}}
            claim = await self.context.client.update(self._resource, key.namespace, changed)  # type: ignore[arg-type]
        owner = owning_pod(claim)
        if remaining or owner is None or "deletionTimestamp" in claim["metadata"]:
            return
        # The garbage collector would do this, too, but perhaps not for a long time: finished pods stay.
        if self._is_abandoned(key.namespace, owner):
            with contextlib.suppress(NotFound):
                await self.context.client.delete(
                    self._resource, key.namespace, key.name, uid=claim["metadata"]["uid"]
                )

    async def _is_still_used_by(self, namespace: str, consumer: Document) -> bool:
        known = self._is_used_by(namespace, consumer)
        if known is not None:
            return known
        # Perhaps it is so new that no informer has shown it: to take its claim away would be bad.
        try:
            pod = await self.context.client.get(PODS, namespace, consumer["name"])
        except NotFound:
            return False
        return bool(pod["metadata"]["uid"] == consumer["uid"])


def _extended_resource_claim(pod: Document) -> str | None:
    """The claim that the scheduler made for the pod's extended resources."""
    found = (pod.get("status") or {}).get("extendedResourceClaimStatus")
    return found["resourceClaimName"] if found else None


def _named_claims(pod: Object) -> list[str]:
    """The claims that a pod names itself; those made for it are found through their owner."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return []
    namespace = pod["metadata"]["namespace"]
    return [
        f"{namespace}/{name}"
        for entry in entries
        if (name := claims.claim_and_template_names(entry)[0]) is not None
    ]
