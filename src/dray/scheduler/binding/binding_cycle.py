"""What becomes of a decision: a binding is assumed in memory at once and written beside the loop; a "no" is told.

A write may fail. Then what was assumed is given back, and the pod goes to the end of its back-off.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

from dray.client.informers import Informer
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.decision import Bind, Failure, Unschedulable
from dray.placement.plugins import extended_resources
from dray.placement.profiles import Framework, Profiles
from dray.scheduler.binding.binder import BindingError
from dray.scheduler.metrics import Metrics
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
from dray.scheduler.writers import Writers

Document = Mapping[str, Any]
#: starts work that nobody waits for, and that ends with the scheduler
Spawn = Callable[[Coroutine[Any, Any, Any]], None]
#: pods being bound at the same time
MAX_CONCURRENT_BINDINGS = 512


class BindingCycles:
    """The bindings under way. ``room`` has a place for each: taken before an attempt, given back by its binding."""

    def __init__(
        self,
        cluster: ClusterCache,
        claim_cache: ClaimCache,
        pending: PendingPods,
        writing: Writers,
        *,
        pods: Informer[Any],
        spawn: Spawn,
        metrics: Metrics,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.slots = asyncio.Semaphore(MAX_CONCURRENT_BINDINGS)
        self._cluster = cluster
        self._claim_cache = claim_cache
        self._pending = pending
        self._writers = writing
        self._pods = pods
        self._spawn = spawn
        self._metrics = metrics
        self._monotonic = monotonic

    def start(self, entry: QueuedPodInfo, decision: Bind, framework: Framework) -> None:
        """Take at once what was decided, so that nobody else gets it; writing it down may take its time."""
        pod = entry.pod
        self._pending.assume(pod, decision.node)
        if framework.placement.nominated:
            framework.placement.delete_nominated_pod(pod.uid)
        plan = decision.plan
        self._cluster.add_pod(pod if plan is None or not plan.held else pod.holding(plan.held), decision.node)
        if decision.carry is not None:
            decision.carry.assume()
        if plan is not None:
            for claim, allocation in zip(plan.claims, plan.results, strict=True):
                is_made = "uid" in claim["metadata"]
                self._claim_cache.assume(
                    claim if is_made else extended_resources.in_memory_claim(claim, pod), allocation
                )
        self._spawn(self._bind(entry, decision, framework))

    async def _bind(self, entry: QueuedPodInfo, decision: Bind, framework: Framework) -> None:
        try:
            await self._writers.binder.bind(
                entry.pod, decision, binding_timeout=framework.profile.binding_timeout
            )
        except BindingError as problem:
            await self._unreserve(entry.pod, decision, problem)
            self._catch_up(entry)
            if problem.patched_pod is not None:
                _adopt_newer(entry, problem.patched_pod)
            await self._writers.reporter.failed_scheduling(
                entry.pod, reason="SchedulerError", message=str(problem), nominated=""
            )
            self._requeue(entry)
        else:
            self._metrics.scheduled(framework.profile.name, entry, self._monotonic())
            if decision.carry is not None:
                await decision.carry.done()
        finally:
            self.slots.release()

    async def _unreserve(self, pod: PodInfo, decision: Bind, problem: BindingError) -> None:
        self._cluster.remove_pod(pod.uid)
        await self._writers.unreserver.unreserve(pod, decision, problem)
        self._pending.requeue("AssignedPod", "delete", pod, None)

    def _catch_up(self, entry: QueuedPodInfo) -> bool:
        """Look at the pod as it is by now: while it is being bound, news of it are passed over. False: it has gone."""
        current = self._pods.get(entry.pod.namespace, entry.pod.name)
        if current is None or current["metadata"]["uid"] != entry.pod.uid:
            return False
        entry.pod = entry.pod.updated(current)
        return True

    def _requeue(self, entry: QueuedPodInfo) -> None:
        """Back into the queue, unless the pod has gone or got a node meanwhile."""
        self._pending.forget(entry.pod.uid)
        if not self._catch_up(entry) or entry.pod.document["spec"].get("nodeName") or entry.pod.terminating:
            return
        self._pending.retry(entry)


class FailureHandler:
    """Pods that got no node: room may be made for them, and they are told why not."""

    def __init__(
        self, pending: PendingPods, profiles: Profiles, writing: Writers, *, spawn: Spawn, metrics: Metrics
    ) -> None:
        self._pending = pending
        self._queue = pending.queue
        self._profiles = profiles
        self._writers = writing
        self._spawn = spawn
        self._metrics = metrics

    def fail(self, entry: QueuedPodInfo, failure: Failure) -> None:
        """The attempt itself went wrong: it is made again later."""
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
                len(decision.preempt.victims) if decision.preempt is not None else 0
            )
        nominated: str | None = None
        if decision.preempt is not None:
            nominated = decision.preempt.node
            lower_nominated = self._profiles.pop_lower_nominated(pod, nominated)
            framework.placement.nominate(pod, nominated, decision.device_nomination)
            self._spawn(
                self._writers.evictions.preempt(
                    pod,
                    decision.preempt,
                    scheduler=framework.profile.name,
                    lower_nominated=lower_nominated,
                    for_devices=decision.device_nomination is not None,
                )
            )
        elif pod.nominated_node and not decision.keeps_nomination:
            nominated = ""
            framework.placement.delete_nominated_pod(pod.uid)
        # The pod sleeps before anything is written, so that it hears of what these writes change; it is tried again
        # only after them, or two outcomes would be told of one version of the pod, and the second event be lost.
        self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        entry.in_flight = True
        if decision.waiting:
            entry.failures = 0  # nobody said no: no back-off when the answer comes
        self._spawn(self._settle(entry, decision, nominated))

    async def _settle(self, entry: QueuedPodInfo, decision: Unschedulable, nominated: str | None) -> None:
        try:
            told = await self._tell(entry.pod, decision, nominated)
            if told is not None:
                _adopt_newer(entry, told)
        finally:
            self._queue.done(entry)
            self._pending.wakeup.set()

    async def _tell(self, pod: PodInfo, decision: Unschedulable, nominated: str | None) -> Document | None:
        if decision.first is not None:
            await decision.first()
        if decision.deallocate is not None:
            await self._writers.unreserver.deallocate(pod, decision.deallocate)
        if decision.remove is not None:
            await self._writers.unreserver.remove(pod, decision.remove)
        return await self._writers.reporter.failed_scheduling(
            pod,
            reason=decision.reason,
            message=decision.message,
            nominated=nominated,
            reasons=decision.reasons,
        )


def _adopt_newer(entry: QueuedPodInfo, written: Document) -> None:
    """Go on with the pod as it was written, unless something newer is known of it already."""
    if _version(written) > _version(entry.pod.document):
        entry.pod = entry.pod.updated(written)


def _version(document: Document) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)
