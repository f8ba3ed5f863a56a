"""One attempt to place one pod, from what is known to what is to be done. Nothing is written here.

The outcome is a value: ``Bind`` (go and write this), ``Unschedulable`` (say this, and perhaps make room) or
``Failure`` (something is broken, try again later).
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dray.allocation import AllocationError
from dray.scheduler import devices, preemption, volumes
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.ledger import Ledger
from dray.scheduler.neighbours import Constraint
from dray.scheduler.nodes import Node
from dray.scheduler.placement import Found, NotFound, Placement
from dray.scheduler.pods import Pod
from dray.scheduler.verdicts import Rejection, unavailable

Document = Mapping[str, Any]


class Carry(Protocol):
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
    plan: devices.NodePlan | None = None
    claims: Sequence[Document] = ()  # the pod's own claims, allocated or not
    carry: Carry | None = None


@dataclass(frozen=True, slots=True)
class Unschedulable:
    """No node fits. ``message`` is what the pod's condition and event say."""

    message: str
    plugins: frozenset[str]
    preempt: preemption.Preempt | None = None
    deallocate: Document | None = None  # an unused allocated claim that was in the way
    remove: Document | None = None  # a left-over claim for extended resources
    reasons: Mapping[str, Any] = field(default_factory=dict)  # node → the allocator's structured reasons
    first: Callable[[], Awaitable[None]] | None = None  # to be done before anything is said
    waiting: bool = False  # for somebody's answer, which is to be acted on at once


@dataclass(frozen=True, slots=True)
class Failure:
    """The attempt could not be carried through."""

    message: str


class Generation(Protocol):
    """Claims of another generation than today's, which are dealt with in another way."""

    def concerns(self, pod: Pod) -> bool: ...
    def gate(self, pod: Pod) -> str: ...
    def begin(self, pod: Pod) -> Any: ...
    def refine(self, attempt: Any, decision: Bind | Unschedulable) -> Bind | Unschedulable: ...


def decide(
    pod: Pod,
    *,
    profile: SchedulerProfile,
    placement: Placement,
    ledger: Ledger,
    options: devices.Options,
    spread: Sequence[Constraint] = (),
    budgets: Callable[[], Sequence[preemption.Budget]] = tuple,
    storage: volumes.Storage | None = None,
    classic: Generation | None = None,
    new_share_id: Callable[[], str],
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
) -> Bind | Unschedulable | Failure:
    cluster = placement.cluster
    if not len(cluster):
        return Unschedulable("no nodes available to schedule pods", frozenset({"NodeName"}))
    attempt: devices.Attempt | Any | None = None
    before: Rejection | None = None
    if classic is not None and not classic.concerns(pod):
        classic = None
    if storage is not None and pod.volume_claims:
        before = storage.reject(pod)
    if before is None and profile.enabled(devices.PLUGIN):
        if classic is not None:
            begun = classic.begin(pod)
        else:
            begun = devices.Attempt.begin(
                pod, ledger, options, new_share_id=new_share_id, clock=clock, monotonic=monotonic
            )
        match begun:
            case Rejection() as rejection:
                before = rejection
            case started:
                attempt = started
    if before is not None:
        after = _afterwards(profile, "no new claims to deallocate", pod, placement, {}, None, budgets)
        message = unavailable(len(cluster), (), before_filtering=before.reasons[0], after=after[0])
        return Unschedulable(message, frozenset({before.plugin}))
    check = attempt if storage is None or not pod.volume_claims else storage.beside(pod, attempt)
    try:
        outcome = placement.find(pod, check, spread=spread)
    except (AllocationError, devices.SearchTimeout) as problem:
        return Failure(f'running "{devices.PLUGIN}" filter plugin: {problem}')
    decision: Bind | Unschedulable
    if isinstance(outcome, Found):
        decision = Bind(outcome.node, outcome.plan, attempt.claims if attempt is not None else ())
    else:
        decision = _unplaced(pod, outcome, attempt, profile, placement, budgets)
    return decision if classic is None or attempt is None else classic.refine(attempt, decision)


def _unplaced(
    pod: Pod,
    outcome: NotFound,
    attempt: devices.Attempt | None,
    profile: SchedulerProfile,
    placement: Placement,
    budgets: Callable[[], Sequence[preemption.Budget]],
) -> Unschedulable:
    deallocate = remove = None
    said = "no new claims to deallocate"
    if attempt is not None:
        said = "still not schedulable"
        deallocate = next((c for c in attempt.unavailable.values() if _unused(c, pod)), None)
        if deallocate is not None:
            said = "deallocation of ResourceClaim completed"
        elif (remove := attempt.left_over) is not None:
            said = "deletion of ResourceClaim completed"
    message, preempt = _afterwards(profile, said, pod, placement, outcome.rejections, attempt, budgets)
    return Unschedulable(
        unavailable(outcome.nodes, outcome.rejections.values(), after=message),
        outcome.plugins,
        preempt=preempt,
        deallocate=deallocate,
        remove=remove,
        reasons=dict(attempt.failures) if attempt is not None else {},
    )


def _afterwards(
    profile: SchedulerProfile,
    about_claims: str,
    pod: Pod,
    placement: Placement,
    rejections: Mapping[str, Rejection],
    attempt: devices.Attempt | None,
    budgets: Callable[[], Sequence[preemption.Budget]],
) -> tuple[str, preemption.Preempt | None]:
    """What upstream's post-filter plugins would say, and whom to evict if that helps."""
    parts = [about_claims] if profile.enabled(devices.PLUGIN) else []
    preempt = None
    if profile.enabled("DefaultPreemption"):
        match _preempt(pod, placement, rejections, attempt, profile, budgets):
            case preemption.Preempt() as chosen:
                preempt = chosen
                # Upstream's summary ends with the last plugin's word, and success has none.
                return "", preempt
            case preemption.NoRoom(message):
                parts.append(f"preemption: {message}")
    return ", ".join(parts), preempt


def _preempt(
    pod: Pod,
    placement: Placement,
    rejections: Mapping[str, Rejection],
    attempt: devices.Attempt | None,
    profile: SchedulerProfile,
    budgets: Callable[[], Sequence[preemption.Budget]],
) -> preemption.Preempt | preemption.NoRoom:
    def fits(node: Node) -> Rejection | None:
        rejection = placement.judge(pod, node)
        if rejection is not None or attempt is None:
            return rejection
        plan = attempt.on(node)
        return plan if isinstance(plan, Rejection) else None

    return preemption.preempt(pod, placement.cluster, rejections, fits=fits, budgets=budgets())


def _unused(claim: Document, pod: Pod) -> bool:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return not reserved or (len(reserved) == 1 and reserved[0].get("uid") == pod.uid)
