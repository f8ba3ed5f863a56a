"""One attempt to place a pod with classic claims: what each node would give, and what to tell the drivers. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dray.api import claims
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.classic.cache import ClassicCache
from dray.placement.classic.structured_parameters import (
    NodeDriver,
    StructuredClaim,
    SuitabilityError,
    allocate,
    allocated_instances,
)
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.status import Rejection

Document = Mapping[str, Any]

MAX_POTENTIAL_NODES = 128  # in a PodSchedulingContext

_UNSUITABLE = Rejection(
    PLUGIN, ("resourceclaim cannot be allocated for the node (unsuitable)",), resolvable=False
)
_EXCLUDED = Rejection(PLUGIN, ("excluded by resource class node filter",), resolvable=False)
_NOT_AVAILABLE = Rejection(PLUGIN, ("resourceclaim not available on the node",), resolvable=False)


@dataclass(frozen=True, slots=True)
class ClaimInformation:
    """One claim of the pod and what is known about it."""

    name: str  # inside the pod
    claim: Document
    nodes: Any = None  # a test for nodes: where it is available, or where its class may be allocated
    answer: Document | None = None  # the driver's, in the negotiation
    wanted: StructuredClaim | None = None  # to be allocated by the scheduler

    @property
    def allocated(self) -> bool:
        return claims.allocation(self.claim) is not None

    @property
    def delayed(self) -> bool:
        """Allocated for the sake of a pod, so it may be given back for one."""
        return bool(self.claim["spec"].get("allocationMode") != "Immediate")


@dataclass(frozen=True, slots=True)
class ClassicPlan:
    """What the scheduler itself would allocate on a node."""

    claims: tuple[Document, ...] = ()
    results: tuple[Document, ...] = ()
    drivers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodSchedulingState:
    """Changes to a pod's PodSchedulingContext; None leaves a field as it is."""

    selected: str | None = None
    potential: list[str] | None = None

    def __bool__(self) -> bool:
        return self.selected is not None or self.potential is not None


class ClassicAttempt:
    """One attempt of one pod, in the shape in which the placement asks about devices."""

    shape = None  # every node is to be asked
    scores_matter = False
    leftover_claim = None

    def __init__(
        self,
        pod: PodInfo,
        entries: list[ClaimInformation],
        context: Document | None,
        classic_cache: ClassicCache,
        *,
        as_in_130: bool,
    ) -> None:
        self.pod = pod
        self.entries = entries
        self.context = context
        self.claims = [entry.claim for entry in entries]
        self.unavailable_claims: dict[str, Document] = {}
        self.failures: dict[str, Any] = {}
        self.feasible: list[str] = []
        self._classic_cache = classic_cache
        self._as_in_130 = as_in_130

    def on(self, node: NodeInfo) -> ClassicPlan | Rejection:
        given = self.judge(node)
        if not isinstance(given, Rejection):
            self.feasible.append(node.name)
        return given

    def judge(self, node: NodeInfo) -> ClassicPlan | Rejection:
        """What the node would give, as far as this generation is concerned."""
        here = True
        said: Rejection | None = None
        given: list[tuple[ClaimInformation, Document]] = []
        taken: dict[NodeDriver, set[str]] = {}
        for entry in self.entries:
            matches = entry.nodes is None or entry.nodes(node.name, node.labels)
            if entry.allocated:
                if not matches:
                    # Noted down even where another claim rules the node out, or it would be kept for nothing.
                    here = False
                    if entry.delayed:
                        self.unavailable_claims[entry.claim["metadata"]["uid"]] = entry.claim
            elif said is not None:
                continue
            elif not matches:
                said = _EXCLUDED
            elif entry.wanted is not None:
                match self._allocate(entry.wanted, node.name, taken):
                    case Rejection() as rejection:
                        said = rejection
                    case allocation:
                        given.append((entry, allocation))
            elif node.name in ((entry.answer or {}).get("unsuitableNodes") or ()):
                said = _UNSUITABLE
        if said is not None or not here:
            return said or _NOT_AVAILABLE
        return ClassicPlan(
            tuple(entry.claim for entry, _ in given),
            tuple(allocation for _, allocation in given),
            tuple(entry.wanted.driver for entry, _ in given if entry.wanted is not None),
        )

    def score(self, plan: Any) -> int:
        return 0

    def _allocate(
        self, wanted: StructuredClaim, node: str, taken: dict[NodeDriver, set[str]]
    ) -> Document | Rejection:
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

    @property
    def held(self) -> Document | None:
        """A claim that a driver has allocated for this pod alone, which keeps others from it as long as it waits."""
        for entry in self.entries:
            users = [u.get("uid") for u in (entry.claim.get("status") or {}).get("reservedFor") or ()]
            if entry.allocated and entry.delayed and users == [self.pod.uid]:
                return entry.claim
        return None

    @property
    def reserved(self) -> list[Document]:
        """What drivers have allocated and reserved for the pod."""
        return [
            e.claim for e in self.entries if e.allocated and claims.is_reserved_for(e.claim, self.pod.uid)
        ]

    # -- the negotiation --------------------------------------------------------------------------------------------

    @property
    def pending(self) -> list[ClaimInformation]:
        """Claims that wait for a driver's controller."""
        return [entry for entry in self.entries if not entry.allocated and entry.wanted is None]

    def negotiate(self, node: str) -> PodSchedulingState:
        """What to tell the drivers when ``node`` is the best of the feasible ones."""
        spec = (self.context or {}).get("spec") or {}
        known = spec.get("potentialNodes") or ()
        names = self.feasible if len(self.feasible) > 1 else [node]
        potential = None
        if any(name not in known for name in names):
            # A list that is too long keeps the node that is about to be chosen.
            chosen = (
                names
                if len(names) <= MAX_POTENTIAL_NODES
                else [node, *(n for n in names if n != node)][:MAX_POTENTIAL_NODES]
            )
            potential = sorted(chosen)
        pending = self.pending
        answered = sum(entry.answer is not None for entry in pending)
        own = sum(entry.wanted is not None and not entry.allocated for entry in self.entries)
        if self._as_in_130:
            # Claims that the scheduler allocates are counted as answers, so a pod with both kinds waits for ever.
            ready = (len(pending) == 1 and not own) or (answered + own == len(pending) and own < len(pending))
        else:
            ready = len(pending) == 1 or answered == len(pending)
        selected = node if ready and spec.get("selectedNode") != node else None
        return PodSchedulingState(selected, potential)

    def is_asked(self, node: str) -> bool:
        """Whether the drivers have been told to allocate for the node."""
        return ((self.context or {}).get("spec") or {}).get("selectedNode") == node
