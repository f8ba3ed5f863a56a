"""The scheduler: its parts wired together, and the loop that tries one pod after the other.

An attempt is synchronous, so nothing changes while it runs, and what it decides is assumed in memory at once. The
binding cycles run beside the loop, and so do evaluations of selectors that take long: the attempt is then made anew.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
import uuid
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from dray.allocation.devices import EvaluationPending
from dray.api.release import EffectiveVersion, Gates
from dray.client.client import Client
from dray.client.informers import Informers
from dray.client.resources import DEVICE_TAINT_RULES, POD_GROUPS, PODS, Resource
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.groups import GroupCache
from dray.placement.cache.nodes import ClusterCache
from dray.placement.config import SchedulerProfile
from dray.placement.decision import decide
from dray.placement.outcome import Bind, Failure, Gated, Unschedulable
from dray.placement.profiles import Framework, build_profiles
from dray.placement.quirks import PlacementQuirks
from dray.scheduler.binding.binding_cycle import BindingCycles
from dray.scheduler.event_handlers import EventHandlers
from dray.scheduler.events.recorders import Recorder
from dray.scheduler.failure_handler import FailureHandler
from dray.scheduler.group_cycle import GroupCycles
from dray.scheduler.listers import Listers
from dray.scheduler.metrics import Metrics
from dray.scheduler.queue.pending_groups import PendingGroup
from dray.scheduler.queue.pending_pods import PendingPods
from dray.scheduler.queue.scheduling_queue import INITIAL_BACKOFF, MAX_BACKOFF, QueuedPodInfo, SchedulingQueue
from dray.scheduler.quirks import SchedulerQuirks
from dray.scheduler.workers import Work, Workers
from dray.scheduler.writers import build_writers

if TYPE_CHECKING:
    from dray.api.types.resource import DeviceTaintRule
    from dray.scheduler.classic.generation import ClassicGeneration

log = logging.getLogger(__name__)

#: the claim controller creates claims within moments: a claim that is missing for this long is reported
_GATE_SECONDS = 2.0
#: attempts in a row before other tasks get the event loop
_BATCH = 8
#: how long selectors may be evaluated in one go; what takes longer is evaluated in a thread, and the pod waits for it
_EVALUATION_SECONDS = 0.01
_EVALUATING = "the selectors of its claims take long to evaluate"


class Scheduler:
    """All profiles of one process, over the same caches."""

    def __init__(
        self,
        client: Client,
        informers: Informers,
        recorder: Recorder,
        *,
        profiles: Sequence[SchedulerProfile],
        gates: Gates,
        version: EffectiveVersion,
        classic: Collection[Resource[Any]] = (),
        serves_devices: bool = True,
        groups: Collection[Resource[Any]] = (),
        taint_rules: Resource[DeviceTaintRule] | None = DEVICE_TAINT_RULES,
        nominates_before_every_bind: bool = True,
        backoff: tuple[float, float] = (INITIAL_BACKOFF, MAX_BACKOFF),
        metrics: Metrics | None = None,
        rng: random.Random | None = None,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """``groups``: the kinds of groups of pods that the server has."""
        self._monotonic = monotonic
        self._rng = rng or random.Random()
        self._quirks = quirks = SchedulerQuirks.of(version, gates)
        self._workers: Workers | None = None
        self._evaluator = ThreadPoolExecutor(max_workers=1, thread_name_prefix="selectors")
        self.metrics = metrics or Metrics()
        self.cluster = ClusterCache()
        self.claim_cache = ClaimCache(freed=self.cluster.touch_nodes)
        self.queue = SchedulingQueue(clock=monotonic, initial_backoff=backoff[0], max_backoff=backoff[1])
        placement_quirks = PlacementQuirks.of(version, gates)
        self.groups = GroupCache()
        schedules_groups = placement_quirks.schedules_groups and POD_GROUPS in groups
        self._listers = Listers(informers, placement_quirks)
        generation = _classic(client, classic, version) if quirks.serves_claims and classic else None
        self._profiles = build_profiles(
            profiles, self.cluster, self.claim_cache, gates=gates, version=version,
            classic=generation.plugin if generation is not None else None, namespaces=self._listers.namespace_labels,
            new_share_id=self._share_id, groups=self.groups, clock=clock, monotonic=monotonic,
        )  # fmt: skip
        self._writers = build_writers(
            client, self.claim_cache, recorder, quirks, nominates_before_every_bind=nominates_before_every_bind,
            metrics=self.metrics, classic=generation, clock=clock,
        )  # fmt: skip
        self._pending = PendingPods(
            self.queue,
            self._profiles,
            requeued_by_any_change=quirks.requeues_on_any_pod_change,
            skipped=self._writers.reporter.skipped,
            groups=self.groups if schedules_groups else None,
            cluster=self.cluster,
            clock=monotonic,
        )
        self._binding_cycles = BindingCycles(
            self.cluster, self._pending, self._writers, pods=informers.get(PODS), spawn=self._spawn,
            metrics=self.metrics, monotonic=monotonic,
        )  # fmt: skip
        self._failure_handler = FailureHandler(
            self._pending, self._profiles, self._writers, spawn=self._spawn, metrics=self.metrics
        )
        self._group_cycles = GroupCycles(
            client, self.claim_cache, self._pending, self._profiles, self._listers, self._writers,
            self._binding_cycles, spawn=self._spawn, clock=clock, monotonic=monotonic,
        )  # fmt: skip
        stand_in_line = schedules_groups and placement_quirks.gangs_stand_in_line
        self._backfill = self._group_cycles.backfill if stand_in_line else None
        self.metrics.register_gauges(
            pending=lambda: self.queue.counts, rejected=self._rejected, cached=self._cached
        )
        if generation is not None:
            generation.add_event_handlers(informers, self._pending)
        EventHandlers(
            self.cluster,
            self.claim_cache,
            self._pending,
            self._profiles,
            claims_changed=self._writers.waiter.claims_changed,
        ).start(
            informers,
            devices=quirks.serves_claims and quirks.serves_devices and serves_devices,
            taint_rules=taint_rules if quirks.watches_taint_rules else None,
            groups=groups if schedules_groups else (),
        )

    # -- the loop ---------------------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Schedule until cancelled. Informers must be running and synced."""
        async with asyncio.TaskGroup() as tasks:
            self._workers = Workers(tasks)
            self._group_cycles.begin()
            tasks.create_task(self._flush_unschedulable(), name="scheduler-flush-unschedulable")
            if self._quirks.reports_gated_pods:
                tasks.create_task(self._report_gated(), name="scheduler-gates")
            try:
                while True:
                    await self._next()
            finally:
                self._evaluator.shutdown(wait=False, cancel_futures=True)

    async def _next(self) -> None:
        self._pending.wakeup.clear()
        for _ in range(_BATCH):
            entry = self.queue.pop()
            if entry is None:
                await self._sleep()
                return
            if entry.gang is not None:
                await self._attempt_group(entry)
                continue
            await self._binding_cycles.slots.acquire()
            try:
                bound = self._attempt(entry)
            except Exception:
                self._binding_cycles.slots.release()
                log.exception("attempt to schedule pod %s", entry.pod.key)
                self.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
                continue
            if not bound:
                self._binding_cycles.slots.release()
        await asyncio.sleep(0)

    async def _sleep(self) -> None:
        due = self.queue.next_due()
        pause = None if due is None else max(due - self._monotonic(), 0.0) + 0.001
        try:
            async with asyncio.timeout(pause):
                await self._pending.wakeup.wait()
        except TimeoutError:
            pass

    async def _flush_unschedulable(self) -> None:
        while True:
            await asyncio.sleep(30)
            self.queue.flush_unschedulable()
            self._pending.wakeup.set()

    async def _report_gated(self) -> None:
        """Pods whose claims are missing are never tried, and upstream never says why. Here each reason is an event."""
        while True:
            await asyncio.sleep(_GATE_SECONDS)
            now = self._monotonic()
            for entry in list(self.queue.gated()):
                gate = entry.gated_by
                if entry.gang is not None:
                    continue
                if (
                    gate not in ("SchedulingGates", entry.reported_gate)
                    and now - entry.since >= _GATE_SECONDS
                ):
                    entry.reported_gate = gate
                    self._writers.reporter.gated(entry.pod, gate)

    async def _attempt_group(self, entry: QueuedPodInfo) -> None:
        assert isinstance(entry.gang, PendingGroup)
        evaluations = self.claim_cache.inventory.evaluations
        evaluations.seconds_left = _EVALUATION_SECONDS
        try:
            await self._group_cycles.attempt(entry, entry.gang)
        except EvaluationPending as pending:
            self.queue.gate_again(entry, _EVALUATING)
            self._spawn(self._settle(entry, pending))
        except Exception:
            log.exception("attempt to schedule pod group %s", entry.pod.key)
            self.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        finally:
            evaluations.seconds_left = None

    def _attempt(self, entry: QueuedPodInfo) -> bool:
        """Try one pod. True when a binding cycle was started, which then releases its slot."""
        pod, framework = entry.pod, self._profiles.of(entry.pod)
        profile = framework.profile
        began = self._monotonic()
        evaluations = self.claim_cache.inventory.evaluations
        evaluations.seconds_left = _EVALUATION_SECONDS
        attempt = partial(
            decide,
            pod,
            framework,
            spread=self._listers.spread(pod, profile),
            budgets=self._listers.budgets,
            storage=self._listers.storage if profile.enabled("VolumeBinding") else None,
        )
        try:
            decision = attempt()
            if (
                self._backfill is not None
                and isinstance(decision, Bind)
                and not self._backfill.nobody_waits()
            ):
                decision = self._backfill.admit(entry, decision, framework, attempt)
        except EvaluationPending as pending:
            self._evaluate(entry, pending, framework)
            return False
        finally:
            evaluations.seconds_left = None
        entry.evaluation_seconds = 0.0
        if isinstance(decision, Gated):
            self.queue.gate_again(entry, decision.reason)
            return False
        self.metrics.attempt(profile.name, type(decision).__name__, self._monotonic() - began)
        match decision:
            case Bind():
                self._binding_cycles.start(entry, decision, framework)
                return True
            case Unschedulable():
                self._failure_handler.unschedulable(entry, decision, framework)
            case Failure():
                self._failure_handler.fail(entry, decision)
        return False

    def _evaluate(self, entry: QueuedPodInfo, pending: EvaluationPending, framework: Framework) -> None:
        """The attempt is made anew when the verdict that it lacks is there. Verdicts are kept, so it gets further."""
        limit = framework.profile.filter_timeout
        if framework.quirks.limits_filter_time and limit and entry.evaluation_seconds > limit:
            entry.evaluation_seconds = 0.0
            message = f"{_EVALUATING}: more than {limit:g} s so far"
            self._failure_handler.fail(entry, Failure(f'running "DynamicResources" filter plugin: {message}'))
            return
        self.queue.gate_again(entry, _EVALUATING)
        self._spawn(self._settle(entry, pending))

    async def _settle(self, entry: QueuedPodInfo, pending: EvaluationPending) -> None:
        loop = asyncio.get_running_loop()
        entry.evaluation_seconds += await loop.run_in_executor(self._evaluator, pending.settle)
        if self.queue.at_gate(entry.pod.uid) is entry:
            self.queue.update(entry.pod, gate="", may_help=True)
            self._pending.wakeup.set()

    def _share_id(self) -> str:
        return str(uuid.UUID(int=self._rng.getrandbits(128), version=4))

    def _spawn(self, work: Work) -> None:
        assert self._workers is not None
        self._workers.spawn(work)

    # -- metrics ----------------------------------------------------------------------------------------------------

    def _rejected(self) -> Iterator[tuple[str, str]]:
        return (
            (plugin, self._profiles.of(e.pod).profile.name)
            for e in self.queue.rejected()
            for plugin in e.rejected_by
        )

    def _cached(self) -> dict[str, int]:
        pods = sum(len(node.pods) for node in self.cluster)
        return {"nodes": len(self.cluster), "pods": pods, "assumed_pods": len(self._pending.assumed)}


def _classic(
    client: Client, served: Collection[Resource[Any]], version: EffectiveVersion
) -> ClassicGeneration:
    """The modules for classic claims are loaded only where a server has them."""
    from dray.scheduler.classic.generation import ClassicGeneration

    return ClassicGeneration(client, served, version)
