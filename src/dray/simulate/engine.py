"""The engine: events in virtual time, decided by the scheduler's own code.

The engine stands where the scheduler's shell stands in a cluster. It keeps the same caches and the same queue, asks
``decide`` about one pod after the other, and does at once what the scheduler would write. There is no other model of a
node, a device or a claim.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, cast

from dray.api import claims
from dray.api.objects import controller_of
from dray.api.release import EffectiveVersion
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.cache.pods import PodInfo
from dray.placement.claims import Deallocate, DeleteLeftover
from dray.placement.config import SchedulerProfile
from dray.placement.decision import decide
from dray.placement.gangs import gangs_of
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.plugins import pod_topology_spread
from dray.placement.plugins.dynamic_resources import DeviceReservation
from dray.placement.plugins.extended_resources import in_memory_claim
from dray.placement.policies.fragmentation import Fragmentation
from dray.placement.policies.model import PolicyError
from dray.placement.policies.workload import KnownWorkload, ObservedWorkload
from dray.placement.profiles import Framework, build_profiles
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import QueuedPodInfo, SchedulingQueue
from dray.simulate.gangs import Gangs
from dray.simulate.model import (
    UNITS_PER_DEVICE,
    Arrival,
    ClassChanged,
    Cluster,
    DevicesTainted,
    Event,
    GroupCreated,
    NodeAdded,
    NodeDrained,
    NodeLost,
    Options,
    PodDeleted,
    PodOutcome,
    Result,
    Sample,
    SimulationError,
    SlicePublished,
    SliceWithdrawn,
    TaintRemoved,
)

if TYPE_CHECKING:
    from dray.api.types.core import Node, Pod, Taint
    from dray.api.types.resource import (
        AllocationResult,
        ResourceClaim,
        ResourceClaimConsumerReference,
        ResourceSlice,
    )
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.claims import PostFilterWrite
    from dray.placement.policies.model import NodeState, Request
    from dray.scheduler.queue.pending_groups import PendingGroup

Progress = Callable[[int], None]

_CORDON: Taint = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}
#: how often the scheduler looks for pods that have been unschedulable for long
_FLUSH_SECONDS = 30.0
_REPORT_EVERY = 500  # events


def simulate(
    cluster: Cluster, events: Iterable[Event], options: Options, *, progress: Progress | None = None
) -> Result:
    """Run a simulation to its end. ``progress`` is called now and then with the number of pods that have arrived."""
    return _Simulation(cluster, options).run(events, progress or (lambda pods: None))


@dataclass(slots=True)
class _Run:
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
        )


class _NoOwners:
    """No workload owns the pods, so none spreads them by default."""

    def get(self, namespace: str, name: str) -> None:
        return None

    def items(self) -> tuple[()]:
        return ()


class _Simulation:
    def __init__(self, start: Cluster, options: Options) -> None:
        self._options = options
        self._now = 0.0
        self._cluster = ClusterCache()
        self._claim_cache = ClaimCache(freed=self._cluster.touch_nodes)
        version = EffectiveVersion()
        profile = SchedulerProfile(
            device_policy=options.policy,
            device_preemption=options.device_preemption,
            typical=tuple(options.typical_shapes),
            seed=options.seed,
        )
        known = KnownWorkload(options.typical) if options.typical is not None else None
        share = itertools.count(1)
        self._groups = GroupCache()
        try:
            self._profiles = build_profiles(
                (profile,),
                self._cluster,
                self._claim_cache,
                gates=version.gates(),
                version=version,
                namespaces=dict,
                workload=known,
                node_order=options.node_order,
                new_share_id=lambda: f"share-{next(share)}",
                groups=self._groups,
                clock=lambda: self._now,
                monotonic=lambda: self._now,
            )
        except PolicyError as problem:
            raise SimulationError(str(problem)) from problem
        self._framework: Framework = self._profiles.by_name[profile.name]
        scorer = self._framework.placement.scorer
        assert scorer is not None
        self._scorer = scorer
        self._queue = SchedulingQueue(clock=lambda: self._now)
        self._pending = PendingPods(
            self._queue,
            self._profiles,
            requeued_by_any_change=False,
            skipped=lambda pod: None,
            groups=self._groups,
            cluster=self._cluster,
            clock=lambda: self._now,
        )
        nobody = _NoOwners()
        self._owners = pod_topology_spread.DefaultSelectors(
            services=nobody, replica_sets=nobody, stateful_sets=nobody
        )
        self._gangs = Gangs(
            self,
            self._claim_cache,
            self._pending,
            self._profiles,
            self._groups,
            spread=self._spread,
            clock=lambda: self._now,
        )
        #: counted here where no policy has to know the workload
        self._observed = ObservedWorkload() if known is None and scorer.known_workload is None else None
        workload = known or scorer.known_workload or self._observed
        assert workload is not None
        self._fragmentation = Fragmentation(workload)
        self._fragmentation_version = workload.version
        self._workload = workload
        self._serial = itertools.count()
        self._ends: list[tuple[float, int, str, int]] = []  # (when, serial, uid, incarnation)
        self._runs: dict[str, _Run] = {}
        #: every pod, in order of arrival; of pods that are gone only the outcome is kept
        self._outcomes: dict[str, _Run | PodOutcome] = {}
        self._samples: list[Sample] = []
        self._states: dict[str, NodeState] = {}  # as they are counted
        self._capacity = self._free = self._requested = 0
        self._fragmented = 0.0
        self._running = self._preemptions = self._dropped = 0
        self._slices_of: dict[str, list[str]] = {}
        #: the running pods that use a claim which is not of one pod, by its namespace and name
        self._users: dict[tuple[str, str], set[str]] = {}
        self._totals: dict[Request, int] = {}  # thousandths of devices
        self._next_flush = _FLUSH_SECONDS
        self._fill(start)

    # -- the cluster before the first event ---------------------------------------------------------------------------

    def _fill(self, start: Cluster) -> None:
        for device_class in start.classes:
            self._claim_cache.set_class(device_class)
        for rule in start.taint_rules:
            self._claim_cache.set_taint_rule(rule)
        for group in start.groups:
            self._groups.set_group(group)
        for one in start.slices:
            self._publish(one)
        for claim in start.claims:
            self._claim_cache.set_claim(_unversioned(claim))
        for node in start.nodes:
            self._cluster.set_node(node)
        for document in start.pods:
            pod = PodInfo(document)
            node_name = document["spec"].get("nodeName")
            if not node_name:
                raise SimulationError(
                    f"pod {pod.key} of the cluster has no node: give pods that are to be scheduled as workload"
                )
            self._cluster.add_pod(pod, node_name)
            for name in _shared_claims(document):
                self._users.setdefault((pod.namespace, name), set()).add(pod.uid)
            self._running += 1
        self._scorer.renew(self._cluster.era)
        for node_info in self._cluster:
            self._count(node_info)

    def _publish(self, one: ResourceSlice) -> None:
        self._claim_cache.set_slice(one)
        node = one["spec"].get("nodeName")
        if node:
            names = self._slices_of.setdefault(node, [])
            if one["metadata"]["name"] not in names:
                names.append(one["metadata"]["name"])

    # -- the loop -----------------------------------------------------------------------------------------------------

    def run(self, events: Iterable[Event], progress: Progress) -> Result:
        upcoming = _in_order(events)
        following = next(upcoming, None)
        handled = 0
        while True:
            now = self._next_time(following)
            if now is None or (self._options.until is not None and now > self._options.until):
                break
            self._now = now
            self._end_pods()
            while following is not None and following.time <= now:
                self._handle(following)
                following = next(upcoming, None)
                handled += 1
                if not handled % _REPORT_EVERY:
                    progress(len(self._outcomes))
            if now >= self._next_flush:
                self._queue.flush_unschedulable()
                self._next_flush = now + _FLUSH_SECONDS
            self._schedule()
            self._sample()
        progress(len(self._outcomes))
        return Result(
            policy=self._scorer.policy.name,
            seed=self._options.seed,
            nodes=len(self._cluster),
            devices=self._capacity // UNITS_PER_DEVICE,
            pods=tuple(
                one if isinstance(one, PodOutcome) else one.outcome() for one in self._outcomes.values()
            ),
            samples=tuple(self._samples),
        )

    def _next_time(self, following: Event | None) -> float | None:
        """When something happens next: an event, the end of a pod, the end of a backoff."""
        times = [following.time] if following is not None else []
        if self._ends:
            times.append(self._ends[0][0])
        if not times:
            return None  # whoever waits now waits for good
        due = self._queue.next_due()
        if due is not None and due > self._now:
            times.append(due)
        return min(times)

    def _handle(self, event: Event) -> None:
        match event:
            case Arrival():
                self._arrive(event)
            case PodDeleted(uid=uid):
                self._delete(uid)
            case GroupCreated(group=group):
                assert self._pending.groups is not None
                self._pending.groups.set_group(group)
            case NodeAdded(node=node, slices=slices):
                for one in slices:
                    self._publish(one)
                added = self._cluster.set_node(node)
                self._pending.node_event(added)
                self._count(added)
            case NodeDrained(node=name):
                self._cordon(self._known_node(name))
                self._evict_all(name)
            case NodeLost(node=name):
                self._known_node(name)
                self._evict_all(name)
                for slice_name in self._slices_of.pop(name, ()):
                    self._claim_cache.remove_slice(slice_name)
                self._cluster.remove_node(name)
                self._claim_cache.inventory.forget_node(name)
                self._discount(name)
                self._pending.node_event(None)
            case SlicePublished(slice=one):
                self._publish(one)
                self._pending.event("ResourceSlice")
                self._recount()
            case SliceWithdrawn(slice=slice_name):
                self._claim_cache.remove_slice(slice_name)
                self._pending.event("ResourceSlice")
                self._recount()
            case ClassChanged(device_class=device_class):
                self._claim_cache.set_class(device_class)
                self._pending.event("DeviceClass")
            case DevicesTainted(rule=rule):
                self._claim_cache.set_taint_rule(rule)
                self._pending.event("DeviceTaintRule")
            case TaintRemoved(rule=rule_name):
                self._claim_cache.remove_taint_rule(rule_name)
                self._pending.event("DeviceTaintRule")

    def _known_node(self, name: str) -> NodeInfo:
        node = self._cluster.get(name)
        if node is None:
            raise SimulationError(f"there is no node {name} at {self._now:g} s")
        return node

    def _cordon(self, node: NodeInfo) -> None:
        assert node.document is not None
        spec = node.document.get("spec") or {}
        taints = [*(t for t in spec.get("taints") or () if t.get("key") != _CORDON["key"]), _CORDON]
        cordoned: Node = {**node.document, "spec": {**spec, "unschedulable": True, "taints": taints}}
        self._cluster.set_node(cordoned)

    # -- pods ---------------------------------------------------------------------------------------------------------

    def _arrive(self, arrival: Arrival) -> None:
        if arrival.duration is not None and arrival.duration < 0:
            raise SimulationError(
                f"pod {arrival.pod['metadata']['name']} runs for {arrival.duration:g} s: durations are not negative"
            )
        document = arrival.pod
        uid = document["metadata"]["uid"]
        if uid in self._outcomes:
            raise SimulationError(f"two pods have the uid {uid}")
        own: list[ResourceClaim] = []
        for claim in map(_unversioned, arrival.claims):
            metadata = claim["metadata"]
            if _is_own(claim, uid):
                own.append(claim)
            elif self._claim_cache.claim(metadata["namespace"], metadata["name"]) is not None:
                continue  # another pod has brought it
            self._claim_cache.set_claim(claim)
        self._pending.add_or_update(uid, document)
        entry = self._queue.get(uid) or (self._pending.groups.get(uid) if self._pending.groups else None)
        assert entry is not None
        run = _Run(arrival, entry.pod, 0, self._now, claims=own, shared=_shared_claims(document))
        run.requested = self._request_of(run)
        self._requested += run.requested
        self._runs[uid] = self._outcomes[uid] = run

    def _request_of(self, run: _Run) -> int:
        """The thousandths of devices that a pod asks for, on devices on which it takes most."""
        request = self._scorer.request_of_claims(run.pod, run.arrival.claims)
        if self._observed is not None:
            self._observed.add(run.pod.uid, request)
        if not run.arrival.claims:
            return 0
        known = self._totals.get(request)
        if known is None:
            kinds = self._scorer.states.all_kinds
            known = self._totals[request] = max(map(request.total, kinds), default=0)
        return known

    def _schedule(self) -> None:
        queue = self._queue
        while (entry := queue.pop()) is not None:
            if entry.gang is None:
                self._attempt(entry)
            else:
                self._attempt_group(entry)

    def _spread(self, pod: PodInfo) -> Sequence[pod_topology_spread.SpreadConstraint]:
        if not pod.spread:
            return ()
        return pod_topology_spread.spread_constraints(
            pod, self._owners, pod_topology_spread.SYSTEM_DEFAULT_CONSTRAINTS
        )

    def _attempt_group(self, entry: QueuedPodInfo) -> None:
        groups = self._pending.groups
        assert groups is not None
        before = self._preemptions
        tree = groups.tree(cast("PendingGroup", entry.gang))
        for gang in gangs_of(tree) if tree is not None else ():
            for pod in gang.members:
                self._runs[pod.uid].attempts += 1
        self._gangs.attempt(entry)
        if self._preemptions > before:
            entry.failures = 0  # as for one pod: what was in the way is gone
            self._queue.requeue_these([entry.pod.uid])

    def bind_member(self, pod: PodInfo, bind: Bind) -> None:
        """A member of a group that is placed. All of them are assumed already."""
        reservation = bind.reservation
        assert reservation is None or isinstance(reservation, DeviceReservation)
        for claim in reservation.plan.claims if reservation is not None else ():
            if "uid" not in claim["metadata"]:
                self._claim_cache.forget(in_memory_claim(claim, pod)["metadata"]["uid"])
        run = self._runs[pod.uid]
        self._bind(run, pod, bind.node, reservation)
        request = self._scorer.request_of_claims(pod, run.arrival.claims)
        run.units = request.total(self._states[bind.node].kinds)

    def preempt(self, victims: Iterable[PodInfo]) -> None:
        for victim in victims:
            self._preemptions += 1
            self._evict(victim.uid)

    def _attempt(self, entry: QueuedPodInfo) -> None:
        pod = entry.pod
        run = self._runs[pod.uid]
        run.attempts += 1
        attempt = partial(
            decide, pod, self._framework, spread=self._spread(pod), explains=self._options.explains
        )
        decision = attempt()
        if len(self._groups) and isinstance(decision, Bind) and not self._gangs.backfill.nobody_waits():
            decision = self._gangs.backfill.admit(entry, decision, self._framework, attempt)
        match decision:
            case Bind(node, reservation):
                assert reservation is None or isinstance(reservation, DeviceReservation)
                self._bind(run, pod, node, reservation)
            case Unschedulable():
                self._unschedulable(entry, run, decision)
            case Gated(reason):
                self._queue.gate_again(entry, reason)
            case Failure(message):
                raise SimulationError(f"pod {pod.key}: {message}")

    def _bind(self, run: _Run, pod: PodInfo, node: str, reservation: DeviceReservation | None) -> None:
        self._pending.assume(pod, node)
        nominator = self._framework.placement.nominator
        if nominator.nominated:
            nominator.delete_nominated_pod(pod.uid)
        if reservation is not None:
            if reservation.plan.node_allocatable:
                pod = pod.with_node_allocatable(reservation.plan.node_allocatable)
            self._reserve(run, pod, reservation)
        for name in run.shared:
            self._users.setdefault((pod.namespace, name), set()).add(pod.uid)
        self._cluster.add_pod(pod, node)
        self._pending.assumed.pop(pod.uid, None)
        run.scheduled, run.node = self._now, node
        run.waited += self._now - run.queued
        info = self._cluster.get(node)
        assert info is not None
        before = self._free
        self._count(info)
        run.units = before - self._free
        self._running += 1
        if run.arrival.duration is not None:
            heapq.heappush(
                self._ends,
                (self._now + run.arrival.duration, next(self._serial), pod.uid, run.incarnation),
            )

    def _reserve(self, run: _Run, pod: PodInfo, reservation: DeviceReservation) -> None:
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
            self._claim_cache.set_claim(written)
            if claim["metadata"]["name"] not in run.shared:
                allocated.append(written)
            devices += _device_names(result)
            classes += _classes(claim, result)
        others = [one for one in run.claims if not any(_same(one, new) for new in allocated)]
        run.claims = [*others, *allocated]
        run.devices, run.classes = tuple(devices), tuple(classes)

    def _unschedulable(self, entry: QueuedPodInfo, run: _Run, decision: Unschedulable) -> None:
        pod = entry.pod
        for write in decision.writes:
            self.post_filter(write)
        if decision.candidate is not None:
            self._preempt(entry, decision)
            return
        if pod.nominated_node and not decision.keeps_nomination:
            self._framework.placement.nominator.delete_nominated_pod(pod.uid)
        if decision.writes:
            self._queue.add_unschedulable(entry, rejected_by=frozenset())
        elif self._options.retries:
            self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        else:
            del self._runs[pod.uid]
            self._dropped += 1
            run.reason = decision.message
            run.waited += self._now - run.queued
            for claim in run.claims:
                self._claim_cache.remove_claim(claim)
            self._outcomes[pod.uid] = run.outcome()

    def post_filter(self, write: PostFilterWrite) -> None:
        match write:
            case Deallocate(claim):
                self._claim_cache.set_claim(_unallocated(claim))
            case DeleteLeftover(claim):
                self._claim_cache.remove_claim(claim)

    def _preempt(self, entry: QueuedPodInfo, decision: Unschedulable) -> None:
        """The victims are gone at once, and the pod is tried again on the node that they leave."""
        candidate, pod = decision.candidate, entry.pod
        assert candidate is not None
        nominator = self._framework.placement.nominator
        self._profiles.pop_lower_nominated(pod, candidate.node)
        nominator.nominate(pod, candidate.node, decision.device_nomination)
        self._queue.add_unschedulable(entry, rejected_by=decision.plugins)
        self.preempt(candidate.victims)
        entry.failures = 0  # the nominated pod does not have to wait for its backoff
        self._queue.requeue_these([pod.uid])

    # -- ends ---------------------------------------------------------------------------------------------------------

    def _end_pods(self) -> None:
        while self._ends and self._ends[0][0] <= self._now:
            _, _, uid, incarnation = heapq.heappop(self._ends)
            run = self._runs.get(uid)
            if run is not None and run.incarnation == incarnation:
                run.ended = self._now
                if run.pod.group and self._pending.groups is not None:
                    self._pending.groups.finished(run.pod.namespace, run.pod.group, uid, deleted=False)
                self._remove(run)

    def _remove(self, run: _Run) -> None:
        """The pod is gone for good, and its claims with it."""
        del self._runs[run.pod.uid]
        self._leave(run)
        for claim in run.claims:
            self._claim_cache.remove_claim(claim)
            self._pending.claim_event(claim, None)
        self._recount_node(run.node)
        self._outcomes[run.pod.uid] = run.outcome()

    def _delete(self, uid: str) -> None:
        run = self._runs.get(uid)
        if run is None:
            self._remove_first(uid)
        elif run.scheduled is not None:
            self._remove(run)
        else:
            self._pending.delete(uid)
            run.waited += self._now - run.queued
            self._remove(run)

    def _remove_first(self, uid: str) -> None:
        """A pod is gone that was there before the first event."""
        name = self._cluster.node_of(uid)
        removed = self._cluster.remove_pod(uid)
        if removed is None or name is None:
            return
        self._running -= 1
        for reference in claims.references(removed.document):
            claim = self._claim_cache.claim(removed.namespace, reference.claim) if reference.claim else None
            if claim is not None and _is_own(claim, uid):
                self._claim_cache.remove_claim(claim)
                self._pending.claim_event(claim, None)
            elif claim is not None and reference.claim:
                self._release_shared(removed.namespace, reference.claim, uid)
        self._pending.assigned_pod_event(removed, None)
        self._recount_node(name)

    def _release_shared(self, namespace: str, name: str, uid: str) -> None:
        """A claim that nobody uses any more gives its devices back, as its controller would have it."""
        users = self._users.get((namespace, name), set())
        users.discard(uid)
        claim = self._claim_cache.claim(namespace, name)
        if claim is not None and not users and claims.allocation(claim) is not None:
            freed = _unallocated(claim)
            self._claim_cache.set_claim(freed)
            self._pending.claim_event(claim, freed)

    def _leave(self, run: _Run) -> None:
        for name in run.shared:
            self._release_shared(run.pod.namespace, name, run.pod.uid)
        self._profiles.forget_pod(run.pod.uid)
        if self._observed is not None:
            self._observed.remove(run.pod.uid)
        removed = self._cluster.remove_pod(run.pod.uid)
        if removed is not None:
            self._running -= 1
            self._pending.assigned_pod_event(removed, None)

    def _evict_all(self, name: str) -> None:
        node = self._cluster.get(name)
        for uid in list(node.pods) if node is not None else ():
            self._evict(uid)

    def _evict(self, uid: str) -> None:
        """The pod is deleted. Its controller makes another one, which waits like any new pod."""
        run = self._runs.get(uid)
        if run is None:  # nothing is known of its controller
            self._remove_first(uid)
            return
        node = run.node
        self._leave(run)
        run.evictions += 1
        run.incarnation += 1
        run.scheduled, run.node, run.devices, run.classes, run.units = None, "", (), (), 0
        freed = []
        for claim in run.claims:
            self._claim_cache.remove_claim(claim)
            self._pending.claim_event(claim, None)
            freed.append(_unallocated(claim))
        run.claims = freed
        self._recount_node(node)
        if not self._options.recreates_evicted:
            self._outcomes[uid] = self._runs.pop(uid).outcome()
            return
        for claim in freed:
            self._claim_cache.set_claim(claim)
        run.queued = self._now
        self._pending.add_or_update(uid, run.arrival.pod)

    # -- counting -----------------------------------------------------------------------------------------------------

    def _count(self, node: NodeInfo) -> None:
        """Bring the sums up to date with a node that has changed."""
        state = self._scorer.states.of(node)
        old = self._states.get(node.name)
        if old is state:
            return
        self._states[node.name] = state
        self._capacity += UNITS_PER_DEVICE * len(state.free)
        self._free += state.total_free
        if old is not None:
            self._capacity -= UNITS_PER_DEVICE * len(old.free)
            self._free -= old.total_free
        if self._fragmentation_version == self._workload.version:
            self._fragmented += self._fragmentation.of(state)
            if old is not None:
                self._fragmented -= self._fragmentation.of(old)

    def _discount(self, name: str) -> None:
        old = self._states.pop(name, None)
        if old is not None:
            self._capacity -= UNITS_PER_DEVICE * len(old.free)
            self._free -= old.total_free
            self._fragmented -= self._fragmentation.of(old)

    def _recount_node(self, name: str) -> None:
        node = self._cluster.get(name)
        if node is not None:
            self._count(node)

    def _recount(self) -> None:
        for node in self._cluster:
            self._count(node)

    def _sample(self) -> None:
        last = self._samples[-1].time if self._samples else None
        if last is not None and self._options.sample_every and self._now - last < self._options.sample_every:
            return
        if self._fragmentation_version != self._workload.version:
            self._fragmentation_version = self._workload.version
            self._fragmented = sum(map(self._fragmentation.of, self._states.values()))
        sample = Sample(
            time=self._now,
            arrived=len(self._outcomes),
            requested=self._requested,
            capacity=self._capacity,
            allocated=self._capacity - self._free,
            fragmented=round(self._fragmented, 3),
            running=self._running,
            pending=len(self._queue),
            preemptions=self._preemptions,
        )
        if last == self._now:
            self._samples[-1] = sample
        else:
            self._samples.append(sample)


def _in_order(events: Iterable[Event]) -> Iterator[Event]:
    last = 0.0
    for event in events:
        if not event.time >= 0:
            raise SimulationError(f"an event has the time {event.time:g}: times are not negative")
        if event.time < last:
            raise SimulationError(f"events are not in order of time: {event.time:g} comes after {last:g}")
        last = event.time
        yield event


def _device_names(result: AllocationResult) -> list[str]:
    return [
        f"{one['driver']}/{one['pool']}/{one['device']}"
        for one in (result.get("devices") or {}).get("results") or ()
    ]


def _classes(claim: ResourceClaim, result: AllocationResult) -> Iterator[str]:
    """The class of each device of an allocation."""
    named: dict[str, str] = {}
    for request in claim["spec"]["devices"].get("requests") or ():
        if "exactly" in request:
            named[request["name"]] = request["exactly"]["deviceClassName"]
        for alternative in request.get("firstAvailable") or ():
            named[f"{request['name']}/{alternative['name']}"] = alternative["deviceClassName"]
    for one in (result.get("devices") or {}).get("results") or ():
        yield named.get(one["request"], "")


def _same(one: ResourceClaim, other: ResourceClaim) -> bool:
    return one["metadata"].get("uid") == other["metadata"].get("uid")


def _is_own(claim: ResourceClaim, uid: str) -> bool:
    """Whether the claim was made for this pod."""
    owner = controller_of(claim)
    return owner is not None and owner["uid"] == uid


def _shared_claims(pod: Pod) -> tuple[str, ...]:
    """The claims that a pod names, not those that are made for it."""
    entries = pod["spec"].get("resourceClaims")
    if not entries:
        return ()
    return tuple(name for entry in entries if (name := claims.claim_and_template_names(entry)[0]) is not None)


def _unversioned(claim: ResourceClaim) -> ResourceClaim:
    """The caches pass over what is not newer than what they have, and nothing that is written here has a version."""
    metadata = claim["metadata"]
    if "resourceVersion" not in metadata:
        return claim
    return {**claim, "metadata": {k: v for k, v in metadata.items() if k != "resourceVersion"}}  # type: ignore[typeddict-item]


def _unallocated(claim: ResourceClaim) -> ResourceClaim:
    return {**claim, "status": {}}
