"""One attempt to schedule a pod with classic claims: what each node would give them, and what drivers are told. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.api import claims
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.claims import (
    ClaimPostFilter,
    ClassicDeallocate,
    PostFilterWrite,
    PublishSchedulingContext,
    ReleaseReservations,
    is_unused,
)
from dray.placement.classic.cache import ClassicCache, allocation_of
from dray.placement.classic.structured_parameters import (
    NodeDriver,
    StructuredClaim,
    SuitabilityError,
    allocate,
    allocated_instances,
)
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.status import Rejection, fit_error_message

if TYPE_CHECKING:
    from dray.allocation import Reasons
    from dray.api.nodeaffinity import NodeTest
    from dray.api.types.resource_v1alpha2 import (
        AllocationResult,
        PodSchedulingContext,
        ResourceClaim,
        ResourceClaimSchedulingStatus,
    )
    from dray.placement.claims import ClaimPlan
    from dray.placement.classic.quirks import ClassicQuirks

MAX_POTENTIAL_NODES = 128  # in a PodSchedulingContext

_UNSUITABLE = Rejection(
    PLUGIN, ("resourceclaim cannot be allocated for the node (unsuitable)",), resolvable=False
)
_EXCLUDED = Rejection(PLUGIN, ("excluded by resource class node filter",), resolvable=False)
_NOT_AVAILABLE = Rejection(PLUGIN, ("resourceclaim not available on the node",), resolvable=False)


@dataclass(frozen=True, slots=True)
class ClaimInformation:
    """One claim of the pod and what is known about it."""

    name: str  # of the entry in the pod's resourceClaims
    claim: ResourceClaim
    nodes: NodeTest | None = None  # where the claim is available, or where its class may be allocated
    scheduling_status: ResourceClaimSchedulingStatus | None = (
        None  # the driver's answer in the scheduling context
    )
    wanted: StructuredClaim | None = None  # set if the scheduler allocates the claim itself

    @property
    def allocated(self) -> bool:
        return allocation_of(self.claim) is not None

    @property
    def delayed(self) -> bool:
        """Whether the claim was allocated for a pod, so that it may be deallocated for one."""
        return self.claim["spec"].get("allocationMode") != "Immediate"


@dataclass(frozen=True, slots=True)
class ClassicPlan:
    """What the scheduler itself would allocate on a node."""

    claims: tuple[ResourceClaim, ...] = ()
    results: tuple[AllocationResult, ...] = ()
    drivers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ClassicReservation:
    """The classic claims of a pod, and what the scheduler allocates to some of them on the chosen node."""

    claims: tuple[ResourceClaim, ...]
    plan: ClassicPlan


class ClassicAttempt:
    """The classic claims of one pod in one attempt to schedule it."""

    shape = None  # nothing is shared: every node is filtered for every pod
    scores_matter = False
    device_preemption = None
    unallocated = ()

    def __init__(
        self,
        pod: PodInfo,
        entries: list[ClaimInformation],
        context: PodSchedulingContext | None,
        classic_cache: ClassicCache,
        quirks: ClassicQuirks,
    ) -> None:
        self.entries = entries
        self.feasible: list[str] = []
        self._pod = pod
        self._context = context
        self._unavailable_claims: dict[str, ResourceClaim] = {}
        self._classic_cache = classic_cache
        self._quirks = quirks

    @property
    def claims(self) -> tuple[ResourceClaim, ...]:
        return tuple(entry.claim for entry in self.entries)

    @property
    def claim_names(self) -> frozenset[str]:
        return frozenset(entry.claim["metadata"]["name"] for entry in self.entries)

    # -- a node -----------------------------------------------------------------------------------------------------

    def filter(self, node: NodeInfo) -> ClassicPlan | Rejection:
        plan = self.plan(node)
        if not isinstance(plan, Rejection):
            self.feasible.append(node.name)
        return plan

    def plan(self, node: NodeInfo) -> ClassicPlan | Rejection:
        """What the node would give the classic claims; other claims may still rule the node out."""
        available = True
        rejection: Rejection | None = None
        given: list[tuple[ClaimInformation, AllocationResult]] = []
        taken: dict[NodeDriver, set[str]] = {}
        for entry in self.entries:
            matches = entry.nodes is None or entry.nodes(node.name, node.labels)
            if entry.allocated:
                if not matches:
                    # Noted even where another claim rules the node out, or the claim would stay allocated for nothing.
                    available = False
                    if entry.delayed:
                        self._unavailable_claims[entry.claim["metadata"]["uid"]] = entry.claim
            elif rejection is not None:
                continue
            elif not matches:
                rejection = _EXCLUDED
            elif entry.wanted is not None:
                allocation = self._allocate(entry.wanted, node.name, taken)
                if isinstance(allocation, Rejection):
                    rejection = allocation
                else:
                    given.append((entry, allocation))
            elif entry.scheduling_status is not None and node.name in (
                entry.scheduling_status.get("unsuitableNodes") or ()
            ):
                rejection = _UNSUITABLE
        if rejection is not None or not available:
            return rejection or _NOT_AVAILABLE
        return ClassicPlan(
            tuple(entry.claim for entry, _ in given),
            tuple(allocation for _, allocation in given),
            tuple(entry.wanted.driver for entry, _ in given if entry.wanted is not None),
        )

    def score(self, plan: ClaimPlan) -> int:
        return 0

    def _allocate(
        self, wanted: StructuredClaim, node: str, taken: dict[NodeDriver, set[str]]
    ) -> AllocationResult | Rejection:
        """An allocation from what is free on the node. ``taken`` is what other claims of the pod have got there."""
        if not taken:
            taken |= {
                place: set(names) for place, names in self._classic_cache.taken.items() if place.node == node
            }
        try:
            allocation = allocate(wanted, node, self._classic_cache.slices, taken)
        except SuitabilityError as problem:
            return Rejection(PLUGIN, (f"checking structured parameters failed: {problem}",), resolvable=False)
        if allocation is None:
            return _UNSUITABLE
        for place, name in allocated_instances(allocation):
            taken.setdefault(place, set()).add(name)
        return allocation

    # -- the outcome ------------------------------------------------------------------------------------------------

    def reserve(self, node: str, plan: ClaimPlan) -> Bind | Unschedulable:
        """The pod waits as long as a driver's controller has to allocate one of its claims."""
        assert isinstance(plan, ClassicPlan)
        return self.negotiate(node) if self.pending else Bind(node, ClassicReservation(self.claims, plan))

    def post_filter(self, rejected_by: frozenset[str]) -> ClaimPostFilter:
        if (unavailable := self.unused_unavailable_claim()) is not None:
            return ClaimPostFilter("deallocation of ResourceClaim completed", (unavailable,))
        held = self.claim_held_while_waiting(rejected_by) if self.pending else None
        return ClaimPostFilter("still not schedulable", () if held is None else (held,))

    def unused_unavailable_claim(self) -> ClassicDeallocate | None:
        """Frees a claim that is allocated for nodes that do not fit, if no other pod uses it."""
        for claim in self._unavailable_claims.values():
            if is_unused(claim, self._pod):
                return ClassicDeallocate(claim, self._context)
        return None

    def claim_held_while_waiting(self, rejected_by: frozenset[str]) -> ClassicDeallocate | None:
        """Frees a claim that a driver has allocated for this pod alone, while another claim of the pod fits nowhere."""
        if PLUGIN not in rejected_by or self._quirks.keeps_claims_of_waiting_pods:
            return None
        for entry in self.entries:
            users = [u.get("uid") for u in (entry.claim.get("status") or {}).get("reservedFor") or ()]
            if entry.allocated and entry.delayed and users == [self._pod.uid]:
                return ClassicDeallocate(entry.claim, self._context)
        return None

    def reasons(self, nodes: Iterable[NodeInfo]) -> Mapping[str, Reasons]:
        return {}

    # -- the negotiation --------------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[ClaimInformation]:
        """The claims that a driver's controller has to allocate."""
        return [entry for entry in self.entries if not entry.allocated and entry.wanted is None]

    def negotiate(self, node: str) -> Unschedulable:
        """Ask the drivers to allocate for ``node``, the best of the feasible ones, or wait for their answer."""
        context = self.scheduling_context(node)
        writes: list[PostFilterWrite] = [] if context is None else [context]
        if self._quirks.releases_reservations_while_waiting and (reserved := self._reserved()):
            writes.append(ReleaseReservations(reserved))
        if self._quirks.waiting_is_an_error:
            selected = (context is not None and context.selected) or self._selected_node() == node
            what = "allocate resource" if selected else "provide information"
            return Unschedulable(
                f'running Reserve plugin "{PLUGIN}": waiting for resource driver to {what}',
                frozenset({PLUGIN}),
                writes=tuple(writes),
                waiting=True,
                reason="SchedulerError",
            )
        message = "waiting for resource driver"
        if context is None:
            message = fit_error_message(1, (Rejection(PLUGIN, (f"{message} to provide information",)),))
        return Unschedulable(message, frozenset({PLUGIN}), writes=tuple(writes), waiting=True)

    def scheduling_context(self, node: str) -> PublishSchedulingContext | None:
        """What to tell the drivers when ``node`` is the best of the feasible ones; None: they know it."""
        known = ((self._context or {}).get("spec") or {}).get("potentialNodes") or ()
        names = self.feasible if len(self.feasible) > 1 else [node]
        potential = None
        if any(name not in known for name in names):
            # A list that is too long keeps the node that is about to be selected.
            chosen = (
                names
                if len(names) <= MAX_POTENTIAL_NODES
                else [node, *(n for n in names if n != node)][:MAX_POTENTIAL_NODES]
            )
            potential = sorted(chosen)
        selected = node if self._may_select() and self._selected_node() != node else None
        if selected is None and potential is None:
            return None
        return PublishSchedulingContext(self._context, selected, potential)

    def _may_select(self) -> bool:
        """Whether enough drivers have answered for a node to be selected."""
        pending = self.pending
        answered = sum(entry.scheduling_status is not None for entry in pending)
        if not self._quirks.counts_own_allocations_as_answers:
            return len(pending) == 1 or answered == len(pending)
        own = sum(entry.wanted is not None and not entry.allocated for entry in self.entries)
        return (len(pending) == 1 and not own) or (answered + own == len(pending) and own < len(pending))

    def _selected_node(self) -> str | None:
        return ((self._context or {}).get("spec") or {}).get("selectedNode")

    def _reserved(self) -> tuple[ResourceClaim, ...]:
        """The claims that drivers have allocated and reserved for the pod."""
        return tuple(
            e.claim for e in self.entries if e.allocated and claims.is_reserved_for(e.claim, self._pod.uid)
        )
