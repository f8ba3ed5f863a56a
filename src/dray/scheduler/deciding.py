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
from dray.scheduler import advising, devices, preemption, volumes
from dray.scheduler.config import SchedulerProfile
from dray.scheduler.ledger import Ledger
from dray.scheduler.neighbours import Constraint
from dray.scheduler.nodes import Node
from dray.scheduler.placement import Found, NotFound, Placement, Promise
from dray.scheduler.pods import Pod
from dray.scheduler.verdicts import Gated, Rejection, unavailable

Document = Mapping[str, Any]


_CONFLICTING = Rejection("NodeAffinity", ("pod affinity terms conflict",), resolvable=False)


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
    promise: Promise | None = None  # the devices that are freed by that
    keeps_promise: bool = False  # what was promised to the pod before still holds
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


class Generation(Protocol):
    """Claims of another generation than today's, which are dealt with in another way."""

    def concerns(self, pod: Pod) -> bool: ...
    def gate(self, pod: Pod, today: Today) -> str: ...
    def begin(self, pod: Pod, today: Today) -> Any: ...
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
) -> Bind | Unschedulable | Failure | Gated:
    cluster = placement.cluster
    if not len(cluster):
        return Unschedulable("no nodes available to schedule pods", frozenset({"NodeName"}))
    attempt: devices.Attempt | Any | None = None
    before: Rejection | None = None
    if classic is not None and not classic.concerns(pod):
        classic = None
    if pod.pinned is not None and not pod.pinned and profile.enabled("NodeAffinity"):
        before = _CONFLICTING
    elif storage is not None and pod.volume_claims:
        before = storage.reject(pod)
    if before is None and profile.enabled(devices.PLUGIN):

        def today(others: Container[str]) -> devices.Attempt | Rejection | Gated | None:
            return devices.Attempt.begin(
                pod,
                ledger,
                options,
                new_share_id=new_share_id,
                clock=clock,
                monotonic=monotonic,
                promised=lambda node: placement.promised_devices(pod, node),
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
        if options.faithful and before.plugin != devices.PLUGIN and profile.enabled(devices.PLUGIN):
            after = _NOT_BEGUN
        else:
            room = _Room(pod, profile, placement, ledger, budgets, lambda node: None)
            after = room.make({}, None, about_claims="no new claims to deallocate")
        message = unavailable(len(cluster), (), before_filtering=before.reasons[0], after=after.message)
        return Unschedulable(message, frozenset({before.plugin}), keeps_promise=after.keeps_promise)
    reachable = None if storage is None or not pod.volume_claims else partial(storage.on, pod)
    try:
        found = placement.find(pod, attempt, spread=spread, volumes=reachable)
    except (AllocationError, devices.SearchTimeout) as problem:
        return Failure(f'running "{devices.PLUGIN}" filter plugin: {problem}')
    decision: Bind | Unschedulable
    if isinstance(found, Found):
        decision = Bind(found.node, found.plan, attempt.claims if attempt is not None else ())
    else:
        judge = placement.supposing(pod, spread=spread, volumes=reachable)
        room = _Room(pod, profile, placement, ledger, budgets, judge)
        decision = _unplaced(pod, found, attempt, room, options)
    return decision if classic is None or attempt is None else classic.refine(attempt, decision)


def _unplaced(
    pod: Pod, outcome: NotFound, attempt: devices.Attempt | None, room: _Room, options: devices.Options
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
    made = room.make(
        outcome.rejections, attempt, about_claims=said, free_devices=deallocate is None and remove is None
    )
    message = unavailable(outcome.nodes, outcome.rejections.values(), after=made.message)
    reasons = _reasons(outcome, attempt, room.placement)
    if options.advice and made.preempt is None and (hint := advising.advice(reasons, nodes=outcome.nodes)):
        message = f"{message} {hint}"
    return Unschedulable(
        message,
        outcome.plugins,
        preempt=made.preempt,
        promise=made.promise,
        keeps_promise=made.keeps_promise,
        deallocate=deallocate,
        remove=remove,
        reasons=reasons,
    )


def _reasons(
    outcome: NotFound, attempt: devices.Attempt | None, placement: Placement
) -> Mapping[str, Reasons]:
    """Why some of the nodes that were turned down for their devices cannot have the pod."""
    if not isinstance(attempt, devices.Attempt):
        return {}
    refused = (name for name, rejection in outcome.rejections.items() if rejection.plugin == devices.PLUGIN)
    nodes = [
        node for name in islice(refused, advising.SAMPLE) if (node := placement.cluster.get(name)) is not None
    ]
    failures = attempt.explain(nodes)
    return {node.name: failures[node.name].reasons for node in nodes if node.name in failures}


@dataclass(frozen=True, slots=True)
class _Made:
    """What upstream's post-filter plugins would say, and whom to evict if that helps."""

    message: str
    preempt: preemption.Preempt | None = None
    promise: Promise | None = None
    keeps_promise: bool = False


#: What upstream says after a plugin that comes before the one for claims has turned the pod down: the latter looks for
#: what it knows of the pod, fails, and nobody else is asked.
_NOT_BEGUN = _Made("not found", keeps_promise=True)


@dataclass(frozen=True, slots=True)
class _Room:
    """Makes room for a pod that fits nowhere."""

    pod: Pod
    profile: SchedulerProfile
    placement: Placement
    ledger: Ledger
    budgets: Callable[[], Sequence[preemption.Budget]]
    judge: Callable[[Node], Rejection | None]  # by all filters but the one for devices, with some pods gone

    def make(
        self,
        rejections: Mapping[str, Rejection],
        attempt: devices.Attempt | None,
        *,
        about_claims: str,
        free_devices: bool = True,
    ) -> _Made:
        said = [about_claims] if self.profile.enabled(devices.PLUGIN) else []
        if not self.profile.enabled("DefaultPreemption"):
            return _Made(", ".join(said))
        free_devices = (
            free_devices and self.profile.device_preemption and isinstance(attempt, devices.Attempt)
        )
        match self._preempt(rejections, attempt, free_devices=free_devices):
            case preemption.Preempt() as chosen:
                promise = self._promise(chosen, attempt) if free_devices and attempt is not None else None
                # Upstream's summary ends with the last plugin's word, and success has none.
                return _Made("", chosen, promise)
            case preemption.NoRoom(message, eligible):
                said.append(f"preemption: {message}")
                return _Made(", ".join(said), keeps_promise=not eligible)

    def _preempt(
        self, rejections: Mapping[str, Rejection], attempt: devices.Attempt | None, *, free_devices: bool
    ) -> preemption.Preempt | preemption.NoRoom:
        pod, placement, ledger = self.pod, self.placement, self.ledger

        def fits(node: Node) -> Rejection | None:
            rejection = self.judge(node)
            if rejection is not None or attempt is None:
                return rejection
            try:
                plan = attempt.on(node, gone=self._gone(node)) if free_devices else attempt.on(node)
            except (AllocationError, devices.SearchTimeout) as problem:
                return Rejection(devices.PLUGIN, (str(problem),), resolvable=False)
            return plan if isinstance(plan, Rejection) else None

        if not free_devices:
            return preemption.preempt(pod, placement.cluster, rejections, fits=fits, budgets=self.budgets())
        promise = placement.promise_to(pod.uid)
        return preemption.preempt(
            pod,
            placement.cluster,
            rejections,
            fits=fits,
            budgets=self.budgets(),
            resolvable=lambda r: r.resolvable or devices.may_be_freed(r),
            awaited=promise is not None and promise.awaited(),
            worth=lambda p: sum(map(devices.size, devices.held_only_by([p], ledger))),
        )

    def _gone(self, node: Node) -> list[Pod]:
        """Who is missing from a node that is looked at as it would be without some."""
        now = self.placement.cluster.get(node.name)
        return [p for uid, p in now.pods.items() if uid not in node.pods] if now is not None else []

    def _promise(self, chosen: preemption.Preempt, attempt: devices.Attempt) -> Promise | None:
        """What the victims leave is the pod's, until it has got it."""
        node = self.placement.cluster.get(chosen.node)
        assert node is not None
        plan = attempt.on(node.without(frozenset(p.uid for p in chosen.victims)), gone=chosen.victims)
        freed = devices.held_only_by(chosen.victims, self.ledger)
        if isinstance(plan, Rejection) or not freed:
            return None
        return Promise(plan, lambda: any(_still_held(c, chosen.victims, self.ledger) for c in freed))


def _still_held(claim: Document, victims: Sequence[Pod], ledger: Ledger) -> bool:
    """Whether a claim waits for nothing but the end of its last users to come free."""
    metadata = claim["metadata"]
    now = ledger.claim(metadata["namespace"], metadata["name"])
    if now is None or now["metadata"]["uid"] != metadata["uid"] or claims.allocation(now) is None:
        return False
    users = {r.get("uid") for r in now["status"].get("reservedFor") or ()}
    return users <= {p.uid for p in victims}


def _unused(claim: Document, pod: Pod) -> bool:
    reserved = (claim.get("status") or {}).get("reservedFor") or ()
    return not reserved or (len(reserved) == 1 and reserved[0].get("uid") == pod.uid)
