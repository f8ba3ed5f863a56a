"""Pods that could not be scheduled: preemption, the writes that may help them, and what is reported about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from dray.placement.outcome import Failure, Unschedulable
    from dray.placement.profiles import Framework, Profiles
    from dray.scheduler.binding.binding_cycle import Spawn
    from dray.scheduler.metrics import Metrics
    from dray.scheduler.queue.pending_pods import PendingPods
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
    from dray.scheduler.writers import Writers


class FailureHandler:
    """Reports why pods could not be scheduled, preempts other pods for them, and puts them back into the queue."""

    def __init__(
        self, pending: PendingPods, profiles: Profiles, writers: Writers, *, spawn: Spawn, metrics: Metrics
    ) -> None:
        self._pending = pending
        self._queue = pending.queue
        self._profiles = profiles
        self._writers = writers
        self._spawn = spawn
        self._metrics = metrics

    def fail(self, entry: QueuedPodInfo, failure: Failure) -> None:
        """The attempt itself went wrong: the pod is retried after its backoff."""
        self._queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        self._spawn(
            self._writers.reporter.failed_scheduling(
                entry.pod, reason="SchedulerError", message=failure.message, nominated=""
            )
        )

    def unschedulable(self, entry: QueuedPodInfo, decision: Unschedulable, framework: Framework) -> None:
        pod = entry.pod
        if framework.profile.enabled("DefaultPreemption"):
            self._metrics.preemption_attempt(
                len(decision.candidate.victims) if decision.candidate is not None else 0
            )
        nominated: str | None = None
        evictions: Coroutine[None, None, None] | None = None
        if decision.candidate is not None:
            nominated = decision.candidate.node
            lower_nominated = self._profiles.pop_lower_nominated(pod, nominated)
            framework.placement.nominator.nominate(pod, nominated, decision.device_nomination)
            evictions = self._writers.preemption.preempt(
                pod,
                decision.candidate,
                scheduler=framework.profile.name,
                lower_nominated=lower_nominated,
                for_devices=decision.device_nomination is not None,
            )
        elif pod.nominated_node and not decision.keeps_nomination:
            nominated = ""
            framework.placement.nominator.delete_nominated_pod(pod.uid)
        # The pod is queued before anything is written, so that events caused by these writes can requeue it. It is
        # tried again only after the writes: two outcomes of one version of the pod would lose the second event, and
        # while victims are still to be evicted there may be too little room, or less than was chosen for the pod.
        self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        entry.in_flight = True
        if decision.waiting:
            entry.failures = 0  # no plugin rejected the pod: no backoff when the driver answers
        self._spawn(self._write(entry, decision, nominated, evictions))

    async def _write(
        self,
        entry: QueuedPodInfo,
        decision: Unschedulable,
        nominated: str | None,
        evictions: Coroutine[None, None, None] | None,
    ) -> None:
        try:
            async with asyncio.TaskGroup() as writes:
                if evictions is not None:
                    writes.create_task(evictions)
                writes.create_task(self._report(entry, decision, nominated))
        finally:
            self._queue.done(entry)
            self._pending.wakeup.set()

    async def _report(self, entry: QueuedPodInfo, decision: Unschedulable, nominated: str | None) -> None:
        await self._writers.claims.post_filter(entry.pod, decision.writes)
        written = await self._writers.reporter.failed_scheduling(
            entry.pod,
            reason=decision.reason,
            message=decision.message,
            nominated=nominated,
            reasons=decision.reasons,
        )
        if written is not None:
            self._queue.adopt_newer(entry, written)
