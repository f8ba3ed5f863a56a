"""The pods of a simulation, from their arrival to their end: what each of them has, and how it leaves.

What the scheduler, the controllers and the nodes would write in a cluster is done here at once.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dray.api import claims
from dray.placement.cache.pods import PodInfo
from dray.simulate.claims import (
    SharedClaims,
    classes_of,
    device_names,
    is_own,
    is_same,
    names_of_shared,
    unallocated,
    unversioned,
)
from dray.simulate.model import Arrival, PodOutcome, SimulationError, Stay

if TYPE_CHECKING:
    from dray.api.types.core import Pod
    from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
    from dray.placement.plugins.dynamic_resources import DeviceReservation
    from dray.placement.policies.model import Request
    from dray.simulate.components import Components
    from dray.simulate.sampler import Sampler


@dataclass(slots=True)
class PodRun:
    """A pod, from its arrival to its end."""

    arrival: Arrival
    pod: PodInfo
    requested: int
    queued: float  # since when it waits
    scheduled: float | None = None
    ended: float | None = None
    node: str = ""
    devices: tuple[str, ...] = ()
    classes: tuple[str, ...] = ()
    units: int = 0
    attempts: int = 0
    evictions: int = 0
    waited: float = 0.0
    incarnation: int = 0  # ends of earlier runs do not count
    reason: str = ""  # why it was dropped
    claims: list[ResourceClaim] = field(default_factory=list)  # its own, as the API server would have them
    shared: tuple[str, ...] = ()  # names of claims that it uses and that others may use, too
    evicted: tuple[Stay, ...] = ()  # where it was before

    def outcome(self) -> PodOutcome:
        return PodOutcome(
            pod=self.pod.key,
            arrived=self.arrival.time,
            scheduled=self.scheduled,
            ended=self.ended,
            node=self.node,
            devices=self.devices,
            classes=self.classes,
            units=self.units,
            requested=self.requested,
            attempts=self.attempts,
            evictions=self.evictions,
            waited=self.waited,
            duration=self.arrival.duration,
            reason=self.reason,
            evicted=self.evicted,
        )


class Pods:
    """All pods: those that wait, those that run, and what became of the others."""

    def __init__(self, components: Components, sampler: Sampler) -> None:
        self._components = components
        self._clock = components.clock
        self._cluster = components.cluster
        self._claims = components.claims
        self._pending = components.pending
        self._sampler = sampler
        self._shared = SharedClaims(components)
        self._runs: dict[str, PodRun] = {}  # by uid; those that wait or run
        #: every pod, in order of arrival; of pods that are gone only the outcome is kept
        self._outcomes: dict[str, PodRun | PodOutcome] = {}
        self._serial = itertools.count()
        self._ends: list[tuple[float, int, str, int]] = []  # (when, serial, uid, incarnation)
        self._totals: dict[Request, int] = {}  # thousandths of devices
        self.requested = 0  # thousandths of devices, by all pods that have arrived
        self.running = 0

    def __getitem__(self, uid: str) -> PodRun:
        return self._runs[uid]

    @property
    def arrived(self) -> int:
        return len(self._outcomes)

    @property
    def next_end(self) -> float | None:
        return self._ends[0][0] if self._ends else None

    def outcomes(self) -> tuple[PodOutcome, ...]:
        return tuple(one if isinstance(one, PodOutcome) else one.outcome() for one in self._outcomes.values())

    def claims_of(self, uid: str) -> Iterator[ResourceClaim]:
        """The claims of a pod that runs, as they are now."""
        run = self._runs.get(uid)
        if run is not None:
            yield from run.claims
            names = run.shared
            namespace = run.pod.namespace
        else:  # it was there before the first event
            node = self._cluster.get(self._cluster.node_of(uid) or "")
            if node is None:
                return
            pod = node.pods[uid]
            names = tuple(one.claim for one in claims.references(pod.document) if one.claim)
            namespace = pod.namespace
        for name in names:
            if (claim := self._claims.claim(namespace, name)) is not None:
                yield claim

    # -- arrival ------------------------------------------------------------------------------------------------------

    def start(self, document: Pod) -> None:
        """A pod that is on its node before the first event."""
        pod = PodInfo(document)
        node_name = document["spec"].get("nodeName")
        if not node_name:
            raise SimulationError(
                f"pod {pod.key} of the cluster has no node: give pods that are to be scheduled as workload"
            )
        self._cluster.add_pod(pod, node_name)
        for name in names_of_shared(document):
            self._shared.use(pod.namespace, name, pod.uid)
        self.running += 1

    def arrive(self, arrival: Arrival) -> None:
        if arrival.duration is not None and arrival.duration < 0:
            raise SimulationError(
                f"pod {arrival.pod['metadata']['name']} runs for {arrival.duration:g} s: durations are not negative"
            )
        document = arrival.pod
        uid = document["metadata"]["uid"]
        if uid in self._outcomes:
            raise SimulationError(f"two pods have the uid {uid}")
        own: list[ResourceClaim] = []
        for claim in map(unversioned, arrival.claims):
            metadata = claim["metadata"]
            if is_own(claim, uid):
                own.append(claim)
            elif self._claims.claim(metadata["namespace"], metadata["name"]) is not None:
                continue  # another pod has brought it
            self._claims.set_claim(claim)
        pending = self._pending
        pending.add_or_update(uid, document)
        entry = self._components.queue.get(uid) or (pending.groups.get(uid) if pending.groups else None)
        assert entry is not None
        run = PodRun(arrival, entry.pod, 0, self._clock.now, claims=own, shared=names_of_shared(document))
        run.requested = self._request_of(run)
        self.requested += run.requested
        self._runs[uid] = self._outcomes[uid] = run

    def _request_of(self, run: PodRun) -> int:
        """The thousandths of devices that a pod asks for, on devices on which it takes most."""
        scorer, observed = self._components.scorer, self._components.observed
        request = scorer.request_of_claims(run.pod, run.arrival.claims)
        if observed is not None:
            observed.add(run.pod.uid, request)
        if not run.arrival.claims:
            return 0
        known = self._totals.get(request)
        if known is None:
            known = self._totals[request] = max(map(request.total, scorer.states.all_kinds), default=0)
        return known

    # -- what the scheduler decides -----------------------------------------------------------------------------------

    def bind(self, run: PodRun, pod: PodInfo, node: str, reservation: DeviceReservation | None) -> None:
        self._pending.assume(pod, node)
        nominator = self._components.framework.placement.nominator
        if nominator.nominated:
            nominator.delete_nominated_pod(pod.uid)
        if reservation is not None:
            if reservation.plan.node_allocatable:
                pod = pod.with_node_allocatable(reservation.plan.node_allocatable)
            self._reserve(run, pod, reservation)
        for name in run.shared:
            self._shared.use(pod.namespace, name, pod.uid)
        self._cluster.add_pod(pod, node)
        self._pending.assumed.pop(pod.uid, None)
        now = self._clock.now
        run.scheduled, run.node = now, node
        run.waited += now - run.queued
        before = self._sampler.free
        self._sampler.recount_node(node)
        run.units = before - self._sampler.free
        self.running += 1
        if run.arrival.duration is not None:
            end = (now + run.arrival.duration, next(self._serial), pod.uid, run.incarnation)
            heapq.heappush(self._ends, end)

    def _reserve(self, run: PodRun, pod: PodInfo, reservation: DeviceReservation) -> None:
        """What the scheduler writes: allocation and reservation."""
        plan = reservation.plan
        user: ResourceClaimConsumerReference = {"resource": "pods", "name": pod.name, "uid": pod.uid}
        devices: list[str] = []
        classes: list[str] = []
        allocated: list[ResourceClaim] = []
        for claim, result in zip(plan.claims, plan.results, strict=True):
            if "uid" not in claim["metadata"]:
                claim = {**claim, "metadata": {**claim["metadata"], "uid": f"{pod.uid}/extended-resources"}}
            written: ResourceClaim = {
                **claim,
                "status": {**(claim.get("status") or {}), "allocation": result, "reservedFor": [user]},
            }
            self._claims.set_claim(written)
            if claim["metadata"]["name"] not in run.shared:
                allocated.append(written)
            devices += device_names(result)
            classes += classes_of(claim, result)
        others = [one for one in run.claims if not any(is_same(one, new) for new in allocated)]
        run.claims = [*others, *allocated]
        run.devices, run.classes = tuple(devices), tuple(classes)

    def drop(self, run: PodRun, reason: str) -> None:
        """No node fits, and nobody tries again."""
        run.reason = reason
        run.waited += self._clock.now - run.queued
        for claim in run.claims:
            self._claims.remove_claim(claim)
        self._outcomes[run.pod.uid] = self._runs.pop(run.pod.uid).outcome()

    # -- ends ---------------------------------------------------------------------------------------------------------

    def end_due(self) -> None:
        """Pods that have run as long as they were to run are gone."""
        now = self._clock.now
        while self._ends and self._ends[0][0] <= now:
            _, _, uid, incarnation = heapq.heappop(self._ends)
            run = self._runs.get(uid)
            if run is not None and run.incarnation == incarnation:
                run.ended = now
                if run.pod.group and self._pending.groups is not None:
                    self._pending.groups.finished(run.pod.namespace, run.pod.group, uid, deleted=False)
                self._remove(run)

    def delete(self, uid: str) -> None:
        run = self._runs.get(uid)
        if run is None:
            self._remove_started(uid)
        elif run.scheduled is not None:
            self._remove(run)
        else:
            self._pending.delete(uid)
            run.waited += self._clock.now - run.queued
            self._remove(run)

    def evict_all(self, node_name: str) -> None:
        node = self._cluster.get(node_name)
        for uid in list(node.pods) if node is not None else ():
            self.evict(uid)

    def evict(self, uid: str) -> None:
        """The pod is deleted. Its controller makes another one, which waits like any new pod."""
        run = self._runs.get(uid)
        if run is None:  # nothing is known of its controller
            self._remove_started(uid)
            return
        node = run.node
        self._leave(run)
        assert run.scheduled is not None
        stay = Stay(node, run.scheduled, self._clock.now, run.devices, run.classes, run.units)
        run.evicted = (*run.evicted, stay)
        run.evictions += 1
        run.incarnation += 1
        run.scheduled, run.node, run.devices, run.classes, run.units = None, "", (), (), 0
        freed = self._free(run.claims)
        run.claims = freed
        self._sampler.recount_node(node)
        if not self._components.options.recreates_evicted:
            self._outcomes[uid] = self._runs.pop(uid).outcome()
            return
        for claim in freed:
            self._claims.set_claim(claim)
        run.queued = self._clock.now
        self._pending.add_or_update(uid, run.arrival.pod)

    def _remove(self, run: PodRun) -> None:
        """The pod is gone for good, and its claims with it."""
        del self._runs[run.pod.uid]
        self._leave(run)
        self._free(run.claims)
        self._sampler.recount_node(run.node)
        self._outcomes[run.pod.uid] = run.outcome()

    def _free(self, own: Sequence[ResourceClaim]) -> list[ResourceClaim]:
        """The pod's own claims are gone; returns them as they would be made anew."""
        for claim in own:
            self._claims.remove_claim(claim)
            self._pending.claim_event(claim, None)
        return [unallocated(claim) for claim in own]

    def _remove_started(self, uid: str) -> None:
        """A pod is gone that was there before the first event."""
        name = self._cluster.node_of(uid)
        removed = self._cluster.remove_pod(uid)
        if removed is None or name is None:
            return
        self.running -= 1
        for reference in claims.references(removed.document):
            claim = self._claims.claim(removed.namespace, reference.claim) if reference.claim else None
            if claim is not None and is_own(claim, uid):
                self._free([claim])
            elif claim is not None and reference.claim:
                self._shared.release(removed.namespace, reference.claim, uid)
        self._pending.assigned_pod_event(removed, None)
        self._sampler.recount_node(name)

    def _leave(self, run: PodRun) -> None:
        for name in run.shared:
            self._shared.release(run.pod.namespace, name, run.pod.uid)
        self._components.profiles.forget_pod(run.pod.uid)
        if self._components.observed is not None:
            self._components.observed.remove(run.pod.uid)
        removed = self._cluster.remove_pod(run.pod.uid)
        if removed is not None:
            self.running -= 1
            self._pending.assigned_pod_event(removed, None)
