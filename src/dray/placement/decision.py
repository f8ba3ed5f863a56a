"""One attempt to place one pod, from what is known to what is to be done. Nothing is written here.

The outcome is a value: ``Bind`` (go and write this), ``Unschedulable`` (say this, and perhaps make room), ``Failure``
(something is broken, try again later) or ``Gated`` (say nothing, and wait until a claim is there).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import Any, Protocol

from dray.allocation import AllocationError, Reasons
from dray.api import claims
from dray.placement import advice, preemption
from dray.placement.cache.claims import ClaimCache
from dray.placement.cache.nodes import NodeInfo
from dray.placement.cache.pods import PodInfo
from dray.placement.config import SchedulerProfile
from dray.placement.placement import DeviceNomination, Diagnosis, Placement, ScheduleResult
from dray.placement.plugins import dynamic_resources, volume_binding
from dray.placement.plugins.inter_pod_affinity import SpreadConstraint
from dray.placement.status import Gated, Rejection, fit_error_message

Document = Mapping[str, Any]


_CONFLICTING_AFFINITY = Rejection("NodeAffinity", ("pod affinity terms conflict",), resolvable=False)


class ClaimBinding(Protocol):
    """A binding whose claims are of another generation: it knows itself what to take, write and give back."""

    def assume(self) -> None: ...
    def undo(self) -> None: ...
    async def write(self) -> None: ...
    async def release(self) -> None: ...
    async def done(self) -> None: ...


@dataclass(frozen=True, slots=True)
class Bind:
    """Give the pod this node and these devices."""

    node: str
    plan: dynamic_resources.NodePlan | None = None
    claims: Sequence[Document] = ()  # the pod's own claims, allocated or not
    carry: ClaimBinding | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node fits. ``message`` is what the pod's condition and event say."""

    message: str
    plugins: frozenset[str]
    preempt: preemption.Candidate | None = None
    device_nomination: DeviceNomination | None = None  # the devices that are freed by that
    keeps_nomination: bool = False  # what was promised to the pod before still holds
    deallocate: Document | None = None  # an unused allocated claim that was in the way
    remove: Document | None = None  # a left-over claim for extended resources
    reasons: Mapping[str, Reasons] = field(default_factory=dict)  # what the allocator said about some nodes
    first: Callable[[], Awaitable[None]] | None = None  # to be done before anything is said
    waiting: bool = False  # for somebody's answer, which is to be acted on at once
    reason: str = "Unschedulable"  # of the pod's condition


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt could not be carried through."""

    message: str


#: Given the names of the claims that are dealt with elsewhere, the attempt (or the gate) of today's claims of a pod.
Today = Callable[[Container[str]], Any]


class ClaimPlugin(Protocol):
    """Claims of another generation than today's, which are dealt with in another way."""

    def concerns(self, pod: PodInfo) -> bool: ...
    def gate(self, pod: PodInfo, today: Today) -> str: ...
    def begin(self, pod: PodInfo, today: Today) -> Any: ...
    def refine(self, attempt: Any, decision: Bind | Unschedulable) -> Bind | Unschedulable: ...


