"""Scheduling of groups of pods: all members that a group needs get a node, or none does.

As upstream does it, one member after the other is placed on top of those before it, and no choice is ever revised; the
attempt ends as soon as too few members are left. Where nothing is emulated, ``joint_search`` then looks for nodes and
devices for all members at once. What is assumed meanwhile is taken back unless the group is placed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dray.placement.joint_search import JointSearch
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.plugins import extended_resources
from dray.placement.plugins.dynamic_resources import DeviceReservation

if TYPE_CHECKING:
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.groups import CompositeInfo, PodGroupInfo
    from dray.placement.cache.nodes import ClusterCache, NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.outcome import Outcome
    from dray.placement.profiles import Framework

UNSCHEDULABLE: Final = "pod group is unschedulable"
#: How the message begins of whoever has to wait for a group that is first in line.
WAITING_IN_LINE: Final = "waiting in line"
NO_PLACEMENTS: Final = "no feasible placements found"

#: One attempt for one member, which only the given nodes may have; None: any node.
TryPod = Callable[["PodInfo", "Sequence[NodeInfo] | None"], "Outcome"]


@dataclass(frozen=True, slots=True)
class Gang:
    """A PodGroup with the members that have no node yet, in the order in which they are tried."""

    group: PodGroupInfo
    members: tuple[PodInfo, ...]
    scheduled: int  # members that have a node


@dataclass(frozen=True, slots=True)
class Composite:
    """A CompositePodGroup with the groups below it."""

    composite: CompositeInfo
    children: tuple[Gang | Composite, ...]


@dataclass(slots=True)
class GroupResult:
    """What an attempt ends with for one group. ``reasons`` are empty when the group is placed."""

    gang: Gang
    outcomes: dict[str, Outcome] = field(
        default_factory=dict
    )  # by pod uid; members that were not tried are missing
    reasons: tuple[str, ...] = ()
    error: str = ""
    searched: str = ""  # what the joint search did, where it could not place the group
    victims: int = 0  # pods that are preempted for the group

    @property
    def placed(self) -> bool:
        return not self.reasons and not self.error

    @property
    def message(self) -> str:
        return self.error or ", ".join(self.reasons)

    @property
    def plugins(self) -> frozenset[str]:
        """The plugins that rejected some member."""
        return frozenset().union(*(o.plugins for o in self.outcomes.values() if isinstance(o, Unschedulable)))


class Interrupted(Exception):
    """A member must not be tried now: a claim of it is missing."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Assumptions:
    """Pods that are assumed to have their node and devices, to be taken back in reverse order."""

    def __init__(self, cluster: ClusterCache, claim_cache: ClaimCache) -> None:
        self._cluster = cluster
        self._claim_cache = claim_cache
        self._made: list[tuple[PodInfo, list[str]]] = []
        self._binds: list[tuple[PodInfo, Bind]] = []

    def __len__(self) -> int:
        return len(self._made)

    def add(self, pod: PodInfo, bind: Bind) -> None:
        on_node, uids = pod, []
        if isinstance(reservation := bind.reservation, DeviceReservation):
            plan = reservation.plan
            if plan.node_allocatable:
                on_node = pod.with_node_allocatable(plan.node_allocatable)
            for claim, allocation in zip(plan.claims, plan.results, strict=True):
                known = (
                    claim if "uid" in claim["metadata"] else extended_resources.in_memory_claim(claim, pod)
                )
                self._claim_cache.assume(known, allocation)
                uids.append(known["metadata"]["uid"])
        self._cluster.add_pod(on_node, bind.node)
        self._made.append((pod, uids))
        self._binds.append((pod, bind))

    def suspend(self) -> list[tuple[PodInfo, Bind]]:
        """Take everything back for a moment; ``resume`` makes the assumptions again."""
        taken = self._binds[:]
        self.revert()
        return taken

    def resume(self, taken: Iterable[tuple[PodInfo, Bind]]) -> None:
        for pod, bind in taken:
            self.add(pod, bind)

    def revert(self, keep: int = 0) -> None:
        """Take back all but the first few."""
        while len(self._made) > keep:
            pod, uids = self._made.pop()
            self._binds.pop()
            self._cluster.remove_pod(pod.uid)
            for uid in uids:
                self._claim_cache.forget(uid)


