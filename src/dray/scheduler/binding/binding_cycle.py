"""Binding cycles: what was decided is assumed in memory at once and written by a task of its own.

When a write fails, what was assumed is released and the pod is retried after its backoff.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

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

#: starts a task that nobody waits for, and that ends with the scheduler
Spawn = Callable[[Coroutine[Any, Any, object]], None]
#: pods being bound at the same time
MAX_CONCURRENT_BINDINGS = 512


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
        pod, node = entry.pod, decision.node
        claims = self._writers.claims.of(
            pod, node, decision.reservation, binding_timeout=framework.profile.binding_timeout
        )
        self._pending.assume(pod, node)
        nominator = framework.placement.nominator
        if nominator.nominated:
            nominator.delete_nominated_pod(pod.uid)
        self._cluster.add_pod(claims.pod_on_node, node)
        claims.reserve()
        self._spawn(self._bind(entry, node, claims, framework))

    async def _bind(
        self, entry: QueuedPodInfo, node: str, claims: ClaimBinding, framework: Framework
    ) -> None:
        pod = entry.pod
        try:
            await self._writers.binder.bind(pod, node, claims)
        except BindingError as problem:
            self._cluster.remove_pod(pod.uid)
            await claims.release()
            self._pending.assigned_pod_event(pod, None)
            self._catch_up(entry)
            if problem.patched_pod is not None:
                entry.adopt_newer(problem.patched_pod)
            await self._writers.reporter.failed_scheduling(
                entry.pod, reason="SchedulerError", message=str(problem), nominated=""
            )
            self._requeue(entry)
        else:
            self._metrics.scheduled(framework.profile.name, entry, self._monotonic())
            await claims.done()
        finally:
            self.slots.release()

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
        if not self._catch_up(entry) or entry.pod.document["spec"].get("nodeName") or entry.pod.terminating:
            return
        self._pending.retry(entry)
