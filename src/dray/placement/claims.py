"""What the claims of a pod mean for its scheduling, whichever generation they are of: one protocol for all of them.

A ``ClaimPlugin`` begins a ``ClaimAttempt`` for a pod. The attempt says what each node would give the claims (a plan),
turns the plan of the chosen node into a reservation, and names the writes that help when no node fits. Plans,
reservations and writes are frozen values; the scheduler carries them out.

Claims of the current generation are dealt with in ``plugins.dynamic_resources``, those of v1alpha1 and v1alpha2 in
``classic.plugin``, and pods that have both in ``classic.mixed``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

from dray.api.claims import reserved_for

if TYPE_CHECKING:
    from dray.allocation import Reasons
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.resource_v1alpha2 import PodSchedulingContext
    from dray.api.types.resource_v1alpha2 import ResourceClaim as ClassicClaim
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.classic.attempt import ClassicPlan, ClassicReservation
    from dray.placement.classic.mixed import MixedPlan, MixedReservation
    from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
    from dray.placement.plugins.dynamic_resources import DeviceAttempt, DeviceReservation, NodePlan
    from dray.placement.status import Rejection

    #: What one node would give the claims of a pod.
    ClaimPlan: TypeAlias = NodePlan | ClassicPlan | MixedPlan
    #: The plan of the chosen node, with the claims of the pod.
    Reservation: TypeAlias = DeviceReservation | ClassicReservation | MixedReservation


@dataclass(frozen=True, slots=True)
class Deallocate:
    """Free an allocated claim that nobody uses and that keeps the pod from its nodes."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class DeleteLeftover:
    """Delete the claim for extended resources of an earlier attempt, which does not fit any more."""

    claim: ResourceClaim


@dataclass(frozen=True, slots=True)
class ClassicDeallocate:
    """Free a classic claim, or ask its driver to."""

    claim: ClassicClaim
    context: PodSchedulingContext | None


@dataclass(frozen=True, slots=True)
class PublishSchedulingContext:
    """Tell the drivers which nodes are possible and which one is selected; None leaves a field as it is."""

    context: PodSchedulingContext | None
    selected: str | None
    potential: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class ReleaseReservations:
    """Take back the reservations that drivers have made for the pod."""

    claims: Sequence[ClassicClaim]


ClassicWrite = ClassicDeallocate | PublishSchedulingContext | ReleaseReservations
PostFilterWrite = Deallocate | DeleteLeftover | ClassicWrite


class ClaimPostFilter(NamedTuple):
    """What the DynamicResources plugin says when no node fits, and the writes that may help, in their order."""

    message: str
    writes: tuple[PostFilterWrite, ...] = ()


class ClaimAttempt(Protocol):
    """The claims of one pod in one attempt to schedule it."""

    @property
    def shape(self) -> bytes | None:
        """Equal for pods whose claims every node treats alike; None when nothing can be shared."""
        ...

    @property
    def unallocated(self) -> Sequence[ResourceClaim]:
        """The claims of the current generation that are to be allocated."""
        ...

    @property
    def scores_matter(self) -> bool:
        """Whether the plans of nodes have to be compared with each other."""
        ...

    @property
    def device_preemption(self) -> DeviceAttempt | None:
        """The attempt that can tell which devices the eviction of pods would free; None where none can."""
        ...

    def filter(self, node: NodeInfo) -> ClaimPlan | Rejection:
        """The plan for this node, or why there is none. May raise the allocator's error."""
        ...

    def score(self, plan: ClaimPlan) -> int: ...

    def reserve(self, node: str, plan: ClaimPlan) -> Bind | Unschedulable:
        """Upstream's Reserve; a pod with classic claims may have to wait for their drivers instead."""
        ...

    def post_filter(self, rejected_by: frozenset[str]) -> ClaimPostFilter:
        """Upstream's PostFilter of the DynamicResources plugin. ``rejected_by``: the plugins that rejected nodes."""
        ...

    def reasons(self, nodes: Iterable[NodeInfo]) -> Mapping[str, Reasons]:
        """What the allocator says about nodes that were rejected for their devices."""
        ...


class ClaimPlugin(Protocol):
    """Begins attempts for pods, and says which pods are not to be tried yet."""

    def pre_enqueue(self, pod: PodInfo) -> str:
        """Why the pod is not to be tried yet, or an empty string."""
        ...

    def pre_filter(self, pod: PodInfo) -> ClaimAttempt | Rejection | Gated | Failure | None:
        """An attempt, a rejection by every node, or None when the pod needs no devices."""
        ...


def is_unused(claim: ResourceClaim | ClassicClaim, pod: PodInfo) -> bool:
    """Whether a claim is reserved for no pod, or for this one alone."""
    reserved = reserved_for(claim)
    return not reserved or (len(reserved) == 1 and reserved[0].get("uid") == pod.uid)
