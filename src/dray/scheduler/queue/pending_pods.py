"""The pods that want a node: what keeps each from being tried, who waits for which claim, and who is on the way.

A pod is taken up when it is first seen without a node, assumed once a node is chosen for it, and dropped when it is
there or needs none any more. Whoever changes something that may help a pod says so here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from dray.api import objects
from dray.placement.cache.pods import PodInfo, PodInfoFactory
from dray.placement.plugins import dynamic_resources
from dray.placement.profiles import Profiles
from dray.scheduler.queue import queueing_hints
from dray.scheduler.queue.scheduling_queue import ClusterEvent, QueuedPodInfo, SchedulingQueue

Document = Mapping[str, Any]


class PendingPods:
    """The queue, with what decides who enters it and when it is worth looking into again."""

    def __init__(
        self,
        queue: SchedulingQueue,
        profiles: Profiles,
        *,
        requeued_by_any_change: bool,
        skipped: Callable[[PodInfo], None],
    ) -> None:
        """``skipped`` is told of pods that are deleted when their turn has come.

        ``woken_by_any_change``: there are no hints yet that tell changes of a pod which help it from those which do not.
        """
        self.queue = queue
        self.wakeup = asyncio.Event()  # the queue is worth looking into
        self.assumed: dict[str, str] = {}  # pods on their way to a node, not yet seen there
        self._profiles = profiles
        self._requeued_by_any_change = requeued_by_any_change
        self._skipped = skipped
        self._users: dict[tuple[str, str], set[str]] = {}  # claim → pods in the queue that name it
        self._pod_infos = PodInfoFactory()

    # -- coming and going -------------------------------------------------------------------------------------------

    def add_or_update(self, uid: str, document: Document) -> None:
        """A pod without a node is there, or has changed."""
        entry = self.queue.get(uid)
        if "deletionTimestamp" in document["metadata"]:
            if entry is not None:
                # Where any change of a pod wakes it, its deletion does.
                if self.queue.is_due(uid, requeued=self._requeued_by_any_change):
                    self._skipped(entry.pod.updated(document))
                self.queue.discard(uid)
                self._unlink(entry.pod)
            return
        if entry is None:
            pod = self._pod_infos.of(document)
            self._link(pod)
            if pod.nominated_node:
                self._profiles.of(pod).placement.nominator.nominate(pod, pod.nominated_node)
            self.queue.add(pod, gate=self._gate(pod))
        else:
            before = entry.pod
            pod = before.updated(document)
            self._link(pod)
            may_help = pod.document["spec"] != before.document["spec"] or _claim_statuses(pod) != _claim_statuses(before) or (
                pod.labels != before.labels
            )  # fmt: skip
            self.queue.update(pod, gate=self._gate(pod), may_help=may_help)
        self.wakeup.set()

    def delete(self, uid: str) -> None:
        """Nothing is wanted for the pod any more, neither a node nor a promise of one."""
        # What is on its way to a node is in the queue no more.
        if self.assumed.pop(uid, None) is None and (entry := self.queue.discard(uid)) is not None:
            self._unlink(entry.pod)
        self._profiles.delete_nominated_pod(uid)

    def assume(self, pod: PodInfo, node: str) -> None:
        """A node is chosen for the pod, which has left the queue."""
        self._unlink(pod)
        self.assumed[pod.uid] = node

    def forget(self, uid: str) -> None:
        """The pod is not on its way any more: news of it count again."""
        self.assumed.pop(uid, None)

    def retry(self, entry: QueuedPodInfo) -> None:
        """A pod that was on its way did not get there, and still wants a node."""
        self._link(entry.pod)
        gate = self._gate(entry.pod)
        if gate:
            self.queue.add(entry.pod, gate=gate)
        else:
            self.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        self.wakeup.set()

    # -- waking -----------------------------------------------------------------------------------------------------

    def requeue(self, resource: str, action: str, old: Any = None, new: Any = None) -> None:
        """Something has changed that may help pods which were turned down."""
        if self.queue.has_unschedulable and self.queue.requeue(
            ClusterEvent(resource, action, old, new), queueing_hints.should_queue
        ):
            self.wakeup.set()

    def requeue_pods(self, uids: Iterable[str]) -> None:
        if self.queue.requeue_these(uids):
            self.wakeup.set()

    def requeue_users(self, claim: Document) -> None:
        """Let everyone try again who uses a claim, or waits for it."""
        self.recheck(claim)
        self.requeue_pods(self._users_of(claim))

    def recheck(self, claim: Document) -> None:
        """Let in the pods that have waited for just this claim."""
        for uid in self._users_of(claim):
            entry = self.queue.at_gate(uid)
            if entry is not None and not self._gate(entry.pod):
                self.queue.update(entry.pod, gate="", may_help=True)
                self.wakeup.set()

    # -- claims -----------------------------------------------------------------------------------------------------

    def _gate(self, pod: PodInfo) -> str:
        """What keeps the pod from being tried at all."""
        if pod.document["spec"].get("schedulingGates"):
            return "SchedulingGates"
        framework = self._profiles.of(pod)
        if not framework.profile.enabled(dynamic_resources.PLUGIN):
            return ""
        return framework.claims.pre_enqueue(pod)

    def _users_of(self, claim: Document) -> set[str]:
        """The pods that name a claim, and the one it was made for."""
        metadata = claim["metadata"]
        users = self._users.get((metadata["namespace"], metadata["name"]), ())
        owner = objects.controller_of(claim)
        return {*users, owner["uid"]} if owner is not None else set(users)

    def _link(self, pod: PodInfo) -> None:
        for name in pod.named_claims:
            self._users.setdefault((pod.namespace, name), set()).add(pod.uid)

    def _unlink(self, pod: PodInfo) -> None:
        for name in pod.named_claims:
            key = (pod.namespace, name)
            users = self._users.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._users[key]


def _claim_statuses(pod: PodInfo) -> Any:
    return (pod.document.get("status") or {}).get("resourceClaimStatuses")
