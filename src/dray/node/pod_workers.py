"""The workers of one node's pods: one for each pod that is not over, found by the pod's uid or name."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from dray.api import pods
from dray.backoff import Backoff
from dray.node.container.runtime_config import NODE_LABEL
from dray.node.pod_worker import PodDependencies, PodWorker
from dray.node.recovery import RecoveredPod
from dray.runtimes.interface import ContainerStatus, RuntimeFailure

if TYPE_CHECKING:
    from dray.api.types.core import Pod

log = logging.getLogger(__name__)

_RETRY = Backoff(initial=1.0, factor=2.0, maximum=300.0, jitter=0.2)


class PodWorkers:
    """Starts a worker for each pod, and removes what is left of pods that are gone."""

    def __init__(
        self, dependencies: PodDependencies, *, ended: Callable[[str], None] = lambda uid: None
    ) -> None:
        """``ended`` is called with the uid of a pod whose worker has nothing left to do."""
        self._dependencies = dependencies
        self._ended = ended
        self._workers: dict[str, PodWorker] = {}
        self._running: dict[str, asyncio.Task[None]] = {}
        self._orphans: set[str] = set()  # pods that are gone but whose containers may still run
        self._tasks: asyncio.TaskGroup | None = None

    def start(self, tasks: asyncio.TaskGroup) -> None:
        self._tasks = tasks

    def stop(self) -> None:
        for task in self._running.values():
            task.cancel()
        self._tasks = None

    def __iter__(self) -> Iterator[PodWorker]:
        return iter(self._workers.values())

    def __contains__(self, uid: str) -> bool:
        return uid in self._workers

    def get(self, uid: str) -> PodWorker | None:
        return self._workers.get(uid)

    def find(self, namespace: str, name: str) -> PodWorker | None:
        for worker in self._workers.values():
            metadata = worker.pod["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                return worker
        return None

    def update(self, pod: Pod, *, recovered: RecoveredPod | None = None) -> None:
        """Tells the pod's worker of a change; a pod that needs a worker and has none gets one."""
        uid = pod["metadata"]["uid"]
        if uid in self._workers:
            self._workers[uid].pod_changed(pod)
            return
        nothing_left = recovered is None and not self._dependencies.claims.holds_claims_of(uid)
        if pods.is_terminal(pod) and pods.deletion_deadline(pod) is None and nothing_left:
            return
        worker = self._workers[uid] = PodWorker(
            self._dependencies, pod, recovered=recovered, others=lambda: self._pods_beside(uid)
        )
        assert self._tasks is not None
        self._running[uid] = self._tasks.create_task(
            self._run(uid, worker), name=f"pod {pods.full_name(pod)}"
        )

    def _pods_beside(self, uid: str) -> Iterator[Pod]:
        """The other pods that take resources of the node."""
        for other, worker in self._workers.items():
            if other != uid and not worker.state.torn_down and worker.state.killed is None:
                yield worker.pod

    def remove(self, pod: Pod) -> None:
        """The pod's object is gone."""
        if worker := self._workers.get(pod["metadata"]["uid"]):
            worker.pod_removed()

    def container_changed(self, status: ContainerStatus) -> None:
        if worker := self._workers.get(status.pod_uid):
            worker.container_changed(status)

    def health_changed(self, uids: Iterable[str]) -> None:
        for uid in uids:
            if worker := self._workers.get(uid):
                worker.health_changed()

    def retry_failed(self) -> None:
        """Pods whose set-up or end has failed try again at once: what they waited for may be there now."""
        for worker in self._workers.values():
            if worker.state.failure:
                worker.state = replace(worker.state, retry_at=0.0)
                worker.pod_changed(worker.pod)

    async def _run(self, uid: str, worker: PodWorker) -> None:
        """Runs one worker. If it breaks, the other pods do not notice."""
        try:
            while True:
                try:
                    await worker.run()
                    return
                except Exception:
                    log.exception("pod %s", pods.full_name(worker.pod))
                    await asyncio.sleep(1)
        finally:
            self._workers.pop(uid, None)
            self._running.pop(uid, None)
            self._ended(uid)

    # Pods that went while no agent was running

    def remove_orphans(self, recovered: Mapping[str, RecoveredPod]) -> None:
        """Removes what the runtime still has of pods of this node that are gone."""
        for uid, left in recovered.items():
            node = self._dependencies.node.name
            mine = left.sandbox is not None and left.sandbox.labels.get(NODE_LABEL) == node
            if mine and uid not in self._workers and self._tasks:
                self._orphans.add(uid)
                self._tasks.create_task(self._remove_orphan(uid, left))

    async def _remove_orphan(self, uid: str, left: RecoveredPod) -> None:
        """First the containers; only then may the claims of the pod be unprepared."""
        assert left.sandbox is not None
        name = f"{left.sandbox.namespace}/{left.sandbox.name}"
        log.info("pod %s is gone; what is left of it is removed", name)
        for pause in _RETRY.pauses():
            try:
                await self._dependencies.runtime.remove_sandbox(left.sandbox.id)
                break
            except RuntimeFailure as e:
                log.warning("containers of pod %s cannot be removed yet: %s", name, e)
                await asyncio.sleep(pause)
        self._orphans.discard(uid)
        await self.reconcile_claims()

    async def reconcile_claims(self) -> None:
        """Unprepares the claims of pods that are gone and of which no container is left."""
        await self._dependencies.claims.reconcile({*self._workers, *self._orphans})
