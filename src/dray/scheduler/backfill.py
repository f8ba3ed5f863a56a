"""Backfill: groups wait in line by priority and age; this says what others may take while the first of them waits.

A group further back is placed only if that takes nothing that the first one could use now. Single pods go past
until the first group has waited for a while; then those that are not more important and came later get only what the group
could not use. Nothing is written for that: what the group could use is assumed while such a pod is tried. A group that
could not be placed on an empty cluster has no place in line, and no group keeps its place for ever.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final

from dray.api.identity import DeviceID
from dray.placement.gangs import WAITING_IN_LINE, Interrupted
from dray.placement.group_preemption import GroupPreemption
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.plugins.dynamic_resources import DeviceReservation
from dray.scheduler.queue.queueing_hints import IN_LINE

if TYPE_CHECKING:
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.nodes import ClusterCache
    from dray.placement.cache.pods import PodInfo
    from dray.placement.gangs import Composite, Gang, GroupScheduler
    from dray.placement.outcome import Outcome
    from dray.placement.profiles import Framework
    from dray.scheduler.listers import Listers
    from dray.scheduler.queue.pending_groups import PendingGroup, PendingGroups
    from dray.scheduler.queue.pending_pods import PendingPods
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo

#: How long a group that does not fit keeps others from what it could use; then they have their turn as long.
PLACE_IN_LINE_SECONDS: Final = 300.0
#: How long a group waits before single pods are kept from what it could use.
PATIENCE_SECONDS: Final = 10.0
#: How long it is remembered whether a group could be placed if nothing else ran.
_POSSIBLE_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class _Reach:
    """What the first group could use of what is free, as of one attempt of it."""

    root: PendingGroup
    loosened: int
    binds: tuple[tuple[PodInfo, Bind], ...]
    nodes: frozenset[str]
    devices: frozenset[DeviceID]
    whole: frozenset[DeviceID]  # those that it would have to itself

    def includes(self, bind: Bind) -> bool:
        """Whether a pod would take something of it."""
        return bind.node in self.nodes or not self.devices.isdisjoint(_devices(bind))


class Backfill:
    """Decides who has to wait for whom."""

    def __init__(
        self,
        claim_cache: ClaimCache,
        pending: PendingPods,
        listers: Listers,
        *,
        scheduler_of: Callable[[Framework], GroupScheduler],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._claim_cache = claim_cache
        self._pending = pending
        self._listers = listers
        self._scheduler_of = scheduler_of
        self._monotonic = monotonic
        self._possible: dict[str, tuple[float, bool]] = {}
        self._known_reach: _Reach | None = None
        self._nobody_before = 0.0  # before this time no group has waited for long

    @property
    def _groups(self) -> PendingGroups:
        assert self._pending.groups is not None
        return self._pending.groups

    # -- groups -----------------------------------------------------------------------------------------------------

    def delayed_by(
        self, root: PendingGroup, entry: QueuedPodInfo, framework: Framework, scheduler: GroupScheduler
    ) -> PendingGroup | None:
        """The group before this one that could use something of what was found for this one."""
        ahead = [
            other
            for other in self._groups.others_in_line(root)
            if other.entry is not None and _order(other.entry) < _order(entry)
        ]
        for first, tree in self._by_place(ahead):
            with_this = len(self._reach(tree, framework))
            taken = scheduler.assumptions.suspend()
            try:
                if with_this >= len(self._reach(tree, framework)):
                    return None
                if self._is_possible(first, tree, framework):
                    return first
            finally:
                scheduler.assumptions.resume(taken)
        return None

    def _by_place(self, groups: Iterable[PendingGroup]) -> Iterator[tuple[PendingGroup, Gang | Composite]]:
        """The groups in the order of the line, until one whose time is up: then the others have their turn."""
        for group in sorted(groups, key=lambda g: _order(g.entry) if g.entry is not None else (0, 0.0)):
            if not self._keeps_its_place(group):
                return
            if (tree := self._groups.tree(group)) is not None:
                yield group, tree

    def _keeps_its_place(self, root: PendingGroup) -> bool:
        now = self._monotonic()
        if root.first_in_line_since is None or now - root.first_in_line_since > 2 * PLACE_IN_LINE_SECONDS:
            root.first_in_line_since = now
        return now - root.first_in_line_since <= PLACE_IN_LINE_SECONDS

    def _reach(self, tree: Gang | Composite, framework: Framework) -> list[tuple[PodInfo, Bind]]:
        """The members of a group that would have a node now, no more than the group needs."""
        scheduler = self._scheduler_of(framework)
        try:
            return scheduler.reach(tree)
        except Interrupted:
            return []
        finally:
            scheduler.assumptions.revert()

    def _is_possible(self, root: PendingGroup, tree: Gang | Composite, framework: Framework) -> bool:
        """Whether the group could be placed if nothing else ran."""
        uid, now = f"{root.namespace}/{root.name}", self._monotonic()
        known = self._possible.get(uid)
        if known is None or now - known[0] > _POSSIBLE_SECONDS:
            search = GroupPreemption(
                framework, self._claim_cache, partial(self._scheduler_of, framework), self._listers.budgets
            )
            known = self._possible[uid] = now, search.fits_alone(tree)
        return known[1]

    # -- single pods ------------------------------------------------------------------------------------------------

    def nobody_waits(self) -> bool:
        """Whether no group has waited for so long that a single pod has to care. Cheap: asked for every pod."""
        return self._monotonic() < self._nobody_before

    def admit(
        self, entry: QueuedPodInfo, bind: Bind, framework: Framework, decide: Callable[[], Outcome]
    ) -> Bind | Unschedulable:
        """What a single pod gets for which ``bind`` was found: that, or something that no group before it could use.

        ``decide`` tries the pod once more.
        """
        reach = self._reach_of_first(framework)
        if reach is None or reach.root.entry is None or not reach.includes(bind):
            return bind
        if _order(reach.root.entry) > _order(entry):
            self.forget()  # the pod is before the group
            return bind
        assumptions = self._scheduler_of(framework).assumptions
        assumptions.resume(reach.binds)
        try:
            outcome = decide()
        finally:
            assumptions.revert()
            self._known_reach = replace(reach, loosened=framework.placement.cluster.loosened)
        if isinstance(outcome, Bind):
            return outcome
        plugins = outcome.plugins if isinstance(outcome, Unschedulable) else frozenset[str]()
        return Unschedulable(in_line_message(reach.root), plugins | {IN_LINE})

    def forget(self) -> None:
        """Somebody who need not wait has taken something of what the first group could use."""
        self._known_reach = None

    def _reach_of_first(self, framework: Framework) -> _Reach | None:
        """What the first group could use, if it has waited for long."""
        now = self._monotonic()
        cluster, reach = framework.placement.cluster, self._known_reach
        if reach is not None and self._is_valid(reach, cluster):
            return reach if self._keeps_its_place(reach.root) else None
        self._known_reach = None
        waiting = [root for root in self._groups.others_in_line(None) if root.entry is not None]
        overdue = [root for root in waiting if self._overdue_at(root) <= now]
        if not overdue:
            self._nobody_before = min(map(self._overdue_at, waiting), default=now + PATIENCE_SECONDS)
            return None
        for first, tree in self._by_place(overdue):
            if self._is_possible(first, tree, framework):
                binds = tuple(self._reach(tree, framework))
                self._known_reach = _Reach(
                    first,
                    cluster.loosened,
                    binds,
                    nodes=frozenset(bind.node for _, bind in binds),
                    devices=frozenset(device for _, bind in binds for device in _devices(bind)),
                    whole=frozenset(device for _, bind in binds for device in _devices(bind, shares=False)),
                )
                return self._known_reach
        return None

    def _overdue_at(self, root: PendingGroup) -> float:
        """When the group has waited for long since it was first tried, or will have if it is tried now."""
        assert root.entry is not None
        tried = root.entry.first_attempt
        return (self._monotonic() if tried is None else tried) + PATIENCE_SECONDS

    def _is_valid(self, reach: _Reach, cluster: ClusterCache) -> bool:
        """The group still waits, nothing has come free since, and nobody has taken its devices."""
        usage = self._claim_cache.usage
        return (
            reach.loosened == cluster.loosened
            and self._groups.in_line(reach.root)
            and not any(usage.of(device.pool_id).touches(device.device) for device in reach.whole)
        )


def in_line_message(ahead: PendingGroup) -> str:
    return f"{WAITING_IN_LINE}: pod group {ahead.name} is first, and could use what is free"


def _devices(bind: Bind, *, shares: bool = True) -> list[DeviceID]:
    if not isinstance(bind.reservation, DeviceReservation):
        return []
    return [
        DeviceID(r["driver"], r["pool"], r["device"])
        for allocation in bind.reservation.plan.results
        for r in (allocation.get("devices") or {}).get("results") or ()
        if not r.get("adminAccess") and (shares or not r.get("shareID"))
    ]


def _order(entry: QueuedPodInfo) -> tuple[int, float]:
    """Higher priority first, then whoever came first."""
    return -entry.pod.priority, entry.since
