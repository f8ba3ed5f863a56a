"""Attempts for groups of pods: a group gets its nodes and devices as a whole, or its members are told why not.

Where nothing is emulated, groups wait in line (``backfill``). Nothing is held for a group that does not fit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

from dray.api import claims
from dray.api.errors import NotFound, StatusError
from dray.client.client import PatchType
from dray.client.resources import POD_GROUPS
from dray.placement.cache.groups import INITIALLY_SCHEDULED
from dray.placement.claims import Deallocate, DeleteLeftover
from dray.placement.decision import decide
from dray.placement.gangs import Composite, Gang, GroupScheduler, Interrupted, gangs_of, pod_message
from dray.placement.group_preemption import GroupPreemption, NoVictims, Victims
from dray.placement.outcome import Bind, Unschedulable
from dray.placement.plugins.dynamic_resources import PLUGIN
from dray.placement.preemption import Candidate
from dray.scheduler.backfill import Backfill, in_line_message
from dray.scheduler.events.pod_status import timestamp
from dray.scheduler.queue.queueing_hints import IN_LINE

if TYPE_CHECKING:
    from dray.api.types.meta import Condition
    from dray.api.types.resource import ResourceClaim
    from dray.api.types.scheduling_v1beta1 import PodGroup
    from dray.client.client import Client
    from dray.placement.cache.claims import ClaimCache
    from dray.placement.cache.groups import PodGroupInfo
    from dray.placement.cache.nodes import NodeInfo
    from dray.placement.cache.pods import PodInfo
    from dray.placement.claims import PostFilterWrite
    from dray.placement.gangs import GroupResult
    from dray.placement.outcome import Outcome
    from dray.placement.profiles import Framework, Profiles
    from dray.scheduler.binding.binding_cycle import BindingCycles, Spawn
    from dray.scheduler.listers import Listers
    from dray.scheduler.queue.pending_groups import PendingGroup, PendingGroups
    from dray.scheduler.queue.pending_pods import PendingPods
    from dray.scheduler.queue.scheduling_queue import QueuedPodInfo
    from dray.scheduler.writers import Writers

log = logging.getLogger(__name__)

_CLAIMS_DEALLOCATED: Final = "deallocation and deletion of ResourceClaims completed"


@dataclass(frozen=True, slots=True)
class _Status:
    """What a group's condition is to say."""

    status: str
    reason: str
    message: str


_SCHEDULED: Final = _Status("True", "Scheduled", "")


