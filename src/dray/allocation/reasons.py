"""Why claims cannot be allocated: for each request, which cause removed how many devices.

Reasons are worked out only when somebody reads them. Of several causes that remove a device, a lasting one (a selector
does not match, a taint) counts before a passing one (another claim has the device).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import msgspec

from dray.allocation import counters, taints
from dray.allocation.devices import Device
from dray.allocation.errors import AllocationError
from dray.allocation.pools import Pool
from dray.allocation.requests import Demand, Request
from dray.allocation.search.state import AllocationState, Choice, Claim, DeviceInPool
from dray.allocation.selectors import Expression
from dray.allocation.usage import Usage
from dray.api.identity import DeviceID
from dray.api.quantity import Quantity
from dray.cel import CompileError, EvaluationError

_EXAMPLES = 3


class Cause(Enum):
    """What removes a device, from lasting causes to passing ones."""

    POOL_INCOMPLETE = "pool incomplete"
    POOL_INVALID = "pool invalid"
    FEATURE = "feature off"
    CLASS_SELECTOR = "class selector"
    CLAIM_SELECTOR = "claim selector"
    SELECTOR_ERROR = "selector error"
    NODE = "node selection"
    ATTRIBUTE = "attribute missing for constraint"
    TAINT = "taint"
    CAPACITY_SHAPE = "capacity not offered"
    TAKEN = "already allocated"
    CAPACITY = "capacity used up"
    COUNTERS = "counters used up"

    @property
    def rank(self) -> int:
        return _RANKS[self]


_RANKS = {cause: number for number, cause in enumerate(Cause)}


@dataclass(frozen=True, slots=True)
class Removal:
    """Devices that were removed for one and the same cause."""

    cause: Cause
    detail: str  # which selector with its text, which taint, taken by whom …
    count: int
    examples: tuple[DeviceID, ...]
    selector: int | None = None  # position of the selector in its list
    source: str = ""  # its text


@dataclass(frozen=True, slots=True)
class Miss:
    """The device that came closest, and the cause that removed it."""

    device: DeviceID
    cause: Cause
    detail: str


@dataclass(frozen=True, slots=True)
class RequestReasons:
    claim: str
    request: str
    wanted: int | None  # None: all there are
    considered: int
    usable: int  # devices that could serve this request if it were alone
    removals: tuple[Removal, ...]  # largest first
    nearest: Miss | None

    @property
    def short(self) -> bool:
        """Whether this request alone cannot be served."""
        return self.usable < (1 if self.wanted is None else self.wanted) or (
            self.wanted is None and any(removal.cause in _OF_THE_MOMENT for removal in self.removals)
        )


_OF_THE_MOMENT = frozenset({Cause.TAINT, Cause.TAKEN, Cause.CAPACITY, Cause.COUNTERS})


@dataclass(frozen=True, slots=True)
class Reasons:
    """Why a node cannot have the claims."""

    requests: tuple[RequestReasons, ...]
    #: why they cannot be served together although each of them can alone
    together: tuple[str, ...] = ()
    pools: tuple[str, ...] = ()  # pools that are incomplete or invalid

    @property
    def short(self) -> bool:
        """Whether some request cannot be served even alone, by none of its alternatives."""
        served: dict[tuple[str, str], bool] = {}
        for request in self.requests:
            key = (request.claim, request.request.partition("/")[0])
            served[key] = served.get(key, False) or not request.short
        return not all(served.values())

    def as_document(self) -> dict[str, Any]:
        """The same as plain data, for events and tools."""
        return {
            "requests": [_request_document(request) for request in self.requests],
            "together": list(self.together),
            "pools": list(self.pools),
        }


def _request_document(request: RequestReasons) -> dict[str, Any]:
    document: dict[str, Any] = {
        "claim": request.claim,
        "request": request.request,
        "wanted": "All" if request.wanted is None else request.wanted,
        "considered": request.considered,
        "usable": request.usable,
        "removed": [
            {
                "cause": removal.cause.value,
                "detail": removal.detail,
                "count": removal.count,
                "examples": [str(device) for device in removal.examples],
            }
            for removal in request.removals
        ],
    }
    if request.nearest is not None:
        nearest = request.nearest
        document["nearest"] = {
            "device": str(nearest.device),
            "cause": nearest.cause.value,
            "detail": nearest.detail,
        }
    return document


def diagnose(state: AllocationState, pools: Sequence[Pool], claims: Sequence[Claim]) -> Reasons:
    """The reasons of every request by itself, in an otherwise empty allocation."""
    requests = tuple(
        _of_request(state, pools, Choice(claim, request))
        for claim in claims
        for alternatives in claim.demand.requests
        for request in alternatives
    )
    troubled = tuple(
        f"{pool.id}: {pool.invalid or 'currently being updated'}" for pool in pools if not pool.usable
    )
    return Reasons(requests, pools=troubled)


@dataclass(slots=True)
class _Tally:
    verdict: _Verdict
    count: int = 0
    examples: list[DeviceID] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Verdict:
    """What removes one device, and how far it came."""

    cause: Cause
    detail: str
    selector: int | None = None
    source: str = ""


def _of_request(state: AllocationState, pools: Sequence[Pool], choice: Choice) -> RequestReasons:
    considered = usable = 0
    tallies: dict[tuple[Cause, str], _Tally] = {}
    nearest: tuple[tuple[int, int], Miss] | None = None
    for pool in pools:
        part = state.usage.of(pool.id)
        for device in pool.devices or pool.withheld:
            considered += 1
            verdict = _removed_by(state, choice, DeviceInPool(device, pool, part))
            if verdict is None:
                usable += 1
                continue
            tally = tallies.setdefault((verdict.cause, verdict.detail), _Tally(verdict))
            tally.count += 1
            if len(tally.examples) < _EXAMPLES:
                tally.examples.append(device.id)
            closeness = (verdict.cause.rank, verdict.selector or 0)
            if nearest is None or closeness > nearest[0]:
                nearest = closeness, Miss(device.id, verdict.cause, verdict.detail)
    removals = [
        Removal(
            t.verdict.cause,
            t.verdict.detail,
            t.count,
            tuple(t.examples),
            t.verdict.selector,
            t.verdict.source,
        )
        for t in tallies.values()
    ]
    return RequestReasons(
        choice.claim.name,
        choice.request.full_name,
        None if choice.request.all else choice.request.count,
        considered,
        usable,
        tuple(sorted(removals, key=lambda removal: -removal.count)),
        nearest[1] if nearest is not None else None,
    )


def _removed_by(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    """The first cause that removes a device; None if it could be used."""
    pool = device_in_pool.pool
    if not pool.usable:
        return _unselected(state, choice, device_in_pool) or _of_pool(pool)
    for check in (_feature, _selectors, _place, _attributes, _taint, _capacity, _taken, _counters):
        verdict = check(state, choice, device_in_pool)
        if verdict is not None:
            return verdict
    return None


def _unselected(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    """For a device of an unusable pool: a device that is not selected is removed for that; selector errors do not count."""
    verdict = _selectors(state, choice, device_in_pool)
    return None if verdict is None or verdict.cause is Cause.SELECTOR_ERROR else verdict


def _of_pool(pool: Pool) -> _Verdict:
    if pool.incomplete:
        return _Verdict(Cause.POOL_INCOMPLETE, f"pool {pool.id} is being updated: slices are missing")
    return _Verdict(Cause.POOL_INVALID, f"pool {pool.id}: {pool.invalid}")


def _feature(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    device, features = device_in_pool.device, state.features
    if device.binding_conditions and not features.binding_conditions:
        return _Verdict(Cause.FEATURE, "needs DRADeviceBindingConditions")
    if device.consumes_counters and not features.partitionable_devices:
        return _Verdict(Cause.FEATURE, "needs DRAPartitionableDevices")
    if (
        device.skips_node_operations
        and features.honours_skip_node_operations
        and not features.optional_node_operations
    ):
        return _Verdict(Cause.FEATURE, "needs DRAOptionalNodeOperations")
    return None


def _selectors(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    for selector in choice.request.selectors:
        source = selector.expression.source
        detail = f"{choice.named(selector)}: {source}"
        outcome = _ask(device_in_pool.device, selector.expression)
        if outcome is False:
            cause = Cause.CLASS_SELECTOR if selector.of_class else Cause.CLAIM_SELECTOR
            return _Verdict(cause, detail, selector.position, source)
        if outcome is not True:
            return _Verdict(Cause.SELECTOR_ERROR, f"{detail}: {outcome}", selector.position, source)
    return None


def _ask(device: Device, expression: Expression) -> bool | str:
    try:
        outcome = device.shape.verdict(expression)
    except CompileError as error:
        return str(error)
    return str(outcome) if isinstance(outcome, EvaluationError) else outcome


def _place(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    selection = device_in_pool.device.selection
    if selection is None or not state.node:  # no node in particular
        return None
    metadata = state.node.get("metadata") or {}
    if selection.matches(metadata.get("name") or "", metadata.get("labels") or {}):
        return None
    return _Verdict(Cause.NODE, "the device is for other nodes")


def _attributes(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    for position in choice.request.constraints:
        attribute = choice.claim.demand.constraints[position].attribute
        try:
            values = state.values(choice, device_in_pool.device, position)
        except AllocationError as error:
            return _Verdict(Cause.SELECTOR_ERROR, str(error))
        if values is None:
            return _Verdict(
                Cause.ATTRIBUTE, f"constraint #{position} compares {attribute}, which the device lacks"
            )
    return None


def _taint(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    if not state.features.device_taints:
        return None
    taint = taints.untolerated_taint(device_in_pool.device, choice.request.tolerations)
    if taint is None:
        return None
    value = f"={taint['value']}" if taint.get("value") else ""
    return _Verdict(Cause.TAINT, f"{taint.get('key', '')}{value}:{taint.get('effect', '')}")


def _capacity(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    try:
        consumed_capacity = state.consumed_capacity(choice, device_in_pool)
    except AllocationError as error:
        return _Verdict(Cause.CAPACITY_SHAPE, str(error))
    if consumed_capacity is None:
        wanted = ", ".join(f"{name}={amount}" for name, amount in choice.request.capacity.items())
        return _Verdict(Cause.CAPACITY_SHAPE, f"does not offer {wanted or 'what its own policy wants'}")
    consumed = device_in_pool.part.consumed.get(device_in_pool.device.name) or {}
    for name, amount, limit in consumed_capacity.amounts:
        if consumed.get(name, 0) + amount > limit:
            left = _amount(limit - consumed.get(name, 0))
            return _Verdict(Cause.CAPACITY, f"{name}: {_amount(amount)} wanted, {left} left")
    return None


def _taken(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    if not state.in_use(choice, device_in_pool):
        return None
    owner = device_in_pool.part.taken.get(device_in_pool.device.name)
    return _Verdict(Cause.TAKEN, f"allocated to claim {owner}" if owner else "allocated")


def _counters(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> _Verdict | None:
    if not state.consumes_counters(device_in_pool) or state.counters_suffice(device_in_pool):
        return None
    available = counters.available(device_in_pool.pool, state.usage)
    for counter, amount in counters.consumed_counters(device_in_pool.device):
        left = available.left.get(counter, 0)
        if left < amount:
            name = "/".join(counter)
            return _Verdict(Cause.COUNTERS, f"{name}: {_amount(amount)} needed, {_amount(left)} left")
    if available.overdrawn:
        return _Verdict(Cause.COUNTERS, f"counters of pool {device_in_pool.pool.id} are overdrawn")
    return _Verdict(Cause.COUNTERS, "no compatibility group in common with devices in use")


def _amount(nano: int) -> str:
    return str(Quantity(nano, -9).reduced())


def relaxations(claims: Sequence[Claim]) -> Iterator[tuple[str, list[Claim]]]:
    """The same claims with one constraint less, each with what to say if that helps."""
    for number, claim in enumerate(claims):
        for position, constraint in enumerate(claim.demand.constraints):
            relaxed = msgspec.structs.replace(claim, demand=_without(claim.demand, position))
            what = f"claim {claim.name}: constraint #{position} over {constraint.attribute} cannot be met"
            yield what, [*claims[:number], relaxed, *claims[number + 1 :]]


def _without(demand: Demand, position: int) -> Demand:
    requests = []
    for alternatives in demand.requests:
        copies = []
        for request in alternatives:
            copy = _copy(request)
            copy.constraints = tuple(p for p in request.constraints if p != position)
            copies.append(copy)
        requests.append(tuple(copies))
    relaxed = Demand(demand.key, requests, demand.constraints)
    relaxed.config = demand.config
    return relaxed


def _copy(request: Request) -> Request:
    copy = Request(request.name, request.document, request.parent)
    for name in ("selectors", "class_document", "derived", "constraints"):
        setattr(copy, name, getattr(request, name))
    return copy


def frozen_usage(usage: Usage, pools: Sequence[Pool]) -> Usage:
    """What is taken of these pools right now."""
    return Usage(pools={pool.id: usage.of(pool.id) for pool in pools})