def decide(
    pod: PodInfo,
    *,
    profile: SchedulerProfile,
    placement: Placement,
    claim_cache: ClaimCache,
    options: dynamic_resources.Options,
    spread: Sequence[SpreadConstraint] = (),
    budgets: Callable[[], Sequence[preemption.DisruptionBudget]] = tuple,
    storage: volume_binding.VolumeBinding | None = None,
    classic: ClaimPlugin | None = None,
    new_share_id: Callable[[], str],
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Bind | Unschedulable | Failure | Gated:
    cluster = placement.cluster
    if not len(cluster):
        return Unschedulable("no nodes available to schedule pods", frozenset({"NodeName"}))
    attempt: dynamic_resources.Attempt | Any | None = None
    before: Rejection | None = None
    if classic is not None and not classic.concerns(pod):
        classic = None
    if pod.pinned is not None and not pod.pinned and profile.enabled("NodeAffinity"):
        before = _CONFLICTING_AFFINITY
    elif storage is not None and pod.volume_claims:
        before = storage.reject(pod)
    if before is None and profile.enabled(dynamic_resources.PLUGIN):

        def today(others: Container[str]) -> dynamic_resources.Attempt | Rejection | Gated | None:
            return dynamic_resources.Attempt.begin(
                pod,
                claim_cache,
                options,
                new_share_id=new_share_id,
                clock=clock,
                monotonic=monotonic,
                nominated_plans=lambda node: placement.nominated_plans(pod, node),
                others=others,
            )

        match classic.begin(pod, today) if classic is not None else today(()):
            case Rejection() as rejection:
                before = rejection
            case (Failure() | Gated()) as outcome:
                return outcome
            case started:
                attempt = started
    if before is not None:
        if (
            options.faithful
            and before.plugin != dynamic_resources.PLUGIN
            and profile.enabled(dynamic_resources.PLUGIN)
        ):
            after = _NO_CYCLE_STATE
        else:
            room = _PostFilter(pod, profile, placement, claim_cache, budgets, lambda node: None)
            after = room.make({}, None, about_claims="no new claims to deallocate")
        message = fit_error_message(len(cluster), (), before_filtering=before.reasons[0], after=after.message)
        return Unschedulable(message, frozenset({before.plugin}), keeps_nomination=after.keeps_nomination)
    reachable = None if storage is None or not pod.volume_claims else partial(storage.on, pod)
    try:
        found = placement.find(pod, attempt, spread=spread, volumes=reachable)
    except (AllocationError, dynamic_resources.FilterTimeout) as problem:
        return Failure(f'running "{dynamic_resources.PLUGIN}" filter plugin: {problem}')
    decision: Bind | Unschedulable
    if isinstance(found, ScheduleResult):
        decision = Bind(found.node, found.plan, attempt.claims if attempt is not None else ())
    else:
        run_filters = placement.filters_without_victims(pod, spread=spread, volumes=reachable)
        room = _PostFilter(pod, profile, placement, claim_cache, budgets, run_filters)
        decision = _unschedulable(pod, found, attempt, room, options)
    return decision if classic is None or attempt is None else classic.refine(attempt, decision)


def _unschedulable(
    pod: PodInfo,
    outcome: Diagnosis,
    attempt: dynamic_resources.Attempt | None,
    room: _PostFilter,
    options: dynamic_resources.Options,
) -> Unschedulable:
    deallocate = remove = None
    said = "no new claims to deallocate"
    if attempt is not None:
        said = "still not schedulable"
        deallocate = next((c for c in attempt.unavailable_claims.values() if _unused(c, pod)), None)
        if deallocate is not None:
            said = "deallocation of ResourceClaim completed"
        elif (remove := attempt.leftover_claim) is not None:
            said = "deletion of ResourceClaim completed"
    made = room.make(
        outcome.rejections, attempt, about_claims=said, free_devices=deallocate is None and remove is None
    )
    message = fit_error_message(outcome.nodes, outcome.rejections.values(), after=made.message)
    reasons = _reasons(outcome, attempt, room.placement)
    if options.advice and made.preempt is None and (hint := advice.summary(reasons, nodes=outcome.nodes)):
        message = f"{message} {hint}"
    return Unschedulable(
        message,
        outcome.plugins,
        preempt=made.preempt,
        device_nomination=made.device_nomination,
        keeps_nomination=made.keeps_nomination,
        deallocate=deallocate,
        remove=remove,
        reasons=reasons,
    )


def _reasons(
    outcome: Diagnosis, attempt: dynamic_resources.Attempt | None, placement: Placement
) -> Mapping[str, Reasons]:
    """Why some of the nodes that were turned down for their devices cannot have the pod."""
    if not isinstance(attempt, dynamic_resources.Attempt):
        return {}
    refused = (
        name for name, rejection in outcome.rejections.items() if rejection.plugin == dynamic_resources.PLUGIN
    )
    nodes = [
        node for name in islice(refused, advice.SAMPLE) if (node := placement.cluster.get(name)) is not None
    ]
    failures = attempt.explain(nodes)
    return {node.name: failures[node.name].reasons for node in nodes if node.name in failures}


@dataclass(frozen=True, slots=True)
class _PostFilterResult:
    """What upstream's post-filter plugins would say, and whom to evict if that helps."""

    message: str
    preempt: preemption.Candidate | None = None
    device_nomination: DeviceNomination | None = None
    keeps_nomination: bool = False


#: What upstream says after a plugin that comes before the one for claims has turned the pod down: the latter looks for
#: what it knows of the pod, fails, and nobody else is asked.
_NO_CYCLE_STATE = _PostFilterResult("not found", keeps_nomination=True)


@dataclass(frozen=True, slots=True)
class _PostFilter:
    """Makes room for a pod that fits nowhere."""

    pod: PodInfo
    profile: SchedulerProfile
    placement: Placement
    claim_cache: ClaimCache
    budgets: Callable[[], Sequence[preemption.DisruptionBudget]]
    run_filters: Callable[
        [NodeInfo], Rejection | None
    ]  # by all filters but the one for devices, with some pods gone

    def make(
        self,
        rejections: Mapping[str, Rejection],
        attempt: dynamic_resources.Attempt | None,
        *,
        about_claims: str,
        free_devices: bool = True,
    ) -> _PostFilterResult:
        said = [about_claims] if self.profile.enabled(dynamic_resources.PLUGIN) else []
        if not self.profile.enabled("DefaultPreemption"):
            return _PostFilterResult(", ".join(said))
        free_devices = (
            free_devices and self.profile.device_preemption and isinstance(attempt, dynamic_resources.Attempt)
        )
        match self._preempt(rejections, attempt, free_devices=free_devices):
            case preemption.Candidate() as chosen:
                device_nomination = (
                    self._device_nomination(chosen, attempt) if free_devices and attempt is not None else None
                )
                # Upstream's summary ends with the last plugin's word, and success has none.
                return _PostFilterResult("", chosen, device_nomination)
            case preemption.NoCandidate(message, eligible):
                said.append(f"preemption: {message}")
                return _PostFilterResult(", ".join(said), keeps_nomination=not eligible)

    def _preempt(
        self,
        rejections: Mapping[str, Rejection],
        attempt: dynamic_resources.Attempt | None,
        *,
        free_devices: bool,
    ) -> preemption.Candidate | preemption.NoCandidate:
        pod, placement, claim_cache = self.pod, self.placement, self.claim_cache

        def fits(node: NodeInfo) -> Rejection | None:
            rejection = self.run_filters(node)
            if rejection is not None or attempt is None:
                return rejection
            try:
                plan = attempt.on(node, gone=self._gone(node)) if free_devices else attempt.on(node)
            except (AllocationError, dynamic_resources.FilterTimeout) as problem:
                return Rejection(dynamic_resources.PLUGIN, (str(problem),), resolvable=False)
            return plan if isinstance(plan, Rejection) else None

        if not free_devices:
            return preemption.preempt(pod, placement.cluster, rejections, fits=fits, budgets=self.budgets())
        device_nomination = placement.device_nomination_of(pod.uid)
        return preemption.preempt(
            pod,
            placement.cluster,
            rejections,
            fits=fits,
            budgets=self.budgets(),
            resolvable=lambda r: r.resolvable or dynamic_resources.resolvable_by_freeing_devices(r),
            awaited=device_nomination is not None and device_nomination.awaited(),
            worth=lambda p: sum(
                map(dynamic_resources.device_count, dynamic_resources.claims_used_only_by([p], claim_cache))
            ),
        )

    def _gone(self, node: NodeInfo) -> list[PodInfo]:
        """Who is missing from a node that is looked at as it would be without some."""
        now = self.placement.cluster.get(node.name)
        return [p for uid, p in now.pods.items() if uid not in node.pods] if now is not None else []

    def _device_nomination(
        self, chosen: preemption.Candidate, attempt: dynamic_resources.Attempt
    ) -> DeviceNomination | None:
        """What the victims leave is the pod's, until it has got it."""
        node = self.placement.cluster.get(chosen.node)
        assert node is not None
        plan = attempt.on(node.without(frozenset(p.uid for p in chosen.victims)), gone=chosen.victims)
        freed = dynamic_resources.claims_used_only_by(chosen.victims, self.claim_cache)
        if isinstance(plan, Rejection) or not freed:
            return None
        return DeviceNomination(
            plan, lambda: any(_is_freeing(c, chosen.victims, self.claim_cache) for c in freed)
        )


def _is_freeing(claim: Document, victims: Sequence[PodInfo], claim_cache: ClaimCache) -> bool:
    """Whether a claim waits for nothing but the end of its last users to come free."""
    metadata = claim["metadata"]
    now = claim_cache.claim(metadata["namespace"], metadata["name"])
    if now is None or now["metadata"]["uid"] != metadata["uid"] or claims.allocation(now) is None:
        return False
    users = {r.get("uid") for r in now["status"].get("reservedFor") or ()}
    return users <= {p.uid for p in victims}


def _unused(claim: Document, pod: PodInfo) -> bool:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return not reserved or (len(reserved) == 1 and reserved[0].get("uid") == pod.uid)