class GroupCycles:
    """Schedules groups."""

    def __init__(
        self,
        client: Client,
        claim_cache: ClaimCache,
        pending: PendingPods,
        profiles: Profiles,
        listers: Listers,
        writers: Writers,
        bindings: BindingCycles,
        *,
        spawn: Spawn,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._claim_cache = claim_cache
        self._pending = pending
        self._profiles = profiles
        self._listers = listers
        self._writers = writers
        self._bindings = bindings
        self._spawn = spawn
        self._clock = clock
        self._monotonic = monotonic
        self.backfill = Backfill(
            claim_cache, pending, listers, scheduler_of=self._scheduler, monotonic=monotonic
        )

    @property
    def _groups(self) -> PendingGroups:
        assert self._pending.groups is not None
        return self._pending.groups

    def begin(self) -> None:
        """The scheduler starts: what an earlier one has begun comes first, and is said where it is done."""
        for group in self._pending.groups.begin() if self._pending.groups is not None else ():
            self._condition(group, _SCHEDULED)

    async def attempt(self, entry: QueuedPodInfo, root: PendingGroup) -> None:
        """Try a group. Raises EvaluationPending if selectors have to be evaluated first."""
        tree = self._groups.tree(root)
        gangs = list(gangs_of(tree)) if tree is not None else []
        members = [pod for gang in gangs for pod in gang.members]
        if tree is None or not members:
            self._groups.settled(root, tried=())
            return
        framework = self._profiles.of(entry.pod)
        for pod in members:
            if (member := self._groups.get(pod.uid)) is not None:
                member.attempts += 1
                member.last_attempt = entry.last_attempt
                member.first_attempt = member.first_attempt or entry.last_attempt
        if problem := self._mismatch(tree, gangs, framework):
            self._fail(entry, gangs, problem)
            return
        scheduler = self._scheduler(framework)
        try:
            results = scheduler.schedule(tree)
        except Interrupted as gated:
            self._pending.queue.gate_again(entry, gated.reason)
            return
        if any(result.placed for result in results.values()):
            ahead = (
                self.backfill.delayed_by(root, entry, framework, scheduler)
                if framework.quirks.gangs_stand_in_line and not entry.goes_first
                else None
            )
            if ahead is None:
                await self._bind(entry, root, tree, results, framework)
                return
            scheduler.assumptions.revert()
            root.rejected = []
            self._wait_in_line(entry, gangs, ahead)
            return
        self._reject(entry, root, tree, results, framework)

    def _scheduler(self, framework: Framework) -> GroupScheduler:
        return GroupScheduler(
            framework, self._claim_cache, partial(self._try_pod, framework), monotonic=self._monotonic
        )

    def _try_pod(self, framework: Framework, pod: PodInfo, nodes: Sequence[NodeInfo] | None) -> Outcome:
        profile = framework.profile
        return decide(
            pod,
            framework,
            spread=self._listers.spread(pod, profile),
            budgets=self._listers.budgets,
            storage=self._listers.storage if profile.enabled("VolumeBinding") else None,
            nodes=nodes,
            in_group=True,
        )

    def _mismatch(self, tree: Gang | Composite, gangs: Sequence[Gang], framework: Framework) -> str:
        """In what the pods of a group differ although they must not, in upstream's words, or an empty text."""
        root = tree.group if isinstance(tree, Gang) else tree.composite
        cluster = framework.placement.cluster
        own_policy = framework.quirks.groups_have_preemption_policy
        name, policy = "", root.preemption_policy if own_policy else ""
        waiting = [pod for gang in gangs for pod in gang.members]
        bound = [pod for gang in gangs for pod in cluster.pods_of_group(*gang.group.key).values()]
        both = "all pods in a single pod group should have the same"
        for pod in (*waiting, *bound):
            spec = pod.document["spec"]
            its_name = spec.get("schedulerName", "default-scheduler")
            its_policy = spec.get("preemptionPolicy") or "PreemptLowerPriority"
            name = name or its_name
            if its_name != name:
                return f'{both} .spec.schedulerName set, got: "{its_name}" and "{name}"'
            if pod.priority != root.priority:
                return f"{both} priority as the pod group's priority, got {pod.priority} and {root.priority}"
            policy = policy or its_policy
            if its_policy != policy:
                group = " as the pod group's preemption policy" if own_policy else ""
                return f"{both} preemption policy{group}, got {its_policy} and {policy}"
        return ""

    # -- placed -----------------------------------------------------------------------------------------------------

    async def _bind(
        self,
        entry: QueuedPodInfo,
        root: PendingGroup,
        tree: Gang | Composite,
        results: dict[str, GroupResult],
        framework: Framework,
    ) -> None:
        """All members that have a node are bound; they are assumed already, so nobody else gets what is theirs."""
        bound: list[tuple[QueuedPodInfo, Bind]] = []
        left: list[tuple[QueuedPodInfo, Unschedulable]] = []
        for result in results.values():
            for uid, outcome in result.outcomes.items():
                member = self._groups.get(uid)
                if member is None:
                    continue
                if isinstance(outcome, Bind) and result.placed:
                    bound.append((member, outcome))
                elif isinstance(outcome, Unschedulable):
                    left.append((member, outcome))
        self._groups.remove_all(member.pod.uid for member, _ in bound)
        root.rejected = _rejected(left)
        self._groups.settled(root, tried=[member.pod.uid for member, _ in left], entry=entry)
        together = framework.quirks.completes_gangs_first
        for result in results.values():
            if not result.placed:
                self._condition(result.gang.group, _Status("False", "Unschedulable", result.message))
            elif not together:
                self._condition(result.gang.group, _SCHEDULED)
        for member, unschedulable in left:
            self._report(member.pod, unschedulable.message, reasons=unschedulable)
        if together:
            await self._bindings.slots.acquire()
            self._bindings.start_together(
                entry, bound, framework,
                least=tree.group.min_count - tree.scheduled if isinstance(tree, Gang) else len(bound),
                scheduled=partial(self._scheduled, [r.gang.group for r in results.values() if r.placed], framework),
            )  # fmt: skip
        else:
            for member, bind in bound:
                await self._bindings.slots.acquire()
                self._bindings.start(member, bind, framework)
        self.backfill.forget()
        self._let_others_try()

    def _scheduled(self, groups: Iterable[PodGroupInfo], framework: Framework) -> None:
        """So many members of the groups are bound as they need."""
        for group in groups:
            if (current := framework.groups.group(*group.key)) is not None:
                self._condition(current, _SCHEDULED)

    # -- not placed -------------------------------------------------------------------------------------------------

    def _fail(self, entry: QueuedPodInfo, gangs: Iterable[Gang], problem: str) -> None:
        self._pending.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        for gang in gangs:
            self._condition(gang.group, _Status("False", "SchedulerError", problem))
            for pod in gang.members:
                self._report(pod, problem, reason="SchedulerError")

    def _reject(
        self,
        entry: QueuedPodInfo,
        root: PendingGroup,
        tree: Gang | Composite,
        results: dict[str, GroupResult],
        framework: Framework,
    ) -> None:
        error = next((result.error for result in results.values() if result.error), "")
        if error:
            self._fail_members(entry, results)
            return
        before = {name: result.message for name, result in results.items()}
        victims = self._preempt(tree, results, framework)
        members = [
            (result, pod, self._groups.get(pod.uid))
            for result in results.values()
            for pod in result.gang.members
        ]
        root.rejected = _rejected(
            (member, outcome)
            for result, pod, member in members
            if member is not None and isinstance(outcome := result.outcomes.get(pod.uid), Unschedulable)
        )
        plugins = frozenset().union(*(result.plugins for result in results.values())) or frozenset({IN_LINE})
        self._pending.queue.add_unschedulable(entry, rejected_by=plugins)
        if victims is not None:
            entry.in_flight = True
            for _, pod, _ in members:
                if (chosen := victims.binds.get(pod.uid)) is not None:
                    framework.placement.nominator.nominate(pod, chosen.node)
            group = next(gangs_of(tree)).group.document
            self._spawn(self._evict(entry, group, victims, framework.profile.name))
        for result in results.values():
            self._condition(result.gang.group, _Status("False", "Unschedulable", result.message))
        self._free_claims([pod for _, pod, _ in members], framework)
        for result, pod, _ in members:
            own = result.outcomes.get(pod.uid)
            if victims is not None and isinstance(own, Bind):
                message = result.message
            else:
                message = pod_message(result, pod.uid, before_preemption=before[result.gang.group.name])
            bind = victims.binds.get(pod.uid) if victims is not None else None
            self._report(
                pod, message, reasons=own if isinstance(own, Unschedulable) else None,
                nominated=bind.node if bind is not None else "" if pod.nominated_node else None,
            )  # fmt: skip

    def _free_claims(self, members: Sequence[PodInfo], framework: Framework) -> None:
        """Nothing is held for a group that does not fit, also not what an earlier attempt, or scheduler, has left behind."""
        if not framework.quirks.completes_gangs_first or not framework.profile.enabled(PLUGIN):
            return
        freed: set[str] = set()
        for pod in members:
            leftover = self._claim_cache.extended_resource_claim(pod.uid)
            writes: list[PostFilterWrite] = [DeleteLeftover(leftover)] if leftover is not None else []
            for claim in self._allocated_claims(pod, framework):
                uid = claim["metadata"]["uid"]
                if uid not in freed and not self._claim_cache.has_pending_allocation(uid):
                    freed.add(uid)
                    writes.append(Deallocate(claim))
            if writes:
                self._spawn(self._writers.claims.post_filter(pod, writes))

    def _allocated_claims(self, pod: PodInfo, framework: Framework) -> Iterator[ResourceClaim]:
        """The claims of a member that have devices, and that nobody but the member or its group, without a node, uses."""
        users = {pod.uid}
        group = framework.groups.of(pod)
        if group is not None and not framework.placement.cluster.pods_of_group(*group.key):
            users.add(group.uid)
        for wanted in claims.references(pod.document) if pod.claims else ():
            claim = self._claim_cache.claim(pod.namespace, wanted.claim) if wanted.claim else None
            if claim is not None and claims.allocation(claim) is not None:
                reserved = {r.get("uid") for r in claim["status"].get("reservedFor") or ()}
                if reserved <= users:
                    yield claim

    def _fail_members(self, entry: QueuedPodInfo, results: dict[str, GroupResult]) -> None:
        self._pending.queue.add_unschedulable(entry, rejected_by=frozenset(), error=True)
        for result in results.values():
            self._condition(result.gang.group, _Status("False", "SchedulerError", result.message))
            prefix = "failed to schedule other pod from a pod group: "
            for pod in result.gang.members:
                outcome = result.outcomes.get(pod.uid)
                own = (
                    result.error.removeprefix(prefix) if outcome is not None and _is_failure(outcome) else ""
                )
                self._report(pod, own or result.message, reason="SchedulerError")

    def _preempt(
        self, tree: Gang | Composite, results: dict[str, GroupResult], framework: Framework
    ) -> Victims | None:
        """Look for victims, and add to the groups' messages what came of it."""
        said: list[str] = []
        quirks = framework.quirks
        by_topology = isinstance(tree, Composite) or (
            tree.group.topology_key and quirks.places_groups_by_topology
        )
        if quirks.says_claims_deallocated and not by_topology:
            said.append(_CLAIMS_DEALLOCATED)
        victims: Victims | None = None
        if framework.profile.enabled("DefaultPreemption"):
            search = GroupPreemption(
                framework, self._claim_cache, partial(self._scheduler, framework), self._listers.budgets
            )
            match search.find(tree):
                case Victims() as victims:
                    said = [f"pod group preemption: {victims.message}"]
                case NoVictims(message, final):
                    said = [] if final else said
                    said.append(f"pod group preemption: {message}")
        for result in results.values():
            result.reasons = (*result.reasons, *said)
        return victims

    async def _evict(self, entry: QueuedPodInfo, group: PodGroup, victims: Victims, scheduler: str) -> None:
        """The group is tried again when all victims are gone: with some of them still there it would not fit."""
        try:
            await self._writers.preemption.preempt_for_group(
                group, Candidate("cluster", victims.pods), scheduler=scheduler
            )
        finally:
            self._pending.queue.done(entry)
            self._pending.wakeup.set()

    # -- backfill ---------------------------------------------------------------------------------------------------

    def _wait_in_line(self, entry: QueuedPodInfo, gangs: Sequence[Gang], ahead: PendingGroup) -> None:
        message = in_line_message(ahead)
        self._pending.queue.add_unschedulable(entry, rejected_by=frozenset({IN_LINE}))
        for gang in gangs:
            self._condition(gang.group, _Status("False", "Unschedulable", message))
            for pod in gang.members:
                self._report(pod, message)

    def _let_others_try(self) -> None:
        """A group has left the line."""
        self._pending.event(IN_LINE)

    # -- writes -----------------------------------------------------------------------------------------------------

    def _report(
        self,
        pod: PodInfo,
        message: str,
        *,
        reason: str = "Unschedulable",
        reasons: Unschedulable | None = None,
        nominated: str | None = None,
    ) -> None:
        self._spawn(
            self._writers.reporter.failed_scheduling(
                pod,
                reason=reason,
                message=message,
                nominated=nominated,
                reasons=reasons.reasons if reasons is not None else None,
            )
        )

    def _condition(self, group: PodGroupInfo, wanted: _Status) -> None:
        """A group that has been scheduled once stays scheduled, and a condition is written only if it changes."""
        document = group.document
        status = document.get("status") or {}
        conditions = status.get("conditions") or []
        known = next((c for c in conditions if c["type"] == INITIALLY_SCHEDULED), None)
        if known is not None:
            if known["status"] == "True":
                return
            if (known["status"], known["reason"], known.get("message", "")) == (
                wanted.status, wanted.reason, wanted.message,
            ):  # fmt: skip
                return
        since = timestamp(self._clock())
        if known is not None and known["status"] == wanted.status:
            since = known["lastTransitionTime"]
        condition: Condition = {
            "type": INITIALLY_SCHEDULED, "status": wanted.status, "reason": wanted.reason, "message": wanted.message,
            "lastTransitionTime": since,
        }  # fmt: skip
        self._spawn(self._write(document, condition))

    async def _write(self, group: PodGroup, condition: Condition) -> None:
        metadata = group["metadata"]
        patch: PodGroup = {"metadata": {"uid": metadata["uid"]}, "status": {"conditions": [condition]}}
        try:
            await self._client.patch_status(
                POD_GROUPS, metadata["namespace"], metadata["name"], patch, type=PatchType.STRATEGIC
            )
        except NotFound:
            pass
        except StatusError as problem:
            log.warning("cannot update pod group %s/%s: %s", metadata["namespace"], metadata["name"], problem)


def _rejected(members: Iterable[tuple[QueuedPodInfo, Unschedulable]]) -> list[QueuedPodInfo]:
    """The members that were rejected; those of one kind stand for each other."""
    found: dict[object, QueuedPodInfo] = {}
    for member, outcome in members:
        member.rejected_by = outcome.plugins
        found.setdefault((member.pod.shape, bool(member.pod.claims), outcome.plugins), member)
    return list(found.values())


def _is_failure(outcome: Outcome) -> bool:
    return not isinstance(outcome, Bind | Unschedulable)
