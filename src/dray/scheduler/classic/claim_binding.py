"""Classic claims in a binding cycle, alone or beside claims of the current generation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.api import claims
from dray.client.client import PatchType
from dray.placement.claims import ClassicDeallocate, PublishSchedulingContext, ReleaseReservations
from dray.placement.classic.attempt import ClassicReservation
from dray.placement.classic.cache import FINALIZER, ClassicCache
from dray.placement.classic.mixed import MixedReservation
from dray.scheduler.binding.claim_binding import PreFlight
from dray.scheduler.classic.writer import ClassicWriter

if TYPE_CHECKING:
    from dray.api.types.resource_v1alpha2 import ResourceClaim, ResourceClaimStatus
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite, Reservation
    from dray.scheduler.binding.claim_binding import ClaimBinders, ClaimBinding


@dataclass(frozen=True, slots=True)
class ClassicClaimBinders:
    """Binds and frees classic claims; what concerns other claims is left to ``device``."""

    writer: ClassicWriter
    classic_cache: ClassicCache
    device: ClaimBinders

    def of(
        self, pod: PodInfo, node: str, reservation: Reservation | None, *, binding_timeout: float
    ) -> ClaimBinding:
        match reservation:
            case ClassicReservation():
                return ClassicClaimBinding(self.writer, self.classic_cache, pod, reservation)
            case MixedReservation(classic, device):
                return MixedClaimBinding(
                    ClassicClaimBinding(self.writer, self.classic_cache, pod, classic),
                    self.device.of(pod, node, device, binding_timeout=binding_timeout),
                )
        return self.device.of(pod, node, reservation, binding_timeout=binding_timeout)

    async def post_filter(self, pod: PodInfo, writes: Sequence[PostFilterWrite]) -> None:
        for write in writes:
            match write:
                case ClassicDeallocate():
                    await self.writer.deallocate(pod, write)
                case PublishSchedulingContext():
                    await self.writer.publish(pod, write)
                case ReleaseReservations(reserved):
                    for claim in reserved:
                        await self.writer.unreserve(pod, claim)
                case _:
                    await self.device.post_filter(pod, (write,))


@dataclass(frozen=True, slots=True)
class ClassicClaimBinding:
    """The classic claims of one pod in one binding cycle."""

    writer: ClassicWriter
    classic_cache: ClassicCache
    pod_on_node: PodInfo
    reservation: ClassicReservation

    def pre_flight(self) -> PreFlight:
        return PreFlight.SKIP

    def reserve(self) -> None:
        plan = self.reservation.plan
        for claim, allocation in zip(plan.claims, plan.results, strict=True):
            self.classic_cache.assume(claim, allocation)

    async def write(self) -> None:
        """Reserve every claim for the pod, with the allocation where the scheduler makes it."""
        plan, pod, writer = self.reservation.plan, self.pod_on_node, self.writer
        allocations = {
            claim["metadata"]["uid"]: (driver, allocation)
            for claim, driver, allocation in zip(plan.claims, plan.drivers, plan.results, strict=True)
        }
        for claim in self.reservation.claims:
            if claims.is_reserved_for(claim, pod.uid):
                continue
            metadata = claim["metadata"]
            status: ResourceClaimStatus = {}
            if metadata["uid"] in allocations:
                await self._protect(claim)
                status["driverName"], status["allocation"] = allocations[metadata["uid"]]
            status["reservedFor"] = [claims.consumer_reference(pod.document)]
            written = await writer.client.patch_status(
                writer.claims,
                metadata["namespace"],
                metadata["name"],
                {"metadata": {"uid": metadata["uid"]}, "status": status},
                type=PatchType.STRATEGIC,
            )
            self.classic_cache.set_claim(written)

    async def release(self, *, deallocate: bool = False) -> None:
        """A classic claim is deallocated by its driver."""
        for claim in self.reservation.plan.claims:
            self.classic_cache.forget(claim)
        for claim in self.reservation.claims:
            metadata = claim["metadata"]
            current = self.classic_cache.claim(metadata["namespace"], metadata["name"])
            if current is not None and claims.is_reserved_for(current, self.pod_on_node.uid):
                await self.writer.unreserve(self.pod_on_node, claim)

    async def done(self) -> None:
        await self.writer.delete_context(self.pod_on_node)

    async def _protect(self, claim: ResourceClaim) -> None:
        metadata = claim["metadata"]
        finalizers = metadata.get("finalizers") or []
        if FINALIZER not in finalizers:
            protected: ResourceClaim = {
                **claim,
                "metadata": {**metadata, "finalizers": [*finalizers, FINALIZER]},
            }
            await self.writer.client.update(self.writer.claims, metadata["namespace"], protected)


@dataclass(frozen=True, slots=True)
class MixedClaimBinding:
    """The claims of both generations of one pod in one binding cycle."""

    classic: ClassicClaimBinding
    device: ClaimBinding

    @property
    def pod_on_node(self) -> PodInfo:
        return self.device.pod_on_node

    def pre_flight(self) -> PreFlight:
        return PreFlight.WAITS

    def reserve(self) -> None:
        self.classic.reserve()
        self.device.reserve()

    async def write(self) -> None:
        await self.device.write()
        await self.classic.write()

    async def release(self, *, deallocate: bool = False) -> None:
        await self.classic.release(deallocate=deallocate)
        await self.device.release(deallocate=deallocate)

    async def done(self) -> None:
        await self.classic.done()
