"""The scheduler: informers in, decisions out, one pod after the other; bindings run beside it.

Deciding is synchronous, so nothing changes under a decision; what it takes is taken in memory at once (``assume``).
Writing is asynchronous and may fail, in which case it is given back and the pod goes to the end of its back-off.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import msgspec

from dray.allocation import POLICIES, Features
from dray.api import claims
from dray.api.release import Gates
from dray.api.resource.classic import bridge
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import (
    DEVICE_CLASSES,
    DEVICE_TAINT_RULES,
    NAMESPACES,
    NODES,
    PERSISTENT_VOLUME_CLAIMS,
    PERSISTENT_VOLUMES,
    POD_DISRUPTION_BUDGETS,
    PODS,
    REPLICASETS,
    RESOURCE_CLAIMS,
    RESOURCE_SLICES,
    SERVICES,
    STATEFULSETS,
    STORAGE_CLASSES,
    Resource,
)  # fmt: skip
from dray.scheduler import devices, hints, spreading
from dray.scheduler.binding import BindingError, Nominate, Recorder, Writer, stand_in
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.deciding import Bind, Failure, Generation, Unschedulable, decide
from dray.scheduler.ledger import Ledger
from dray.scheduler.metrics import Metrics
from dray.scheduler.nodes import Cluster
from dray.scheduler.placement import Placement
from dray.scheduler.pods import Pod, Views
from dray.scheduler.preemption import Budget
from dray.scheduler.queue import INITIAL_BACKOFF, MAX_BACKOFF, Change, Queue, Queued
from dray.scheduler.verdicts import Gated
from dray.scheduler.volumes import Storage

log = logging.getLogger(__name__)

Document = Mapping[str, Any]

_VOLUME_KINDS: Mapping[str, Resource] = {
    "PersistentVolumeClaim": PERSISTENT_VOLUME_CLAIMS,
    "PersistentVolume": PERSISTENT_VOLUMES,
    "StorageClass": STORAGE_CLASSES,
}
#: pods being bound at the same time
MAX_BINDING = 512
#: claims are made within moments: what is missing after this long is worth telling
_GATE_SECONDS = 2.0
#: decisions made in a row before others get the event loop
_BATCH = 8
#: the annotation of a FailedScheduling event with the allocator's reasons, counted
REASONS_ANNOTATION = "dray.dev/reasons"


class Scheduler:
    """All profiles of one process over one view of the cluster."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        profiles: Sequence[SchedulerProfile],
        gates: Gates,
        release: int = 37,
        modern: bool = True,
        classic: Collection[Resource] = (),
        every_write: bool = True,
        advice: bool = True,
        backoff: tuple[float, float] = (INITIAL_BACKOFF, MAX_BACKOFF),
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._informers = informers
        self._recorder = recorder
        self._profiles = {p.name: p for p in profiles}
        self._clock = clock
        self._monotonic = monotonic
        self.metrics = metrics or Metrics()
        self.cluster = Cluster()
        self.ledger = Ledger(freed=self._freed)
        self.queue = Queue(clock=monotonic, initial_backoff=backoff[0], max_backoff=backoff[1])
        self._rng = rng or random.Random()
        self._gates = gates
        self._advice = advice
        self._woken_by_any_change = "SchedulerQueueingHints" not in gates
        features = Features.of(gates, release=release)
        self._namespaces = informers.get(NAMESPACES)
        self._budgets = informers.get(POD_DISRUPTION_BUDGETS)
        self._owners = spreading.Owners(
            services=informers.get(SERVICES), replica_sets=informers.get(REPLICASETS), stateful_sets=informers.get(STATEFULSETS)
        )  # fmt: skip
        self._storage = self._make_storage(release)
        self._options = {
            p.name: devices.Options(
                features=features,
                extended_resources="DRAExtendedResource" in gates,
                node_resources="DRANodeAllocatableResources" in gates,
                filter_timeout=p.filter_timeout if "DRASchedulerFilterTimeout" in gates else 0.0,
                binding_timeout=p.binding_timeout,
                policy=POLICIES[p.device_policy],
                advice=advice,
                faithful=not advice,
            )
            for p in profiles
        }
        self._placements = {
            p.name: Placement(
                self.cluster,
                profile=p.placement,
                rng=self._rng,
                namespaces=self._namespace_labels,
                served_by_devices=self.ledger.classes if "DRAExtendedResource" in gates else (),
                device_score=devices.policy_score(self.ledger, self._options[p.name]),
                release=release,
                thorough=not advice,
            )
            for p in profiles
        }
        self._writer = Writer(
            client,
            self.ledger,
            recorder,
            binding_conditions=features.binding_conditions,
            nominate=_nominate(gates, every_write=every_write),
            observes_generation="PodObservedGenerationTracking" in gates,
            # 1.36 means to, but hands over an object that no reference can be made to.
            names_preemptor=release != 36,
            calls_back=release >= 36,
            dates_all=not advice,
            metrics=self.metrics,
            clock=clock,
        )
        self._assumed: dict[str, str] = {}  # pods on their way to a node, not yet seen there
        self._users: dict[tuple[str, str], set[str]] = {}  # claim → pods in the queue that name it
        self._views = Views()
        self._wakeup = asyncio.Event()
        self._room = asyncio.Semaphore(MAX_BINDING)
        self._tasks: asyncio.TaskGroup | None = None
        self._classic: Generation | None = None
        self.metrics.show(pending=lambda: self.queue.counts, rejected=self._rejected, cached=self._cached)
        dra = "DynamicResourceAllocation" in gates
        if dra and classic:
            self._watch_classic(classic, alone=not modern, release=release)
        self._watch(gates, modern=dra and modern)

    # -- what happens in the cluster --------------------------------------------------------------------------------

    def _watch_classic(self, served: Collection[Resource], *, alone: bool, release: int) -> None:
        """Claims of v1alpha2 and before; what deals with them is loaded only where a server has them."""
        from dray.scheduler import classic_watching

        self._classic = classic_watching.watch(
            self._client,
            self._informers,
            served=served,
            alone=alone,
            early=claims.has_fixed_names((1, release)),
            claim_changed=self._wake_users,
            wake=lambda: self._wake("Classic", "update"),
            wake_pod=lambda uid: self._wake_pods((uid,)),
        )

    def _watch(self, gates: Gates, *, modern: bool) -> None:
        get = self._informers.get
        get(NODES).add_handler(
            on_add=self._node_set, on_update=lambda o, n: self._node_set(n, o), on_delete=self._node_gone
        )
        if modern:
            get(RESOURCE_CLAIMS).add_handler(
                on_add=lambda n: self._claim_set(None, n),
                on_update=self._claim_set,
                on_delete=self._claim_gone,
            )
            get(RESOURCE_SLICES).add_handler(
                on_add=self._slice_set,
                on_update=lambda o, n: self._slice_set(n, o),
                on_delete=self._slice_gone,
            )
            get(DEVICE_CLASSES).add_handler(
                on_set=self._class_set, on_delete=lambda o: self.ledger.remove_class(o["metadata"]["name"])
            )
            if "DRADeviceTaintRules" in gates and "DRADeviceTaints" in gates:
                get(DEVICE_TAINT_RULES).add_handler(
                    on_set=self._rule_set, on_delete=lambda o: self._rule_gone(o["metadata"]["name"])
                )
        for kind, resource in _VOLUME_KINDS.items():
            get(resource).add_handler(on_set=partial(self._volumes_changed, kind))
        get(PODS).add_handler(on_set=self._pod_set, on_delete=self._pod_gone)

    def _wake(self, resource: str, action: str, old: Any = None, new: Any = None) -> None:
        """Something has changed that may help pods which were turned down."""
        if self.queue.has_sleepers and self.queue.wake(Change(resource, action, old, new), hints.helps):
            self._wakeup.set()

    def _volumes_changed(self, kind: str, document: Document) -> None:
        self._wake(kind, "update", None, document)

    def _freed(self, nodes: set[str] | None) -> None:
        """Devices came free: what was learnt about these nodes holds no longer."""
        if nodes is None:
            self.cluster.touch_all()
        else:
            for name in nodes:
                self.cluster.touch(name)

    def _node_set(self, document: Document, old: Document | None = None) -> None:
        if old is not None and _same_for_scheduling(old, document):
            return
        node = self.cluster.set_node(document)
        self._wake("Node", "update" if old is not None else "add", old, node)

    def _node_gone(self, document: Document) -> None:
        name = document["metadata"]["name"]
        self.cluster.remove_node(name)
        self.ledger.inventory.forget_node(name)
        self._wake("Node", "delete", document, None)

    def _slice_set(self, document: Document, old: Document | None = None) -> None:
        self.ledger.set_slice(document)
        self._wake("ResourceSlice", "update" if old is not None else "add", old, document)

    def _slice_gone(self, document: Document) -> None:
        self.ledger.remove_slice(document["metadata"]["name"])

    def _class_set(self, document: Document) -> None:
        self.ledger.set_class(document)
        self._wake("DeviceClass", "add", None, document)

    def _rule_set(self, rule: Document) -> None:
        self.ledger.set_rule(rule)
        self._wake("DeviceTaintRule", "add", None, rule)

    def _rule_gone(self, name: str) -> None:
        self.ledger.remove_rule(name)
        self._wake("DeviceTaintRule", "delete")

    def _claim_set(self, old: Document | None, new: Document) -> None:
        if bridge.is_classic(new):
            return  # a view of a claim that is dealt with elsewhere
        self.ledger.set_claim(new)
        self._writer.claims_changed()
        if old is None or not _is_of_the_same(old["metadata"], new["metadata"]):
            self._recheck(new)
        self._wake("ResourceClaim", "add" if old is None else "update", old, new)

    def _claim_gone(self, claim: Document) -> None:
        if bridge.is_classic(claim):
            return
        self.ledger.remove_claim(claim)
        self._writer.claims_changed()
        if claims.allocation(claim) is not None:
            self._wake("ResourceClaim", "delete", claim, None)

    def _recheck(self, claim: Document) -> None:
        """Pods that may have waited for this claim."""
        for uid in self._users_of(claim):
            entry = self.queue.at_gate(uid)
            if entry is not None and not self._gate(entry.pod):
                self.queue.update(entry.pod, gate="", may_help=True)
                self._wakeup.set()

    def _users_of(self, claim: Document) -> set[str]:
        """The pods that name a claim, and the one it was made for."""
        metadata = claim["metadata"]
        users = self._users.get((metadata["namespace"], metadata["name"]), ())
        owner = claims.controller_of(claim)
        return {*users, owner["uid"]} if owner is not None else set(users)

    def _wake_users(self, claim: Document) -> None:
        self._recheck(claim)
        self._wake_pods(self._users_of(claim))

    def _wake_pods(self, uids: Iterable[str]) -> None:
        if self.queue.wake_these(uids):
            self._wakeup.set()

    def _pod_set(self, document: Document) -> None:
        metadata, spec = document["metadata"], document["spec"]
        uid, node = metadata["uid"], spec.get("nodeName")
        if (document.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
            self._leave(uid, document)
        elif node:
            self._placed(uid, node, document)
        elif uid not in self._assumed and spec.get("schedulerName", "default-scheduler") in self._profiles:
            self._wanting(uid, document)

    def _placed(self, uid: str, node: str, document: Document) -> None:
        self._dequeue(uid)
        known = self._known(uid)
        pod = known.updated(document) if known is not None else Pod(document)
        if known is not None and self.cluster.confirm(pod, node):
            if pod.labels is not known.labels and pod.labels != known.labels:
                self._wake("AssignedPod", "update", known, pod)
            return
        self.cluster.place(pod, node)
        self._wake("AssignedPod", "add" if known is None else "update", known, pod)

    def _dequeue(self, uid: str) -> None:
        """Nothing is wanted for the pod any more, neither a node nor a promise of one."""
        # What is on its way to a node is in the queue no more.
        if self._assumed.pop(uid, None) is None and (entry := self.queue.discard(uid)) is not None:
            self._unlink(entry.pod)
        for placement in self._placements.values():
            if placement.nominated:
                placement.withdraw(uid)

    def _known(self, uid: str) -> Pod | None:
        where = self.cluster.node_of(uid)
        if where is None:
            return None
        node = self.cluster.get(where)
        return node.pods.get(uid) if node is not None else None

    def _leave(self, uid: str, document: Document) -> None:
        """The pod needs no room any more."""
        self._dequeue(uid)
        gone = self.cluster.unplace(uid)
        if gone is not None:
            self._wake("AssignedPod", "delete", gone, None)

    def _pod_gone(self, document: Document) -> None:
        self._leave(document["metadata"]["uid"], document)

    def _wanting(self, uid: str, document: Document) -> None:
        entry = self.queue.get(uid)
        if "deletionTimestamp" in document["metadata"]:
            if entry is not None:
                # Where any change of a pod wakes it, its deletion does.
                if self.queue.is_due(uid, woken=self._woken_by_any_change):
                    self._writer.skipped(entry.pod.updated(document))
                self.queue.discard(uid)
                self._unlink(entry.pod)
            return
        if entry is None:
            pod = self._views.of(document)
            self._link(pod)
            if pod.nominated_node:
                self._placements[self._profile(pod).name].nominate(pod, pod.nominated_node)
            self.queue.add(pod, gate=self._gate(pod))
        else:
            before = entry.pod
            pod = before.updated(document)
            self._link(pod)
            may_help = pod.document["spec"] != before.document["spec"] or _claims_of(pod) != _claims_of(before) or (
                pod.labels != before.labels
            )  # fmt: skip
            self.queue.update(pod, gate=self._gate(pod), may_help=may_help)
        self._wakeup.set()

    def _gate(self, pod: Pod) -> str:
        if pod.document["spec"].get("schedulingGates"):
            return "SchedulingGates"
        if not self._profile(pod).enabled(devices.PLUGIN):
            return ""
        if self._classic is not None and self._classic.concerns(pod):
            return self._classic.gate(pod, lambda others: devices.gate(pod, self.ledger, others=others))
        return devices.gate(pod, self.ledger)

    def _link(self, pod: Pod) -> None:
        for name in pod.named_claims:
            self._users.setdefault((pod.namespace, name), set()).add(pod.uid)

    def _unlink(self, pod: Pod) -> None:
        for name in pod.named_claims:
            key = (pod.namespace, name)
            users = self._users.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._users[key]

    def _profile(self, pod: Pod) -> SchedulerProfile:
        return self._profiles[pod.document["spec"].get("schedulerName", "default-scheduler")]

    # -- deciding ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled. Informers must be running and synced."""
        async with asyncio.TaskGroup() as self._tasks:
            self._tasks.create_task(self._keep_awake(), name="scheduler-sleepers")
            if self._advice:
                self._tasks.create_task(self._tell_waiting(), name="scheduler-gates")
            while True:
                await self._next()

    async def _next(self) -> None:
        self._wakeup.clear()
        for _ in range(_BATCH):
            entry = self.queue.pop()
            if entry is None:
                await self._sleep()
                return
            await self._room.acquire()
            try:
                bound = self._attempt(entry)
            except Exception:
                self._room.release()
                log.exception("attempt to schedule pod %s", entry.pod.key)
                self.queue.failed(entry, rejected_by=frozenset(), error=True)
                continue
            if not bound:
                self._room.release()
        await asyncio.sleep(0)

    async def _sleep(self) -> None:
        due = self.queue.next_due()
        pause = None if due is None else max(due - self._monotonic(), 0.0) + 0.001
        try:
            async with asyncio.timeout(pause):
                await self._wakeup.wait()
        except TimeoutError:
            pass

    async def _keep_awake(self) -> None:
        while True:
            await asyncio.sleep(30)
            self.queue.flush_sleepers()
            self._wakeup.set()

    async def _tell_waiting(self) -> None:
        """Pods whose claims are missing are never tried, and upstream never says why. An event does, once a reason."""
        while True:
            await asyncio.sleep(_GATE_SECONDS)
            now = self._monotonic()
            for entry in list(self.queue.gated()):
                gate = entry.gated_by
                if gate not in ("SchedulingGates", entry.told) and now - entry.since >= _GATE_SECONDS:
                    entry.told = gate
                    self._writer.waiting(entry.pod, gate)

    def _attempt(self, entry: Queued) -> bool:
        """Try one pod. True when a binding was started, which then owns its place among those under way."""
        pod, profile = entry.pod, self._profile(entry.pod)
        placement = self._placements[profile.name]
        began = self._monotonic()
        decision = decide(
            pod,
            profile=profile,
            placement=placement,
            ledger=self.ledger,
            options=self._options[profile.name],
            spread=self._spread(pod, profile),
            budgets=self._current_budgets,
            storage=self._storage if profile.enabled("VolumeBinding") else None,
            classic=self._classic,
            new_share_id=self._share_id,
            clock=self._clock,
            monotonic=self._monotonic,
        )
        if isinstance(decision, Gated):
            self.queue.hold(entry, decision.reason)
            return False
        self.metrics.attempt(profile.name, type(decision).__name__, self._monotonic() - began)
        match decision:
            case Bind():
                self._assume(entry, decision, placement)
                self._spawn(self._bind(entry, decision, profile))
                return True
            case Unschedulable():
                self._give_up(entry, decision, placement)
            case Failure(message):
                self.queue.failed(entry, rejected_by=frozenset(), error=True)
                self._spawn(self._writer.report(pod, reason="SchedulerError", message=message, nominated=""))
        return False

    def _assume(self, entry: Queued, decision: Bind, placement: Placement) -> None:
        pod = entry.pod
        self._unlink(pod)
        self._assumed[pod.uid] = decision.node
        if placement.nominated:
            placement.withdraw(pod.uid)
        plan = decision.plan
        self.cluster.place(pod if plan is None or not plan.held else pod.holding(plan.held), decision.node)
        if decision.carry is not None:
            decision.carry.assume()
        if plan is not None:
            for claim, allocation in zip(plan.claims, plan.results, strict=True):
                self.ledger.promise(claim if "uid" in claim["metadata"] else _planned(claim, pod), allocation)

    async def _bind(self, entry: Queued, decision: Bind, profile: SchedulerProfile) -> None:
        pod = entry.pod
        try:
            await self._writer.bind(pod, decision, binding_timeout=profile.binding_timeout)
        except BindingError as problem:
            await self._undo(entry, decision, problem)
            self._catch_up(entry)
            if problem.announced is not None and _version(problem.announced) > _version(entry.pod.document):
                entry.pod = entry.pod.updated(problem.announced)
            await self._writer.report(entry.pod, reason="SchedulerError", message=str(problem), nominated="")
            self._requeue(entry)
        else:
            self.metrics.scheduled(profile.name, entry, self._monotonic())
            if decision.carry is not None:
                await decision.carry.done()
        finally:
            self._room.release()

    async def _undo(self, entry: Queued, decision: Bind, problem: BindingError) -> None:
        pod = entry.pod
        self.cluster.unplace(pod.uid)
        if decision.carry is not None:
            decision.carry.undo()
            await decision.carry.release()
        if decision.plan is not None:
            for claim in decision.plan.claims:
                self.ledger.take_back(claim["metadata"].get("uid") or stand_in(pod))
        made_uid = problem.made["metadata"]["uid"] if problem.made is not None else ""
        await self._writer.unreserve(pod, [c for c in problem.reserved if c["metadata"]["uid"] != made_uid])
        if problem.made is not None:
            metadata = problem.made["metadata"]
            self.ledger.take_back(made_uid)
            made = self.ledger.claim(metadata["namespace"], metadata["name"])
            await self._writer.remove(pod, made if made is not None else problem.made)
        if decision.plan is not None and decision.plan.held:
            await self._writer.release_node(pod)
        self._wake("AssignedPod", "delete", pod, None)

    def _catch_up(self, entry: Queued) -> bool:
        """Look at the pod as it is by now: while it is being bound, news of it are passed over. False: it has gone."""
        current = self._informers.get(PODS).get(entry.pod.namespace, entry.pod.name)
        if current is None or current["metadata"]["uid"] != entry.pod.uid:
            return False
        entry.pod = entry.pod.updated(current)
        return True

    def _requeue(self, entry: Queued) -> None:
        """Back into the queue, unless the pod has gone or got a node meanwhile."""
        self._assumed.pop(entry.pod.uid, None)
        if not self._catch_up(entry) or entry.pod.document["spec"].get("nodeName") or entry.pod.terminating:
            return
        self._link(entry.pod)
        gate = self._gate(entry.pod)
        if gate:
            self.queue.add(entry.pod, gate=gate)
        else:
            self.queue.failed(entry, rejected_by=frozenset(), error=True)
        self._wakeup.set()

    def _give_up(self, entry: Queued, decision: Unschedulable, placement: Placement) -> None:
        pod = entry.pod
        if self._profile(pod).enabled("DefaultPreemption"):
            self.metrics.no_room(len(decision.preempt.victims) if decision.preempt is not None else 0)
        nominated: str | None = None
        if decision.preempt is not None:
            nominated = decision.preempt.node
            displaced = self._displace(pod, nominated)
            placement.nominate(pod, nominated, decision.promise)
            self._spawn(
                self._writer.preempt(
                    pod,
                    decision.preempt,
                    scheduler=self._profile(pod).name,
                    displaced=displaced,
                    for_devices=decision.promise is not None,
                )
            )
        elif pod.nominated_node and not decision.keeps_promise:
            nominated = ""
            placement.withdraw(pod.uid)
        # The pod sleeps before anything is written, so that it hears of what these writes change; it is tried again
        # only after them, or two outcomes would be told of one version of the pod, and the second event be lost.
        self.queue.failed(entry, rejected_by=decision.plugins)
        entry.settling = True
        if decision.waiting:
            entry.failures = 0  # nobody said no: no back-off when the answer comes
        self._spawn(self._settle(entry, decision, nominated))

    def _displace(self, pod: Pod, node: str) -> list[Pod]:
        """Those who were promised room on a node where a more important pod is about to make room for itself."""
        displaced: list[Pod] = []
        for placement in self._placements.values():
            guests = placement.nominated.get(node, {}).values()
            less = [guest for guest in guests if guest.priority < pod.priority]
            for guest in less:
                placement.withdraw(guest.uid)
            displaced += less
        return displaced

    async def _settle(self, entry: Queued, decision: Unschedulable, nominated: str | None) -> None:
        try:
            told = await self._tell(entry.pod, decision, nominated)
            if told is not None and _version(told) > _version(entry.pod.document):
                entry.pod = entry.pod.updated(told)
        finally:
            self.queue.settled(entry)
            self._wakeup.set()

    async def _tell(self, pod: Pod, decision: Unschedulable, nominated: str | None) -> Document | None:
        if decision.first is not None:
            await decision.first()
        if decision.deallocate is not None:
            await self._writer.deallocate(pod, decision.deallocate)
        if decision.remove is not None:
            await self._writer.remove(pod, decision.remove)
        return await self._writer.report(
            pod,
            reason=decision.reason,
            message=decision.message,
            nominated=nominated,
            annotations=_annotations(decision),
        )

    def _spawn(self, work: Any) -> None:
        assert self._tasks is not None
        self._tasks.create_task(self._guard(work))

    async def _guard(self, work: Any) -> None:
        """One pod's trouble must not end the scheduler."""
        try:
            await work
        except Exception:
            log.exception("a write of the scheduler failed")

    # -- numbers ----------------------------------------------------------------------------------------------------

    def _rejected(self) -> Iterator[tuple[str, str]]:
        return (
            (plugin, self._profile(e.pod).name) for e in self.queue.rejected() for plugin in e.rejected_by
        )

    def _cached(self) -> dict[str, int]:
        pods = sum(len(node.pods) for node in self.cluster)
        return {"nodes": len(self.cluster), "pods": pods, "assumed_pods": len(self._assumed)}

    # -- look-ups ---------------------------------------------------------------------------------------------------

    def _share_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _current_budgets(self) -> list[Budget]:
        return [Budget.of(b) for b in self._budgets.items()]

    def _namespace_labels(self) -> dict[str, Mapping[str, str]]:
        return {n["metadata"]["name"]: n["metadata"].get("labels") or {} for n in self._namespaces.items()}

    def _spread(self, pod: Pod, profile: SchedulerProfile) -> list[Any]:
        if not profile.enabled("PodTopologySpread"):
            return []
        chosen = profile.placement.default_spread
        return spreading.constraints(
            pod, self._owners, spreading.SYSTEM_DEFAULTS if chosen is None else chosen
        )

    def _make_storage(self, release: int) -> Storage:
        volume_claims = self._informers.get(PERSISTENT_VOLUME_CLAIMS)
        volumes = self._informers.get(PERSISTENT_VOLUMES)
        storage_classes = self._informers.get(STORAGE_CLASSES)
        return Storage(
            volume_claim=volume_claims.get,
            volume=lambda name: volumes.get("", name),
            storage_class=lambda name: storage_classes.get("", name),
            release=release,
        )


def _version(document: Document) -> int:
    return int(document["metadata"].get("resourceVersion") or 0)


def _is_of_the_same(old: Document, new: Document) -> bool:
    """Whether a claim is still the same one and belongs to the same pod: then it opens no gate that was closed."""
    return old["uid"] == new["uid"] and old.get("ownerReferences") == new.get("ownerReferences")


def _claims_of(pod: Pod) -> Any:
    return (pod.document.get("status") or {}).get("resourceClaimStatuses")


def _planned(claim: Document, pod: Pod) -> dict[str, Any]:
    """A claim that is still to be made, under a name of its own until it is."""
    metadata = {
        "namespace": pod.namespace,
        "name": f"<extended resources of {pod.name}>",
        "uid": stand_in(pod),
    }
    return {**claim, "metadata": metadata}


def _nominate(gates: Gates, *, every_write: bool) -> Nominate:
    if "NominatedNodeNameForExpectation" not in gates:
        return Nominate.NEVER
    return Nominate.ALWAYS if every_write else Nominate.WHEN_WAITING


def _same_for_scheduling(old: Document, new: Document) -> bool:
    """Heartbeats change a node's conditions all the time; only what decisions look at counts."""
    return (
        old["spec"] == new["spec"]
        and (old["metadata"].get("labels") or {}) == (new["metadata"].get("labels") or {})
        and (old.get("status") or {}).get("allocatable") == (new.get("status") or {}).get("allocatable")
    )


_encode = msgspec.json.Encoder().encode


def _annotations(decision: Unschedulable) -> dict[str, str] | None:
    """The allocator's reasons, node by node and with every count, for those who want more than a sentence."""
    if not decision.reasons:
        return None
    return {REASONS_ANNOTATION: _encode({n: r.as_document() for n, r in decision.reasons.items()}).decode()}
