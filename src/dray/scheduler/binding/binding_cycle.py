"""Binding cycles: what was decided is assumed in memory at once and written beside the scheduler's loop.

When a write fails, what was assumed is released and the pod is retried after its backoff.

The members of a gang are bound together: no member is bound before the claims of all that the gang needs are written. If
those cannot be written, everything that was written for the gang is taken back. From the first member that is bound there
is no way back: a bind that the server did not answer is tried again, while nodes and devices of the gang stay its own.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Final

import msgspec

from dray.backoff import Backoff
from dray.scheduler.binding.claim_binding import BindingError

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.client.informers import Informer
    from dray.placement.cache.nodes import ClusterCache
    from dray.placement.outcome import Bind
    from dray.placement.profiles import Framework
    from dray.scheduler.binding.claim_binding import ClaimBinding
    from dray.scheduler.metrics import Metrics
    from dray.scheduler.queue.pending_pods import PendingPods
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
    from dray.scheduler.writers import Writers

log = logging.getLogger(__name__)

#: starts a task that nobody waits for, and that ends with the scheduler
Spawn = Callable[[Coroutine[Any, Any, object]], None]
#: pods, or gangs, being bound at the same time
MAX_CONCURRENT_BINDINGS = 512
#: how often the bind of a gang's member is tried if the server does not answer: for about a minute
_BIND_ATTEMPTS: Final = 20
_BIND_BACKOFF: Final = Backoff(initial=0.05, maximum=5.0)


class _Cycle(msgspec.Struct, frozen=True):
    """The binding of one pod."""

    entry: QueuedPodInfo
    node: str
    claims: ClaimBinding


class GangBinding:
    """The members of a gang that are bound together."""

    def __init__(
        self, entry: QueuedPodInfo, *, members: int, least: int, scheduled: Callable[[], None]
    ) -> None:
        """``least``: so many members are bound, or none. ``scheduled`` is called once so many are.

        ``entry``: the gang's entry in the queue.
        """
        self.entry = entry
        self._least = max(least, 1)
        self._scheduled = scheduled
        self._open = members  # members whose claims are being written
        self._written = 0
        self._bound = 0
        self._problem = ""
        self._decided = asyncio.Event()
        self._returned: list[QueuedPodInfo] = []  # members that are taken back
        if self._least == 1:
            self._decided.set()  # there is nobody to wait for

    async def claims_written(self, problem: str = "") -> None:
        """The claims of a member are written, or ``problem``. Returns when it is decided whether to bind."""
        self._open -= 1
        if problem:
            self._problem = self._problem or problem
        else:
            self._written += 1
        if not self._open or self._written + self._open < self._least:
            self._decided.set()
        await self._decided.wait()

    @property
    def fails(self) -> str:
        """Why no member is bound, or an empty text."""
        return self._problem if self._least > 1 and self._written + self._open < self._least else ""

    def member_bound(self) -> None:
        self._bound += 1
        if self._bound == self._least:
            self._scheduled()

    def taken_back(self, member: QueuedPodInfo, of: int) -> Sequence[QueuedPodInfo] | None:
        """All members, once the last one of them is taken back: the gang is then tried again as a whole."""
        self._returned.append(member)
        return self._returned if len(self._returned) == of else None


class BindingCycles:
    """The binding cycles under way. Each has one of the ``slots``: taken before the attempt, released at its end."""

    def __init__(
        self,
        cluster: ClusterCache,
        pending: PendingPods,
        writers: Writers,
        *,
        pods: Informer[Pod],
        spawn: Spawn,
        metrics: Metrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = asyncio.Semaphore(MAX_CONCURRENT_BINDINGS)
        self._cluster = cluster
        self._pending = pending
        self._writers = writers
        self._pods = pods
        self._spawn = spawn
        self._metrics = metrics
        self._monotonic = monotonic

    def start(self, entry: QueuedPodInfo, decision: Bind, framework: Framework) -> None:
        """Reserve at once what was decided, so that no other pod gets it; the writes may take their time."""
        self._spawn(self._bind(self._reserve(entry, decision, framework), framework))

    def start_together(
        self,
        entry: QueuedPodInfo,
        members: Sequence[tuple[QueuedPodInfo, Bind]],
        framework: Framework,
        *,
        least: int,
        scheduled: Callable[[], None],
    ) -> None:
        """Bind members of a gang, at least so many or none. They have one slot. ``scheduled``: so many are bound."""
        gang = GangBinding(entry, members=len(members), least=least, scheduled=scheduled)
        cycles = [self._reserve(member, decision, framework) for member, decision in members]
        self._spawn(self._bind_gang(cycles, gang, framework))

    def _reserve(self, entry: QueuedPodInfo, decision: Bind, framework: Framework) -> _Cycle:
        pod, node = entry.pod, decision.node
        claims = self._writers.claims.of(
            pod, node, decision.reservation, binding_timeout=framework.profile.binding_timeout
        )
        self._pending.assume(pod, node)
        nominator = framework.placement.nominator
        if nominator.nominated:
            nominator.delete_nominated_pod(pod.uid)
        if not pod.group or self._cluster.node_of(pod.uid) != node:  # members of a group are assumed already
            self._cluster.add_pod(claims.pod_on_node, node)
        claims.reserve()
        return _Cycle(entry, node, claims)

    async def _bind(self, cycle: _Cycle, framework: Framework) -> None:
        entry, claims = cycle.entry, cycle.claims
        try:
            await self._writers.binder.bind(entry.pod, cycle.node, claims)
        except BindingError as problem:
            await self._take_back(cycle, problem)
            self._requeue(entry)
        else:
            self._metrics.scheduled(framework.profile.name, entry, self._monotonic())
            await claims.done()
        finally:
            self.slots.release()

    # -- gangs ------------------------------------------------------------------------------------------------------

    async def _bind_gang(self, cycles: Sequence[_Cycle], gang: GangBinding, framework: Framework) -> None:
        """An unforeseen error with one member must not keep the others from being bound, or from being taken back."""
        try:
            members = (self._bind_member(cycle, gang, framework, of=len(cycles)) for cycle in cycles)
            for outcome in await asyncio.gather(*members, return_exceptions=True):
                if outcome is not None:
                    log.error("the binding of a member of %s failed", gang.entry.pod.key, exc_info=outcome)
        finally:
            self.slots.release()

    async def _bind_member(self, cycle: _Cycle, gang: GangBinding, framework: Framework, *, of: int) -> None:
        binder, entry = self._writers.binder, cycle.entry
        problem: BindingError | None = None
        try:
            patched = await binder.write_claims(entry.pod, cycle.node, cycle.claims)
        except BindingError as failed:
            problem, patched = failed, failed.patched_pod
        except Exception as failed:
            log.exception("the claims of pod %s", entry.pod.key)
            problem, patched = BindingError(f"running PreBind: {failed!r}"), None
        await gang.claims_written(str(problem) if problem is not None else "")
        if gang.fails:
            problem = problem or BindingError(
                f"another pod of the pod group cannot be bound: {gang.fails}", patched_pod=patched
            )
            await self._take_back(cycle, problem, deallocate=True)
            if (members := gang.taken_back(entry, of)) is not None:
                self._requeue_gang(members, gang.entry)
            return
        if problem is None:
            try:
                await self._bind_after_all(cycle, patched)
            except BindingError as failed:
                problem = failed
        if problem is not None:
            await self._take_back(cycle, problem)
            self._requeue(entry)
            return
        gang.member_bound()
        self._metrics.scheduled(framework.profile.name, entry, self._monotonic())
        await cycle.claims.done()

    async def _bind_after_all(self, cycle: _Cycle, patched: Pod | None) -> None:
        pauses = _BIND_BACKOFF.pauses()
        for left in reversed(range(_BIND_ATTEMPTS)):
            try:
                await self._writers.binder.bind_pod(cycle.entry.pod, cycle.node, patched_pod=patched)
                return
            except BindingError as problem:
                if not left or not problem.may_pass:
                    raise
            await asyncio.sleep(next(pauses))

    def _requeue_gang(self, members: Sequence[QueuedPodInfo], gang: QueuedPodInfo) -> None:
        for member in members:
            self._pending.forget(member.pod.uid)
        self._pending.retry_gang([member for member in members if self._wants_node(member)], gang)

    # -- failures ---------------------------------------------------------------------------------------------------

    async def _take_back(self, cycle: _Cycle, problem: BindingError, *, deallocate: bool = False) -> None:
        entry, pod = cycle.entry, cycle.entry.pod
        self._cluster.remove_pod(pod.uid)
        await cycle.claims.release(deallocate=deallocate)
        self._pending.assigned_pod_event(pod, None)
        self._catch_up(entry)
        if problem.patched_pod is not None:
            entry.adopt_newer(problem.patched_pod)
        await self._writers.reporter.failed_scheduling(
            entry.pod, reason="SchedulerError", message=str(problem), nominated=""
        )

    def _catch_up(self, entry: QueuedPodInfo) -> bool:
        """Use the pod as the informer has it: updates of a pod that is being bound are ignored. False: deleted."""
        current = self._pods.get(entry.pod.namespace, entry.pod.name)
        if current is None or current["metadata"]["uid"] != entry.pod.uid:
            return False
        entry.pod = entry.pod.updated(current)
        return True

    def _requeue(self, entry: QueuedPodInfo) -> None:
        """Put the pod back into the queue, unless it has been deleted or bound meanwhile."""
        self._pending.forget(entry.pod.uid)
        if self._wants_node(entry):
            self._pending.retry(entry)

    def _wants_node(self, entry: QueuedPodInfo) -> bool:
        return not (
            not self._catch_up(entry) or entry.pod.document["spec"].get("nodeName") or entry.pod.terminating
        )
