"""What becomes of a decision: a binding is assumed in memory at once and written beside the loop; a "no" is told.

A write may fail. Then what was assumed is given back, and the pod goes to the end of its back-off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from dray.client.informers import Informer
from dray.scheduler import extended
from dray.scheduler.binding import BindingError
from dray.scheduler.deciding import Bind, Failure, Unschedulable
from dray.scheduler.lanes import Lane, Lanes
from dray.scheduler.ledger import Ledger
from dray.scheduler.metrics import Metrics
from dray.scheduler.nodes import Cluster
from dray.scheduler.pending import Pending
from dray.scheduler.pods import Pod
from dray.scheduler.queue import Queued
from dray.scheduler.writing import Writing

Document = Mapping[str, Any]
#: starts work that nobody waits for, and that ends with the scheduler
Spawn = Callable[[Coroutine[Any, Any, Any]], None]
#: pods being bound at the same time
MAX_BINDING = 512


class Bindings:
    """The bindings under way. ``room`` has a place for each: taken before an attempt, given back by its binding."""

    def __init__(
        self,
        cluster: Cluster,
        ledger: Ledger,
        pending: Pending,
        writing: Writing,
        *,
        pods: Informer[Any],
        spawn: Spawn,
        metrics: Metrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.room = asyncio.Semaphore(MAX_BINDING)
        self._cluster = cluster
        self._ledger = ledger
        self._pending = pending
        self._writing = writing
        self._pods = pods
        self._spawn = spawn
        self._metrics = metrics
        self._monotonic = monotonic

    def start(self, entry: Queued, decision: Bind, lane: Lane) -> None:
        """Take at once what was decided, so that nobody else gets it; writing it down may take its time."""
        pod = entry.pod
        self._pending.assume(pod, decision.node)
        if lane.placement.nominated:
            lane.placement.withdraw(pod.uid)
        plan = decision.plan
        self._cluster.place(pod if plan is None or not plan.held else pod.holding(plan.held), decision.node)
        if decision.carry is not None:
            decision.carry.assume()
        if plan is not None:
            for claim, allocation in zip(plan.claims, plan.results, strict=True):
                is_made = "uid" in claim["metadata"]
                self._ledger.promise(claim if is_made else extended.planned(claim, pod), allocation)
        self._spawn(self._bind(entry, decision, lane))

    async def _bind(self, entry: Queued, decision: Bind, lane: Lane) -> None:
        try:
            await self._writing.binder.bind(entry.pod, decision, binding_timeout=lane.profile.binding_timeout)
        except BindingError as problem:
            await self._undo(entry.pod, decision, problem)
            self._catch_up(entry)
            if problem.announced is not None:
                _heed(entry, problem.announced)
            await self._writing.telling.report(
                entry.pod, reason="SchedulerError", message=str(problem), nominated=""
            )
            self._requeue(entry)
        else:
            self._metrics.scheduled(lane.profile.name, entry, self._monotonic())
            if decision.carry is not None:
                await decision.carry.done()
        finally:
            self.room.release()

    async def _undo(self, pod: Pod, decision: Bind, problem: BindingError) -> None:
        self._cluster.unplace(pod.uid)
        await self._writing.undoing.undo(pod, decision, problem)
        self._pending.wake("AssignedPod", "delete", pod, None)

    def _catch_up(self, entry: Queued) -> bool:
        """Look at the pod as it is by now: while it is being bound, news of it are passed over. False: it has gone."""
        current = self._pods.get(entry.pod.namespace, entry.pod.name)
        if current is None or current["metadata"]["uid"] != entry.pod.uid:
            return False
        entry.pod = entry.pod.updated(current)
        return True

    def _requeue(self, entry: Queued) -> None:
        """Back into the queue, unless the pod has gone or got a node meanwhile."""
        self._pending.unassume(entry.pod.uid)
        if not self._catch_up(entry) or entry.pod.document["spec"].get("nodeName") or entry.pod.terminating:
            return
        self._pending.put_back(entry)


class Refusals:
    """Pods that got no node: room may be made for them, and they are told why not."""

    def __init__(
        self, pending: Pending, lanes: Lanes, writing: Writing, *, spawn: Spawn, metrics: Metrics
    ) -> None:
        self._pending = pending
        self._queue = pending.queue
        self._lanes = lanes
        self._writing = writing
        self._spawn = spawn
        self._metrics = metrics

    def fail(self, entry: Queued, failure: Failure) -> None:
        """The attempt itself went wrong: it is made again later."""
        self._queue.failed(entry, rejected_by=frozenset(), error=True)
        self._spawn(
            self._writing.telling.report(
                entry.pod, reason="SchedulerError", message=failure.message, nominated=""
            )
        )

    def refuse(self, entry: Queued, decision: Unschedulable, lane: Lane) -> None:
        pod = entry.pod
        if lane.profile.enabled("DefaultPreemption"):
            self._metrics.no_room(len(decision.preempt.victims) if decision.preempt is not None else 0)
        nominated: str | None = None
        if decision.preempt is not None:
            nominated = decision.preempt.node
            displaced = self._lanes.displace(pod, nominated)
            lane.placement.nominate(pod, nominated, decision.promise)
            self._spawn(
                self._writing.evictions.preempt(
                    pod,
                    decision.preempt,
                    scheduler=lane.profile.name,
                    displaced=displaced,
                    for_devices=decision.promise is not None,
                )
            )
        elif pod.nominated_node and not decision.keeps_promise:
            nominated = ""
            lane.placement.withdraw(pod.uid)
        # The pod sleeps before anything is written, so that it hears of what these writes change; it is tried again
        # only after them, or two outcomes would be told of one version of the pod, and the second event be lost.
        self._queue.failed(entry, rejected_by=decision.plugins)
        entry.settling = True
        if decision.waiting:
            entry.failures = 0  # nobody said no: no back-off when the answer comes
        self._spawn(self._settle(entry, decision, nominated))

    async def _settle(self, entry: Queued, decision: Unschedulable, nominated: str | None) -> None:
        try:
            told = await self._tell(entry.pod, decision, nominated)
            if told is not None:
                _heed(entry, told)
        finally:
            self._queue.settled(entry)
            self._pending.wakeup.set()

    async def _tell(self, pod: Pod, decision: Unschedulable, nominated: str | None) -> Document | None:
        if decision.first is not None:
            await decision.first()
        if decision.deallocate is not None:
            await self._writing.undoing.deallocate(pod, decision.deallocate)
        if decision.remove is not None:
            await self._writing.undoing.remove(pod, decision.remove)
        return await self._writing.telling.report(
            pod,
            reason=decision.reason,
            message=decision.message,
            nominated=nominated,
            reasons=decision.reasons,
        )


def _heed(entry: Queued, written: Document) -> None:
    """Go on with the pod as it was written, unless something newer is known of it already."""
    if _version(written) > _version(entry.pod.document):
        entry.pod = entry.pod.updated(written)


def _version(document: Document) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)
