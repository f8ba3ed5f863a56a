"""The pods without a node: which of them are gated, which claims they wait for, and which are assumed to be bound.

A pod is added when it is first seen without a node, assumed once a node is chosen for it, and deleted when it is bound
or needs no node any more. Events that may help a pod are reported here.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from dray.api import objects
from dray.placement.cache.pods import PodInfo, PodInfoFactory
from dray.placement.plugins import dynamic_resources
from dray.placement.profiles import Profiles
from dray.scheduler.queue import queueing_hints
from dray.scheduler.queue.pending_groups import PendingGroups
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue

if TYPE_CHECKING:
    from dray.api.types import Object
    from dray.api.types.core import Pod, PodResourceClaimStatus
    from dray.api.types.resource import ResourceClaim
    from dray.placement.cache.groups import GroupCache
    from dray.placement.cache.nodes import ClusterCache, NodeInfo
    from dray.scheduler.queue.queueing_hints import ClusterEvent


class PendingPods:
    """The queue, with what decides which pods are gated and when pods are requeued."""

    def __init__(
        self,
        queue: SchedulingQueue,
        profiles: Profiles,
        *,
        requeued_by_any_change: bool,
        skipped: Callable[[PodInfo], None],
        groups: GroupCache | None = None,
        cluster: ClusterCache | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``skipped`` is called with pods that are deleted when they are about to be tried.

        ``groups`` and ``cluster``: where pods of a PodGroup are scheduled together.

        ``requeued_by_any_change``: any update of an unschedulable pod requeues the pod.
        """
        self.queue = queue
        self.wakeup = asyncio.Event()  # there may be a pod to try
        self.assumed: dict[str, str] = {}  # pod uid → node, until the informer says that the pod is bound
        self._profiles = profiles
        self._requeued_by_any_change = requeued_by_any_change
        self._skipped = skipped
        self._users: dict[tuple[str, str], set[str]] = {}  # claim → pods in the queue that name it
        self._pod_infos = PodInfoFactory(512)
        self.groups: PendingGroups | None = None
        if groups is not None and cluster is not None:
            quirks = next(iter(profiles.by_name.values())).quirks
            self.groups = PendingGroups(
                queue, groups, cluster, quirks, gate_of=self._gate, wake=self.wakeup.set, clock=clock
            )

    # -- adding and deleting -----------------------------------------------------------------------------------------

    def add_or_update(self, uid: str, document: Pod) -> None:
        """A pod without a node is there, or has changed."""
        if self.groups is not None and "schedulingGroup" in document["spec"]:
            self._add_or_update_member(self.groups, uid, document)
            return
        entry = self.queue.get(uid)
        if "deletionTimestamp" in document["metadata"]:
            if entry is not None:
                # Where any update of a pod requeues it, its deletion does.
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
            may_help = (
                pod.document["spec"] != before.document["spec"]
                or _claim_statuses(pod) != _claim_statuses(before)
                or pod.labels != before.labels
            )
            self.queue.update(pod, gate=self._gate(pod), may_help=may_help)
        self.wakeup.set()

    def _add_or_update_member(self, groups: PendingGroups, uid: str, document: Pod) -> None:
        if "deletionTimestamp" in document["metadata"]:
            if (entry := groups.remove(uid)) is not None:
                self._unlink(entry.pod)
            return
        self._link(groups.add_or_update(uid, document))

    def delete(self, uid: str) -> None:
        """The pod needs no node any more. An assumed pod has left the queue already."""
        if self.assumed.pop(uid, None) is None:
            entry = self.queue.discard(uid)
            if entry is None and self.groups is not None:
                entry = self.groups.remove(uid)
            if entry is not None:
                self._unlink(entry.pod)
        self._profiles.delete_nominated_pod(uid)

    def assume(self, pod: PodInfo, node: str) -> None:
        """A node is chosen for the pod, which has left the queue."""
        self._unlink(pod)
        self.assumed[pod.uid] = node
        if pod.group and self.groups is not None:
            self.groups.remove(pod.uid)

    def forget(self, uid: str) -> None:
        """The pod is not bound after all: updates of it count again."""
        self.assumed.pop(uid, None)

    def retry(self, entry: QueuedPodInfo) -> None:
        """A pod that was assumed could not be bound, and is tried again."""
        self._link(entry.pod)
        if entry.pod.group and self.groups is not None:
            self.groups.retry(entry)
            return
        gate = self._gate(entry.pod)
        if gate:
            self.queue.add(entry.pod, gate=gate)
        else:
            self.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        self.wakeup.set()

    def retry_gang(self, members: Sequence[QueuedPodInfo], gang: QueuedPodInfo) -> None:
        """No member of a gang could be bound, and all are tried again, after the backoff of the gang's entry."""
        assert self.groups is not None
        for entry in members:
            self._link(entry.pod)
        self.groups.retry_gang(members, gang)

    # -- events ---------------------------------------------------------------------------------------------------

    def node_event(self, node: NodeInfo | None) -> None:
        """A node was added or updated, or (None) deleted."""
        if self.queue.has_unschedulable:
            self._requeue(queueing_hints.after_node_event(node))

    def assigned_pod_event(self, old: PodInfo | None, new: PodInfo | None) -> None:
        """A pod on some node was added, updated or deleted."""
        if self.queue.has_unschedulable:
            self._requeue(queueing_hints.after_assigned_pod_event(old, new))

    def claim_event(self, old: ResourceClaim | None, new: ResourceClaim | None) -> None:
        if self.queue.has_unschedulable:
            self._requeue(queueing_hints.after_claim_event(old, new))

    def event(self, kind: str) -> None:
        """An object of another kind has changed."""
        if self.queue.has_unschedulable:
            self._requeue(queueing_hints.after_event(kind))

    def _requeue(self, event: ClusterEvent) -> None:
        if self.queue.requeue(event.may_help, about=event.subjects):
            self.wakeup.set()

    def requeue_pods(self, uids: Iterable[str]) -> None:
        if self.queue.requeue_these(uids):
            self.wakeup.set()

    def requeue_users(self, claim: Object) -> None:
        """Requeue the pods that use a claim or wait for it."""
        self.recheck(claim)
        self.requeue_pods(self._users_of(claim))

    def recheck(self, claim: Object) -> None:
        """Lift the gate of the pods that waited for this claim alone."""
        groups, at_gate = self.groups, self.queue.at_gate
        for uid in self._users_of(claim):
            if groups is not None and uid in groups:
                groups.recheck(uid)
                continue
            entry = at_gate(uid)
            if entry is not None and not self._gate(entry.pod):
                self.queue.update(entry.pod, gate="", may_help=True)
                self.wakeup.set()

    # -- claims -----------------------------------------------------------------------------------------------------

    def _gate(self, pod: PodInfo) -> str:
        """Why the pod is not to be tried, or an empty string."""
        if pod.document["spec"].get("schedulingGates"):
            return "SchedulingGates"
        framework = self._profiles.of(pod)
        if not framework.profile.enabled(dynamic_resources.PLUGIN):
            return ""
        return framework.claims.pre_enqueue(pod)

    def _users_of(self, claim: Object) -> Collection[str]:
        """The pods that name a claim, and the pod that owns it or the members of the group that does."""
        metadata = claim["metadata"]
        users = self._users.get((metadata["namespace"], metadata["name"]), ())
        owner = objects.controller_of(claim)
        if owner is None:
            return set(users)
        if self.groups is not None and owner["kind"] == "PodGroup":
            return {*users, *self.groups.waiting_members(metadata["namespace"], owner["name"])}
        return {*users, owner["uid"]} if users else (owner["uid"],)

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


def _claim_statuses(pod: PodInfo) -> Sequence[PodResourceClaimStatus] | None:
    return (pod.document.get("status") or {}).get("resourceClaimStatuses")
