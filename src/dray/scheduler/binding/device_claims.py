"""The claims of the current generation in a binding cycle: allocation and reservation, in upstream's order, or release.

Every write is conditional on the version that the decision was based on. Allocation and reservation are one write, so
nobody ever sees one without the other.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING
from weakref import WeakValueDictionary

from dray.api import claims, objects
from dray.api.errors import Conflict, NotFound, StatusError
from dray.client.client import Client, PatchType
from dray.client.resources import PODS, RESOURCE_CLAIMS
from dray.placement.cache.pods import NODE_ALLOCATABLE_CLAIM_STATUSES
from dray.placement.claims import Deallocate, DeleteLeftover
from dray.placement.plugins import binding_conditions, extended_resources
from dray.placement.plugins.dynamic_resources import DeviceReservation
from dray.scheduler.binding.claim_binding import BindingError, NoClaims, PreFlight
from dray.scheduler.events.pod_status import timestamp

if TYPE_CHECKING:
    from dray.api.types.core import Pod, PodExtendedResourceClaimStatus
    from dray.api.types.resource import AllocationResult, ResourceClaim, ResourceClaimStatus
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite, Reservation
    from dray.placement.plugins.dynamic_resources import NodePlan
    from dray.scheduler.binding.binding_conditions import BindingConditionsWaiter
    from dray.scheduler.binding.claim_binding import ClaimBinding
    from dray.scheduler.events.pod_status import PodStatusWriter
    from dray.scheduler.events.reporter import Reporter
    from dray.scheduler.metrics import Metrics
    from dray.scheduler.quirks import SchedulerQuirks

log = logging.getLogger(__name__)

_ATTEMPTS = 5


class DeviceClaimBinders:
    """Binds and frees claims of the current generation. Nothing is taken from a pod that is bound all the same."""

    def __init__(
        self,
        client: Client,
        claim_cache: ClaimCache,
        statuses: PodStatusWriter,
        reporter: Reporter,
        waiter: BindingConditionsWaiter,
        quirks: SchedulerQuirks,
        *,
        metrics: Metrics,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.client = client
        self.claim_cache = claim_cache
        self.statuses = statuses
        self.reporter = reporter
        self.waiter = waiter
        self.quirks = quirks
        self.metrics = metrics
        self.clock = clock
        self._group_claims: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def group_claim_lock(self, uid: str) -> asyncio.Lock:
        """Members of a group write a claim that they share one after the other."""
        return self._group_claims.setdefault(uid, asyncio.Lock())

    def of(
        self, pod: PodInfo, node: str, reservation: Reservation | None, *, binding_timeout: float
    ) -> ClaimBinding:
        if reservation is None:
            return NoClaims(pod)
        assert isinstance(reservation, DeviceReservation)
        return DeviceClaimBinding(self, pod, node, reservation, binding_timeout=binding_timeout)

    async def post_filter(self, pod: PodInfo, writes: Sequence[PostFilterWrite]) -> None:
        for write in writes:
            match write:
                case Deallocate(claim):
                    await self._deallocate(pod, claim)
                case DeleteLeftover(claim):
                    await self.delete(pod, claim)

    async def _deallocate(self, pod: PodInfo, claim: ResourceClaim) -> None:
        """Free an allocated claim that nobody uses and that kept a pod from its nodes."""
        if claims.is_reserved_for(claim, pod.uid) and await self._is_bound(pod):
            return
        status = (claim.get("status") or {}).copy()
        status.pop("allocation", None)
        status.pop("reservedFor", None)
        status.pop("devices", None)
        freed: ResourceClaim = {**claim, "status": status}
        try:
            written = await self.client.update_status(RESOURCE_CLAIMS, claim["metadata"]["namespace"], freed)
        except StatusError as problem:
            log.info("claim %s stays allocated: %s", claim["metadata"]["name"], problem)
        else:
            self.claim_cache.set_claim(written)

    async def unreserve(
        self, pod: PodInfo, reserved: Sequence[ResourceClaim], *, deallocate: bool = False, group: str = ""
    ) -> None:
        """Take back reservations that a failed binding has left behind.

        Allocations stay for the next attempt, as upstream, unless they are to be deallocated. A pod that is deleted has
        no next attempt, and the claim controller frees a claim only when it takes the last reservation away itself: so
        the scheduler frees it here. ``group``: the uid of the group that has reserved claims of the pod.
        """
        if not reserved:
            return
        current = await self._current(pod)
        if current is not None and current["spec"].get("nodeName"):
            return
        is_last_attempt = current is None or objects.is_terminating(current)
        for claim in reserved:
            metadata = claim["metadata"]
            try:
                if deallocate or (is_last_attempt and objects.controller_of(claim) is None):
                    await self._free([pod.uid, group] if group else [pod.uid], claim)
                else:
                    await self._remove_reservations([pod.uid], claim)
            except NotFound:
                pass
            except StatusError as problem:
                log.warning(
                    "claim %s/%s stays reserved: %s", metadata["namespace"], metadata["name"], problem
                )

    async def _remove_reservations(self, users: Collection[str], claim: ResourceClaim) -> None:
        metadata = claim["metadata"]
        await self.client.patch_status(
            RESOURCE_CLAIMS,
            metadata["namespace"],
            metadata["name"],
            {
                "metadata": {"uid": metadata["uid"]},
                "status": {"reservedFor": [{"$patch": "delete", "uid": uid} for uid in users]},
            },
            type=PatchType.STRATEGIC,
        )

    async def _free(self, users: Collection[str], claim: ResourceClaim) -> None:
        """Remove the reservations for these uids, and with the last reservation the allocation, in one write."""
        metadata = claim["metadata"]
        for _ in range(_ATTEMPTS):
            current = await self.client.get(RESOURCE_CLAIMS, metadata["namespace"], metadata["name"])
            if current["metadata"]["uid"] != metadata["uid"]:
                return
            status = (current.get("status") or {}).copy()
            before = status.get("reservedFor") or ()
            status["reservedFor"] = [r for r in before if r["uid"] not in users]
            if len(status["reservedFor"]) == len(before):
                return
            if not status["reservedFor"]:
                status.pop("allocation", None)
                status.pop("devices", None)
            try:
                written = await self.client.update_status(
                    RESOURCE_CLAIMS, metadata["namespace"], {**current, "status": status}
                )
            except Conflict:
                continue
            self.claim_cache.set_claim(written)
            return
        await self._remove_reservations(users, claim)

    async def delete(self, pod: PodInfo, claim: ResourceClaim) -> None:
        """Delete a claim for extended resources of a failed attempt, unless somebody has begun to use it."""
        if await self._is_bound(pod):
            return
        metadata = claim["metadata"]
        try:
            finalizers = [f for f in metadata.get("finalizers") or () if f != claims.FINALIZER]
            if finalizers != (metadata.get("finalizers") or []):
                released: ResourceClaim = {**claim, "metadata": {**metadata, "finalizers": finalizers}}
                claim = await self.client.update(RESOURCE_CLAIMS, metadata["namespace"], released)
            await self.client.delete(
                RESOURCE_CLAIMS,
                metadata["namespace"],
                metadata["name"],
                uid=metadata["uid"],
                resource_version=claim["metadata"]["resourceVersion"],
            )
        except (NotFound, Conflict):
            pass  # the claim is deleted already, or somebody has begun to use it
        except StatusError as problem:
            log.warning("claim %s/%s is left over: %s", metadata["namespace"], metadata["name"], problem)

    async def _is_bound(self, pod: PodInfo) -> bool:
        """Whether the pod has a node all the same: by a write whose answer was lost, or by another scheduler."""
        current = await self._current(pod)
        return current is not None and bool(current["spec"].get("nodeName"))

    async def _current(self, pod: PodInfo) -> Pod | None:
        """The pod as it is stored; None if it is gone, or as given where the server does not answer."""
        try:
            current = await self.client.get(PODS, pod.namespace, pod.name)
        except NotFound:
            return None
        except StatusError:
            return pod.document
        return current if current["metadata"]["uid"] == pod.uid else None


class DeviceClaimBinding:
    """The claims of one pod in one binding cycle."""

    __slots__ = (
        "_binders",
        "_claims",
        "_created",
        "_group",
        "_node",
        "_plan",
        "_pod",
        "_reserved",
        "_shared",
        "_timeout",
        "_waits",
    )

    def __init__(
        self,
        binders: DeviceClaimBinders,
        pod: PodInfo,
        node: str,
        reservation: DeviceReservation,
        *,
        binding_timeout: float,
    ) -> None:
        self._binders = binders
        self._pod = pod
        self._node = node
        self._claims = reservation.claims
        self._plan = reservation.plan
        self._group = reservation.group
        self._shared = reservation.shared  # the claims that are reserved for the group
        self._timeout = binding_timeout
        #: Claims that have been, or may have been, reserved in this cycle. Another scheduler may have reserved others
        #: for the pod, and those are not released here.
        self._reserved: list[ResourceClaim] = []
        self._created: ResourceClaim | None = None  # the claim for extended resources
        self._waits = binders.quirks.waits_for_binding_conditions and _has_binding_conditions(reservation)

    @property
    def pod_on_node(self) -> PodInfo:
        statuses = self._plan.node_allocatable
        return self._pod.with_node_allocatable(statuses) if statuses else self._pod

    def pre_flight(self) -> PreFlight:
        return PreFlight.WAITS if self._waits else PreFlight.WRITES

    def reserve(self) -> None:
        for claim, allocation in zip(self._plan.claims, self._plan.results, strict=True):
            exists = "uid" in claim["metadata"]
            self._binders.claim_cache.assume(
                claim if exists else extended_resources.in_memory_claim(claim, self._pod), allocation
            )

    # -- prebind ----------------------------------------------------------------------------------------------------

    async def write(self) -> None:
        plan = self._plan
        bound: list[ResourceClaim] = []
        for claim in self._claims:
            if claim["metadata"]["uid"] in self._shared:
                claim = await self._bind_group_claim(claim)
            elif not claims.is_reserved_for(claim, self._pod.uid):
                claim = await self._bind_claim(claim, plan.allocation_for(claim))
            bound.append(claim)
        if plan.extended_resource_claim is not None:
            bound.append(await self._bind_extended_resource_claim(plan, plan.extended_resource_claim))
        if plan.node_allocatable:
            await self._binders.statuses.patch(
                self._pod, {NODE_ALLOCATABLE_CLAIM_STATUSES: list(plan.node_allocatable)}
            )
        if self._waits and any(map(binding_conditions.wants_binding_conditions, bound)):
            self._binders.reporter.binding_conditions_pending(self._pod, self._node)
            outcome = await self._binders.waiter.wait(self._pod, bound, limit=self._timeout)
            if isinstance(outcome, binding_conditions.Failed):
                raise BindingError(outcome.message)

    async def _bind_group_claim(self, claim: ResourceClaim) -> ResourceClaim:
        """The first member that gets here allocates and reserves the claim, for the group; the others have nothing to do."""
        assert self._group is not None
        metadata = claim["metadata"]
        async with self._binders.group_claim_lock(metadata["uid"]):
            current = self._binders.claim_cache.claim(metadata["namespace"], metadata["name"])
            if current is None or current["metadata"]["uid"] != metadata["uid"]:
                raise BindingError(
                    f"claim {metadata['namespace']}/{metadata['name']} got deleted in the meantime"
                )
            if claims.is_reserved_for(current, self._group.uid):
                return current
            allocation = None if claims.allocation(current) is not None else claims.allocation(claim)
            return await self._bind_claim(current, allocation or self._plan.allocation_for(claim))

    async def _bind_claim(self, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        """Add the finalizer, then allocation and reservation together; after a conflict from a fresh read."""
        namespace, name = claim["metadata"]["namespace"], claim["metadata"]["name"]
        who, decided, before = f"{namespace}/{name}", claim, ""
        doing, conflict = "", ""
        for attempt in range(_ATTEMPTS):
            if attempt:
                claim = await self._read_again(namespace, name)
                if claim["metadata"]["resourceVersion"] == before:
                    break  # the claim has not changed: its devices are allocated to another claim by now
            if "deletionTimestamp" in claim["metadata"]:
                raise BindingError(f"claim {who} got deleted in the meantime")
            try:
                if allocation is not None:
                    if claims.allocation(claim) is not None:
                        raise BindingError(f"claim {who} got allocated elsewhere in the meantime")
                    doing = "add finalizer"
                    claim = await self._protect(claim)
                elif attempt and not _same_devices(claim, decided):
                    raise BindingError(f"claim {who} got allocated elsewhere in the meantime")
                doing = "add allocation and reservation" if allocation is not None else "add reservation"
                before = claim["metadata"]["resourceVersion"]
                wanted = self._with_reservation(claim, allocation)
                self._reserved.append(decided)
                written = await self._binders.client.update_status(RESOURCE_CLAIMS, namespace, wanted)
            except StatusError as problem:
                if problem.http_code < 500 and self._reserved and self._reserved[-1] is decided:
                    self._reserved.pop()  # refused; after any other error the write may have been done all the same
                if isinstance(problem, Conflict):
                    conflict = str(problem)
                    continue
                raise BindingError(f"{doing} to claim {who}: {problem}") from problem
            self._binders.claim_cache.set_claim(written)
            return written
        raise BindingError(f"{doing} to claim {who}: {conflict}")

    async def _read_again(self, namespace: str, name: str) -> ResourceClaim:
        try:
            return await self._binders.client.get(RESOURCE_CLAIMS, namespace, name)
        except StatusError as problem:
            raise BindingError(f"get updated claim {namespace}/{name} after conflict: {problem}") from problem

    async def _protect(self, claim: ResourceClaim) -> ResourceClaim:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if claims.FINALIZER in finalizers:
            return claim
        protected: ResourceClaim = {
            **claim,
            "metadata": {**metadata, "finalizers": [*finalizers, claims.FINALIZER]},
        }
        return await self._binders.client.update(RESOURCE_CLAIMS, metadata["namespace"], protected)

    def _with_reservation(self, claim: ResourceClaim, allocation: AllocationResult | None) -> ResourceClaim:
        status: ResourceClaimStatus = (claim.get("status") or {}).copy()
        if allocation is not None:
            status["allocation"] = allocation
        if self._binders.quirks.waits_for_binding_conditions:
            current = status.get("allocation")
            if current is None:
                raise BindingError(
                    f"claim {claim['metadata']['namespace']}/{claim['metadata']['name']} "
                    "got deallocated elsewhere in the meantime"
                )
            if not current.get("allocationTimestamp") and (
                allocation is not None or self._binders.quirks.dates_foreign_allocations
            ):
                status["allocation"] = {**current, "allocationTimestamp": timestamp(self._binders.clock())}
        if self._group is not None and claim["metadata"]["uid"] in self._shared:
            consumer = claims.group_reference(self._group.document)
        else:
            consumer = claims.consumer_reference(self._pod.document)
        status["reservedFor"] = [*(status.get("reservedFor") or ()), consumer]
        return {**claim, "status": status}

    async def _bind_extended_resource_claim(self, plan: NodePlan, claim: ResourceClaim) -> ResourceClaim:
        """The claim for extended resources is created, allocated, and named in the pod's status."""
        pod, binders = self._pod, self._binders
        if not claim["metadata"].get("name"):
            allocation = plan.allocation_for(claim)
            try:
                claim = await binders.client.create(RESOURCE_CLAIMS, pod.namespace, claim)
            except StatusError as problem:
                binders.metrics.claims_created.inc("failure")
                raise BindingError(
                    f"create claim for extended resources {pod.namespace}/: {problem}"
                ) from problem
            binders.metrics.claims_created.inc("success")
            self._created = claim
            binders.claim_cache.assume_created(extended_resources.in_memory_uid(pod), claim)
            claim = await self._bind_claim(claim, allocation)
        name = claim["metadata"]["name"]
        await self._name_claim({"requestMappings": list(plan.mappings), "resourceClaimName": name})
        return claim

    async def _name_claim(self, status: PodExtendedResourceClaimStatus) -> None:
        """Only if the pod has no node yet: the claim that a running pod uses must not be replaced."""
        pod = self._pod
        for _ in range(_ATTEMPTS):
            current = await self._binders.client.get(PODS, pod.namespace, pod.name)
            if current["metadata"]["uid"] != pod.uid or current["spec"].get("nodeName"):
                raise BindingError(f"pod {pod.key} got a node in the meantime")
            if (current.get("status") or {}).get("extendedResourceClaimStatus") == status:
                return
            try:
                await self._binders.statuses.patch(
                    pod,
                    {"extendedResourceClaimStatus": status},
                    version=current["metadata"]["resourceVersion"],
                )
            except Conflict:
                continue
            return
        raise BindingError(f"name the claim for extended resources in pod {pod.key}: too many conflicts")

    # -- unreserve --------------------------------------------------------------------------------------------------

    async def release(self, *, deallocate: bool = False) -> None:
        pod, binders, created = self._pod, self._binders, self._created
        claim_cache = binders.claim_cache
        for claim in self._plan.claims:
            claim_cache.forget(claim["metadata"].get("uid") or extended_resources.in_memory_uid(pod))
        # A claim of the group stays reserved for the other members, until the group is deleted or all are taken back.
        group = self._group.uid if deallocate and self._group is not None else ""
        mine = [c for c in self._reserved if c is not created]
        await binders.unreserve(
            pod,
            mine if group else [c for c in mine if c["metadata"]["uid"] not in self._shared],
            deallocate=deallocate,
            group=group,
        )
        if created is not None:
            metadata = created["metadata"]
            claim_cache.forget(metadata["uid"])
            await binders.delete(pod, claim_cache.claim(metadata["namespace"], metadata["name"]) or created)
        if self._plan.node_allocatable:
            await self._clear_node_allocatable()

    async def _clear_node_allocatable(self) -> None:
        """The claims of the pod take nothing of the node's resources."""
        try:
            await self._binders.statuses.patch(self._pod, {}, clears=(NODE_ALLOCATABLE_CLAIM_STATUSES,))
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("pod %s keeps its %s: %s", self._pod.key, NODE_ALLOCATABLE_CLAIM_STATUSES, problem)

    async def done(self) -> None:
        pass


def _has_binding_conditions(reservation: DeviceReservation) -> bool:
    """Whether a device that the claims have, or are given, has to be made ready for its node."""
    return any(map(binding_conditions.has_binding_conditions, reservation.plan.results)) or any(
        map(binding_conditions.wants_binding_conditions, reservation.claims)
    )


def _same_devices(claim: ResourceClaim, other: ResourceClaim) -> bool:
    """Whether two versions of a claim have the same devices, for the same nodes."""
    one, two = claims.allocation(claim) or {}, claims.allocation(other) or {}
    return one.get("devices") == two.get("devices") and one.get("nodeSelector") == two.get("nodeSelector")
