"""Pods that may have claims of both generations: a node has to fit both, and each generation allocates its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from dray.placement.claims import ClaimPostFilter, Deallocate
from dray.placement.classic.attempt import ClassicAttempt, ClassicPlan, ClassicReservation
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.plugins.dynamic_resources import DeviceReservation, NodePlan
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.allocation import Reasons
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import ClaimPlan
    from dray.placement.classic.plugin import ClassicPlugin
    from dray.placement.plugins.dynamic_resources import DeviceAttempt, DynamicResources


@dataclass(frozen=True, slots=True)
class MixedPlan:
    """What one node would give the claims of each generation."""

    classic: ClassicPlan
    device: NodePlan


@dataclass(frozen=True, slots=True)
class MixedReservation:
    """What is reserved for the claims of each generation."""

    classic: ClassicReservation
    device: DeviceReservation


class MixedPlugin:
    """Sends each claim of a pod to the plugin for its generation."""

    def __init__(self, classic: ClassicPlugin, device: DynamicResources) -> None:
        self._classic = classic
        self._device = device

    def pre_enqueue(self, pod: PodInfo) -> str:
        if not self._classic.concerns(pod):
            return self._device.pre_enqueue(pod)
        why = self._classic.pre_enqueue(pod)
        if why or self._classic.quirks.owns_every_claim:
            return why
        return self._device.pre_enqueue(pod, self._classic.claim_names(pod))

    def pre_filter(
        self, pod: PodInfo
    ) -> DeviceAttempt | ClassicAttempt | MixedAttempt | Rejection | Gated | Failure | None:
        if not self._classic.concerns(pod):
            return self._device.pre_filter(pod)
        classic = self._classic.pre_filter(pod)
        if not isinstance(classic, ClassicAttempt) or self._classic.quirks.owns_every_claim:
            return classic
        match self._device.pre_filter(pod, classic.claim_names):
            case None:
                return classic
            case (Rejection() | Gated()) as refusal:
                return refusal
            case device:
                return MixedAttempt(classic, device)


class MixedAttempt:
    """The claims of both generations of one pod in one attempt to schedule it."""

    shape = None  # nothing is shared: every node is filtered for every pod
    device_preemption = None

    def __init__(self, classic: ClassicAttempt, device: DeviceAttempt) -> None:
        self.classic = classic
        self._device = device
        self.scores_matter = device.scores_matter
        self.unallocated = device.unallocated

    def filter(self, node: NodeInfo) -> MixedPlan | Rejection:
        # Both are always asked: each notes which of its allocated claims are not available on the node.
        classic, device = self.classic.plan(node), self._device.filter(node)
        if isinstance(device, Rejection):
            return device
        if isinstance(classic, Rejection):
            return classic
        self.classic.feasible.append(node.name)
        return MixedPlan(classic, device)

    def score(self, plan: ClaimPlan) -> int:
        assert isinstance(plan, MixedPlan)
        return self._device.score(plan.device)

    def reserve(self, node: str, plan: ClaimPlan) -> Bind | Unschedulable:
        assert isinstance(plan, MixedPlan)
        classic = self.classic.reserve(node, plan.classic)
        if isinstance(classic, Unschedulable):
            return classic
        assert isinstance(classic.reservation, ClassicReservation)
        device = self._device.reserve(node, plan.device)
        assert isinstance(device.reservation, DeviceReservation)
        return Bind(node, MixedReservation(classic.reservation, device.reservation))

    def post_filter(self, rejected_by: frozenset[str]) -> ClaimPostFilter:
        """Claims of the current generation first: freeing one takes a write, and no driver has to answer."""
        device = self._device.post_filter(rejected_by)
        if any(isinstance(write, Deallocate) for write in device.writes):
            return device
        if (unavailable := self.classic.unused_unavailable_claim()) is not None:
            return ClaimPostFilter("deallocation of ResourceClaim completed", (unavailable,))
        if (held := self.classic.claim_held_while_waiting(rejected_by)) is not None:
            return ClaimPostFilter(device.message, (held, *device.writes))
        return device

    def reasons(self, nodes: Iterable[NodeInfo]) -> Mapping[str, Reasons]:
        return {}
