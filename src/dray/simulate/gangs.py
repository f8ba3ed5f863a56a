"""Groups of pods in virtual time: the scheduler's own group cycles, with the engine in place of an API server.

``GroupCycles`` decides, waits in line, backfills and preempts as it does in a cluster. What it would write is done by the
engine, after the attempt, as a cluster would hear of it.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from dray.placement.claims import Deallocate, DeleteLeftover
from dray.scheduler.group_cycle import GroupCycles

if TYPE_CHECKING:
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.groups import GroupCache
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite
    from dray.placement.outcome import Bind
    from dray.placement.plugins.pod_topology_spread import SpreadConstraint
    from dray.placement.preemption import Candidate
    from dray.placement.profiles import Framework, Profiles
    from dray.scheduler.backfill import Backfill
    from dray.scheduler.queue.pending_groups import PendingGroup
    from dray.scheduler.queue.pending_pods import PendingPods
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo


class GroupActions(Protocol):
    """What the engine does for groups."""

    def bind_member(self, pod: PodInfo, bind: Bind) -> None: ...

    def post_filter(self, write: PostFilterWrite) -> None: ...

    def preempt(self, victims: Sequence[PodInfo]) -> None: ...


class Gangs:
    """Attempts for groups."""

    def __init__(
        self,
        actions: GroupActions,
        claim_cache: ClaimCache,
        pending: PendingPods,
        profiles: Profiles,
        groups: GroupCache,
        *,
        spread: Callable[[PodInfo], Sequence[SpreadConstraint]],
        clock: Callable[[], float],
    ) -> None:
        self._afterwards: list[Coroutine[Any, Any, object]] = []
        ports: Any = _Ports(actions, pending, groups, spread)
        self._cycles = GroupCycles(
            ports, claim_cache, pending, profiles, ports, ports, ports,
            spawn=self._afterwards.append, clock=clock, monotonic=clock,
        )  # fmt: skip

    @property
    def backfill(self) -> Backfill:
        return self._cycles.backfill

    def attempt(self, entry: QueuedPodInfo) -> None:
        _run(self._cycles.attempt(entry, cast("PendingGroup", entry.gang)))
        self.write()

    def write(self) -> None:
        """Do what attempts have left to be written."""
        while self._afterwards:
            _run(self._afterwards.pop(0))


def _run(work: Coroutine[Any, Any, object]) -> None:
    """Run a coroutine that never waits."""
    try:
        work.send(None)
    except StopIteration:
        return
    raise AssertionError("nothing is waited for in virtual time")


class _Ports:
    """Client, listers, writers and bindings, as far as group cycles use them."""

    def __init__(
        self,
        actions: GroupActions,
        pending: PendingPods,
        groups: GroupCache,
        spread: Callable[[PodInfo], Sequence[SpreadConstraint]],
    ) -> None:
        self._actions = actions
        self._pending = pending
        self._groups = groups
        self._spread = spread
        self.claims = self.reporter = self.preemption = self.slots = self
        self.storage = None

    # -- listers ------------------------------------------------------------------------------------------------------

    def spread(self, pod: PodInfo, profile: object) -> Sequence[SpreadConstraint]:
        return self._spread(pod)

    def budgets(self) -> tuple[()]:
        return ()

    # -- bindings -----------------------------------------------------------------------------------------------------

    async def acquire(self) -> None:
        """There is always a slot."""

    def start(self, member: QueuedPodInfo, bind: Bind, framework: Framework) -> None:
        self._actions.bind_member(member.pod, bind)

    def start_together(
        self,
        entry: QueuedPodInfo,
        members: Sequence[tuple[QueuedPodInfo, Bind]],
        framework: Framework,
        *,
        least: int,
        scheduled: Callable[[], None],
    ) -> None:
        for member, bind in members:
            self._actions.bind_member(member.pod, bind)
        scheduled()

    # -- writers and client -------------------------------------------------------------------------------------------

    async def post_filter(self, pod: PodInfo, writes: Sequence[PostFilterWrite]) -> None:
        for write in writes:
            assert isinstance(write, Deallocate | DeleteLeftover)
            self._actions.post_filter(write)

    async def preempt_for_group(self, group: PodGroup, candidate: Candidate, *, scheduler: str) -> None:
        self._actions.preempt(candidate.victims)

    async def failed_scheduling(self, pod: PodInfo, **said: object) -> None:
        """Nobody reads events."""

    async def patch_status(
        self, resource: object, namespace: str, name: str, patch: Any, *, type: object
    ) -> None:
        groups = self._pending.groups
        known = self._groups.group(namespace, name)
        if groups is not None and known is not None:
            groups.set_group({**known.document, "status": patch["status"]})