class GroupScheduler:
    """One attempt for a group, or for a tree of groups."""

    def __init__(
        self,
        framework: Framework,
        claim_cache: ClaimCache,
        try_pod: TryPod,
        *,
        monotonic: Callable[[], float] | None = None,
    ) -> None:
        self._framework = framework
        self._cluster = framework.placement.cluster
        self._claim_cache = claim_cache
        self._try_pod = try_pod
        self._monotonic = monotonic
        self.assumptions = Assumptions(self._cluster, claim_cache)

    def schedule(self, root: Gang | Composite) -> dict[str, GroupResult]:
        """The results by group name. Where the root is placed, its pods stay assumed; otherwise nothing does."""
        try:
            results, reasons, error = self._schedule(root, None)
        except BaseException:
            self.assumptions.revert()
            raise
        if reasons or error:
            self.assumptions.revert()
            for result in results.values():
                if result.placed:
                    result.reasons, result.error = tuple(reasons), error
        return results

    def _schedule(
        self, root: Gang | Composite, nodes: Sequence[NodeInfo] | None
    ) -> tuple[dict[str, GroupResult], Sequence[str], str]:
        if isinstance(root, Gang):
            result = self._in_placements(root, nodes)
            return {root.group.name: result}, result.reasons, result.error
        return self._schedule_composite(root, nodes)

    # -- a tree of groups -------------------------------------------------------------------------------------------

    def _schedule_composite(
        self, root: Composite, nodes: Sequence[NodeInfo] | None
    ) -> tuple[dict[str, GroupResult], Sequence[str], str]:
        first: tuple[dict[str, GroupResult], Sequence[str], str] | None = None
        placements = list(self._placements(root.composite.topology_key, nodes, root))
        for placement in placements:
            mark = len(self.assumptions)
            found = self._in_one_placement(root, placement)
            if not found[1] and not found[2]:
                return found
            self.assumptions.revert(mark)
            first = first or found
        if first is None:
            return self._untried(root, (NO_PLACEMENTS,)), (NO_PLACEMENTS,), ""
        results, reasons, error = first
        if error:
            return first
        if root.composite.topology_key or self._framework.quirks.wraps_every_group:
            reasons = _wrapped(len(placements), reasons)
        return (
            {**self._untried(root, reasons), **{n: r for n, r in results.items() if not r.placed}},
            reasons,
            "",
        )

    def _in_one_placement(
        self, root: Composite, nodes: Sequence[NodeInfo] | None
    ) -> tuple[dict[str, GroupResult], Sequence[str], str]:
        wanted, placed, left = root.composite.min_group_count, 0, len(root.children)
        results: dict[str, GroupResult] = {}
        for child in root.children:
            mark = len(self.assumptions)
            found, reasons, error = self._schedule(child, nodes)
            results |= found
            if error:
                return results, (), f"composite pod group evaluation failed due to child error: {error}"
            if reasons:
                self.assumptions.revert(mark)
            left -= 1
            placed += not reasons
            if placed + left < wanted:
                return results, (_too_few("minGroupCount", wanted, placed, left),), ""
        return results, (), ""

    def _untried(self, root: Composite, reasons: Sequence[str]) -> dict[str, GroupResult]:
        return {gang.group.name: GroupResult(gang, reasons=tuple(reasons)) for gang in gangs_of(root)}

    # -- one group --------------------------------------------------------------------------------------------------

    def _in_placements(self, gang: Gang, nodes: Sequence[NodeInfo] | None) -> GroupResult:
        quirks, key = self._framework.quirks, gang.group.topology_key
        if not (quirks.places_groups_by_topology and key) and not quirks.wraps_every_group:
            return self._place(gang, nodes)
        first: GroupResult | None = None
        best: tuple[int, Sequence[NodeInfo] | None] | None = None
        placements = list(self._placements(key, nodes, gang))
        for placement in placements:
            mark = len(self.assumptions)
            result = self._place(gang, placement)
            placed = len(self.assumptions) - mark
            if result.error:
                self.assumptions.revert(mark)
                return result
            if result.placed and (placed == len(gang.members) or len(placements) == 1):
                return result
            self.assumptions.revert(mark)
            first = first or result
            if result.placed and (best is None or placed > best[0]):
                best = placed, placement
        if best is not None:
            return self._place(gang, best[1])
        if first is None:
            return GroupResult(gang, reasons=(NO_PLACEMENTS,))
        first.reasons = _wrapped(len(placements), first.reasons)
        return first

    def _placements(
        self, key: str, nodes: Sequence[NodeInfo] | None, root: Gang | Composite
    ) -> Iterator[Sequence[NodeInfo] | None]:
        """The sets of nodes that may have the group: one for each value of the label, or the one where it is."""
        if not key:
            yield nodes
            return
        domains: dict[str, list[NodeInfo]] = {}
        taken = {value for node in self._nodes_of(root) if (value := node.labels.get(key)) is not None}
        for node in self._cluster if nodes is None else nodes:
            value = node.labels.get(key)
            if value is not None and (not taken or value in taken):
                domains.setdefault(value, []).append(node)
        yield from domains.values()

    def _nodes_of(self, root: Gang | Composite) -> Iterator[NodeInfo]:
        """The nodes that have members already."""
        for gang in gangs_of(root):
            for uid in self._cluster.pods_of_group(gang.group.namespace, gang.group.name):
                node = self._cluster.get(self._cluster.node_of(uid) or "")
                if node is not None:
                    yield node

    def _place(self, gang: Gang, nodes: Sequence[NodeInfo] | None) -> GroupResult:
        mark = len(self.assumptions)
        result = self._one_by_one(gang, nodes)
        if result.placed or result.error:
            return result
        self.assumptions.revert(mark)
        if self._framework.quirks.searches_jointly:
            search = JointSearch(
                self._framework, self._claim_cache, gang.members, nodes, monotonic=self._monotonic
            )
            match search.find(gang.group.min_count - gang.scheduled):
                case dict() as found:
                    return self._complete(gang, found, nodes)
                case str() as why:
                    result.searched = why
        return result

    def _one_by_one(self, gang: Gang, nodes: Sequence[NodeInfo] | None) -> GroupResult:
        wanted, scheduled, left = gang.group.min_count, gang.scheduled, len(gang.members)
        result = GroupResult(gang)
        if scheduled + left < wanted:
            result.reasons = (UNSCHEDULABLE, _too_few("minCount", wanted, scheduled, left))
            return result
        placed = 0
        for pod in gang.members:
            outcome = result.outcomes[pod.uid] = self._try(pod, nodes)
            if isinstance(outcome, Failure):
                result.error = f"failed to schedule other pod from a pod group: {outcome.message}"
                return result
            left -= 1
            if isinstance(outcome, Bind):
                scheduled += 1
                placed += 1
            if scheduled + left < wanted:
                result.reasons = (_too_few("minCount", wanted, scheduled, left),)
                return result
        if not placed:
            result.reasons = (UNSCHEDULABLE,)
        return result

    def reach(
        self, root: Gang | Composite, nodes: Sequence[NodeInfo] | None = None
    ) -> list[tuple[PodInfo, Bind]]:
        """The members that would have a node now, no more than the groups need. They stay assumed."""
        best: list[tuple[PodInfo, Bind]] = []
        mark = len(self.assumptions)
        quirks = self._framework.quirks
        key = root.group.topology_key if isinstance(root, Gang) else root.composite.topology_key
        for placement in self._placements(key if quirks.places_groups_by_topology else "", nodes, root):
            found = self._reach_in(root, placement)
            best = max(best, found, key=len)
            self.assumptions.revert(mark)
        self.assumptions.resume(best)
        return best

    def _reach_in(
        self, root: Gang | Composite, nodes: Sequence[NodeInfo] | None
    ) -> list[tuple[PodInfo, Bind]]:
        if isinstance(root, Composite):
            return [bind for child in root.children for bind in self.reach(child, nodes)]
        found: list[tuple[PodInfo, Bind]] = []
        for pod in root.members:
            if len(found) >= root.group.min_count - root.scheduled:
                break
            if isinstance(outcome := self._try(pod, nodes), Bind):
                found.append((pod, outcome))
        return found

    def try_on(self, pod: PodInfo, nodes: Sequence[NodeInfo]) -> Outcome:
        """One member on top of those before it; assumed if it fits."""
        return self._try(pod, nodes)

    def try_anywhere(self, pod: PodInfo) -> Outcome:
        return self._try(pod, None)

    def _try(self, pod: PodInfo, nodes: Sequence[NodeInfo] | None) -> Outcome:
        outcome = self._try_pod(pod, nodes)
        if isinstance(outcome, Gated):
            raise Interrupted(outcome.reason)
        if isinstance(outcome, Bind):
            self.assumptions.add(pod, outcome)
        return outcome

    def _complete(
        self, gang: Gang, found: Mapping[str, Bind], nodes: Sequence[NodeInfo] | None
    ) -> GroupResult:
        """The members for which a joint choice was found get it; the others what is left."""
        result = GroupResult(gang)
        for pod in gang.members:
            if (bind := found.get(pod.uid)) is not None:
                self.assumptions.add(pod, bind)
                result.outcomes[pod.uid] = bind
        for pod in gang.members:
            if pod.uid not in found:
                result.outcomes[pod.uid] = self._try(pod, nodes)
        return result


def gangs_of(root: Gang | Composite) -> Iterator[Gang]:
    if isinstance(root, Gang):
        yield root
    else:
        for child in root.children:
            yield from gangs_of(child)


def pod_message(result: GroupResult, uid: str, *, before_preemption: str) -> str:
    """What a member of a group that was not placed is told.

    ``before_preemption``: the group's message without what preemption said.
    """
    match result.outcomes.get(uid):
        case Unschedulable() as own:
            return own.message
        case Bind():
            return f"{UNSCHEDULABLE}, {result.message}"
    return before_preemption


def _too_few(what: str, wanted: int, scheduled: int, left: int) -> str:
    return f"{what} ({wanted}) cannot be satisfied: {scheduled} scheduled, {left} remaining"


def _wrapped(placements: int, reasons: Sequence[str]) -> tuple[str, ...]:
    first = ", ".join(reasons)
    return UNSCHEDULABLE, f"0/{placements} placements are available, first placement status: {first}"
