"""The scheduling cycle in virtual time: ``decide`` is asked about one pod or group after the other, and obeyed at once."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, cast

from dray.placement.claims import Deallocate, DeleteLeftover
from dray.placement.decision import decide
from dray.placement.gangs import gangs_of
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.plugins.dynamic_resources import DeviceReservation
from dray.placement.plugins.extended_resources import in_memory_claim
from dray.simulate.claims import unallocated
from dray.simulate.gangs import Gangs
from dray.simulate.model import SimulationError

if TYPE_CHECKING:
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite
    from dray.scheduler.queue.pending_groups import PendingGroup
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
    from dray.simulate.components import Components
    from dray.simulate.pods import PodRun, Pods
    from dray.simulate.sampler import Sampler
    from dray.simulate.taint_eviction import TaintEviction

_DEVICES = frozenset({"DynamicResources"})


class SchedulingCycle:
    """Attempts for the pods and groups of the queue."""

    def __init__(
        self, components: Components, pods: Pods, sampler: Sampler, taints: TaintEviction | None
    ) -> None:
        self._components = components
        self._options = components.options
        self._framework = components.framework
        self._nominator = components.framework.placement.nominator
        self._queue = components.queue
        self._pods = pods
        self._sampler = sampler
        self._taints = taints
        self._gangs = Gangs(
            self,
            components.claims,
            components.pending,
            components.profiles,
            components.groups,
            spread=components.spread,
            clock=components.clock,
        )
        self.preemptions = 0

    def run(self) -> None:
        """Try everybody who is in line now."""
        while (entry := self._queue.pop()) is not None:
            if entry.gang is None:
                self._attempt(entry)
            else:
                self._attempt_group(entry)

    def _attempt(self, entry: QueuedPodInfo) -> None:
        pod = entry.pod
        run = self._pods[pod.uid]
        run.attempts += 1
        attempt = partial(
            decide,
            pod,
            self._framework,
            spread=self._components.spread(pod),
            explains=self._options.explains,
        )
        decision = attempt()
        if (
            len(self._components.groups)
            and isinstance(decision, Bind)
            and not self._gangs.backfill.nobody_waits()
        ):
            decision = self._gangs.backfill.admit(entry, decision, self._framework, attempt)
        match decision:
            case Bind(node, reservation):
                assert reservation is None or isinstance(reservation, DeviceReservation)
                if self._would_be_evicted(reservation):
                    self._queue.add_unschedulable(entry, rejected_by=_DEVICES)
                else:
                    self._bind(run, pod, node, reservation)
            case Unschedulable():
                self._unschedulable(entry, run, decision)
            case Gated(reason):
                self._queue.gate_again(entry, reason)
            case Failure(message):
                raise SimulationError(f"pod {pod.key}: {message}")

    def _would_be_evicted(self, reservation: DeviceReservation | None) -> bool:
        """Whether the pod would have to leave its devices at once, because its claims do not tolerate a taint any more.

        In a cluster such a pod gets the devices and is evicted, again and again. Here it waits for others.
        """
        if self._taints is None or not self._taints.active or reservation is None:
            return False
        results = [
            one
            for result in reservation.plan.results
            for one in (result.get("devices") or {}).get("results") or ()
        ]
        return self._taints.would_evict(results)

    def _bind(self, run: PodRun, pod: PodInfo, node: str, reservation: DeviceReservation | None) -> None:
        self._pods.bind(run, pod, node, reservation)
        if self._taints is not None:
            self._taints.bound(pod.uid)

    def _unschedulable(self, entry: QueuedPodInfo, run: PodRun, decision: Unschedulable) -> None:
        pod = entry.pod
        for write in decision.writes:
            self.post_filter(write)
        if decision.candidate is not None:
            self._preempt(entry, decision)
            return
        if pod.nominated_node and not decision.keeps_nomination:
            self._nominator.delete_nominated_pod(pod.uid)
        if decision.writes:
            self._queue.add_unschedulable(entry, rejected_by=frozenset())
        elif self._options.retries:
            self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        else:
            self._pods.drop(run, decision.message)

    def _preempt(self, entry: QueuedPodInfo, decision: Unschedulable) -> None:
        """The victims are gone at once, and the pod is tried again on the node that they leave."""
        candidate, pod = decision.candidate, entry.pod
        assert candidate is not None
        self._components.profiles.pop_lower_nominated(pod, candidate.node)
        self._nominator.nominate(pod, candidate.node, decision.device_nomination)
        self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        self.preempt(candidate.victims)
        entry.failures = 0  # the nominated pod does not have to wait for its backoff
        self._queue.requeue_these([pod.uid])

    def _attempt_group(self, entry: QueuedPodInfo) -> None:
        groups = self._components.pending.groups
        assert groups is not None
        before = self.preemptions
        tree = groups.tree(cast("PendingGroup", entry.gang))
        for gang in gangs_of(tree) if tree is not None else ():
            for pod in gang.members:
                self._pods[pod.uid].attempts += 1
        self._gangs.attempt(entry)
        if self.preemptions > before:
            entry.failures = 0  # as for one pod: what was in the way is gone
            self._queue.requeue_these([entry.pod.uid])

    # -- what is done for groups and for single pods alike ------------------------------------------------------------

    def bind_member(self, pod: PodInfo, bind: Bind) -> None:
        """A member of a group that is placed. All of them are assumed already."""
        reservation = bind.reservation
        assert reservation is None or isinstance(reservation, DeviceReservation)
        for claim in reservation.plan.claims if reservation is not None else ():
            if "uid" not in claim["metadata"]:
                self._components.claims.forget(in_memory_claim(claim, pod)["metadata"]["uid"])
        run = self._pods[pod.uid]
        self._bind(run, pod, bind.node, reservation)
        request = self._components.scorer.request_of_claims(pod, run.arrival.claims)
        run.units = request.total(self._sampler.state(bind.node).kinds)

    def post_filter(self, write: PostFilterWrite) -> None:
        match write:
            case Deallocate(claim):
                self._components.claims.set_claim(unallocated(claim))
            case DeleteLeftover(claim):
                self._components.claims.remove_claim(claim)

    def preempt(self, victims: Iterable[PodInfo]) -> None:
        for victim in victims:
            self.preemptions += 1
            self._pods.evict(victim.uid)
