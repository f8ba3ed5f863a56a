"""What the exhaustive search knows beforehand: the candidates of each request, and which devices are equivalent."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from dray.allocation import consumable_capacity, counters
from dray.allocation.attributes import Values
from dray.allocation.constraints import MatchAttribute
from dray.allocation.counters import Counter
from dray.allocation.devices import Device
from dray.allocation.errors import AllocationError
from dray.allocation.pools import Pool
from dray.allocation.search.state import AllocationState, Choice, Claim, DeviceInPool

ConstraintKey = tuple[int, int]  # claim, position in its list
Compared = tuple[Values | None, ...]  # what the constraints of a request look at
Steps = Sequence[tuple[Choice, ...]]

_NOTHING: Mapping[str, int] = {}


class Candidate(NamedTuple):
    """A device that may serve a request as far as the request alone is concerned, or that ends the search."""

    device_in_pool: DeviceInPool
    consumed_capacity: consumable_capacity.ConsumedCapacity
    compared: Compared
    error: AllocationError | None = None


class RequestCandidates(NamedTuple):
    """What is known about one alternative of a request."""

    choice: Choice
    candidates: list[Candidate]  # in the order in which they are tried
    safe: bool  # trying for it cannot end in an error
    impossible: bool  # it cannot be served even if nothing else is allocated
    symmetric: bool  # the order of its devices makes no difference
    #: that many of the first candidates must be free; otherwise the request fails, without an error
    required: int


class EquivalenceClass:
    """Devices that differ only in name for all claims of this allocation."""

    __slots__ = ("consumes_counters", "number", "pool", "share_limits", "shared", "size", "values")

    def __init__(self, number: int, device_in_pool: DeviceInPool, *, shared: bool) -> None:
        self.number = number
        self.shared = shared
        self.pool = device_in_pool.pool
        self.consumes_counters = tuple(counters.consumed_counters(device_in_pool.device))
        self.values: dict[ConstraintKey, Values | None] = {}
        #: what limits the number of shares: capacity, what is left of it, the least that a share takes
        self.share_limits: tuple[tuple[str, int, int], ...] = ()
        #: how many times its devices can be allocated, each device once unless it is shared
        self.size = 0

    @property
    def unlimited(self) -> bool:
        """Whether its devices can be allocated any number of times, though not twice for one request."""
        return self.shared and not self.share_limits

    def times(self, share: Mapping[str, int] = _NOTHING) -> int:
        """How many times a device can still be allocated, with this much of its capacity in use."""
        if not self.share_limits:
            return 1
        return min((left - share.get(name, 0)) // least for name, left, least in self.share_limits)


class Candidates:
    def __init__(
        self, state: AllocationState, steps: Steps, devices_in_pools: Sequence[DeviceInPool]
    ) -> None:
        self._state = state
        self._steps = steps
        self._of = {
            choice: self._request_candidates(choice, number, devices_in_pools)
            for number, step in enumerate(steps)
            for choice in step
        }
        self.classes: list[EquivalenceClass] = []
        self._equivalence_class_of: dict[Device, EquivalenceClass] = {}
        self._classify()
        #: devices in use, by equivalence class
        self.used = [0] * len(self.classes)
        self._relevant: dict[int, _Relevance] = {}
        self._admin = any(choice.request.admin for choice in self._of)

    def of(self, choice: Choice) -> RequestCandidates:
        return self._of[choice]

    # --- candidates of requests ---

    def _request_candidates(
        self, choice: Choice, number: int, devices_in_pools: Sequence[DeviceInPool]
    ) -> RequestCandidates:
        symmetric = not any(self._ordered(choice, p) for p in choice.request.constraints)
        if choice.all_devices is not None:
            return self._of_all(choice, number, symmetric)
        found = []
        for device_in_pool in devices_in_pools:
            try:
                candidate = self._candidate(choice, device_in_pool)
            except AllocationError as error:
                candidate = Candidate(device_in_pool, consumable_capacity.NOTHING, (), error)
            # A device without the attribute can be left out unless the constraint remembers that it was tried.
            if candidate is not None and not (symmetric and None in candidate.compared):
                found.append(candidate)
        safe = all(candidate.error is None for candidate in found)
        return RequestCandidates(choice, found, safe, safe and len(found) < choice.count, symmetric, 0)

    def _ordered(self, choice: Choice, position: int) -> bool:
        """Whether a constraint makes a difference between orders of a request's devices."""
        return not choice.claim.demand.constraints[position].symmetric and any(
            other.count > 1 and position in other.request.constraints
            for step in self._steps
            for other in step
            if other.claim is choice.claim
        )

    def _candidate(self, choice: Choice, device_in_pool: DeviceInPool) -> Candidate | None:
        state = self._state
        if state.in_use(choice, device_in_pool) or not state.selects(choice, device_in_pool):
            return None
        consumed_capacity = state.consumed_capacity(choice, device_in_pool)
        if consumed_capacity is None or not self._usable(choice, device_in_pool, consumed_capacity):
            return None
        return Candidate(device_in_pool, consumed_capacity, self._compared(choice, device_in_pool))

    def _usable(
        self,
        choice: Choice,
        device_in_pool: DeviceInPool,
        consumed_capacity: consumable_capacity.ConsumedCapacity,
    ) -> bool:
        """Whether an otherwise idle device could be used."""
        return self._reachable(choice, device_in_pool) and self._state.fits(consumed_capacity, device_in_pool)

    def _reachable(self, choice: Choice, device_in_pool: DeviceInPool) -> bool:
        """Whether constraints get to see the device: capacity is checked after them."""
        state = self._state
        return (
            not state.in_use(choice, device_in_pool)
            and state.allowed(choice, device_in_pool.device)
            and not (state.consumes_counters(device_in_pool) and not state.counters_suffice(device_in_pool))
        )

    def _compared(self, choice: Choice, device_in_pool: DeviceInPool) -> Compared:
        return tuple(self._state.values(choice, device_in_pool.device, p) for p in choice.request.constraints)

    def _of_all(self, choice: Choice, number: int, symmetric: bool) -> RequestCandidates:
        assert choice.all_devices is not None
        found = []
        breaking = False
        for device_in_pool in choice.all_devices:
            consumed_capacity = (
                self._state.consumed_capacity(choice, device_in_pool) or consumable_capacity.NOTHING
            )
            try:
                compared = self._compared(choice, device_in_pool)
            except AllocationError:
                compared, breaking = (), True
            found.append(Candidate(device_in_pool, consumed_capacity, compared))
        required = len(found)
        safe = not choice.request.constraints
        if not safe and (breaking or self._bound_before(choice, number)):
            # The outcome depends on devices chosen before; only the first device is sure to be tried.
            required = min(required, 1)
        elif not safe:
            breach = _first_breach(choice, found)
            safe = breach is None
            required = required if breach is None else breach + 1
        certain = found if safe else found[: required - 1]
        lost = not all(
            self._usable(choice, c.device_in_pool, c.consumed_capacity) for c in certain
        ) or not all(self._reachable(choice, c.device_in_pool) for c in found[:required])
        return RequestCandidates(choice, found, safe, not found or lost, symmetric, required)

    def _bound_before(self, choice: Choice, number: int) -> bool:
        """Whether an earlier request of the claim is under one of the same constraints."""
        mine = set(choice.request.constraints)
        return any(
            not mine.isdisjoint(other.request.constraints)
            for step in self._steps[:number]
            for other in step
            if other.claim is choice.claim
        )

    # --- equivalence classes ---

    def _classify(self) -> None:
        traits: dict[Device, list[tuple[RequestCandidates, Candidate, Any]]] = {}
        for request_candidates in self._of.values():
            for candidate, mark in zip(
                request_candidates.candidates, _marks(request_candidates), strict=True
            ):
                traits.setdefault(candidate.device_in_pool.device, []).append(
                    (request_candidates, candidate, mark)
                )
        known: dict[Hashable, EquivalenceClass] = {}
        for device, of_device in traits.items():
            device_in_pool = of_device[0][1].device_in_pool
            shared = device.shared and self._state.features.consumable_capacity
            consumes_counters = tuple(
                (d.counter_set, tuple(d.amounts.items()), d.groups) for d in device.consumes_counters
            )
            consumed = device_in_pool.part.consumed.get(device.name)
            key = (
                tuple((id(p), c.compared, c.consumed_capacity.amounts, mark) for p, c, mark in of_device),
                (device_in_pool.pool.id, consumes_counters) if consumes_counters else None,
                (
                    shared,
                    tuple(consumed.items()) if consumed else None,
                    device.name in device_in_pool.part.shares,
                ),
            )
            equivalence_class = known.get(key)
            if equivalence_class is None:
                equivalence_class = known[key] = EquivalenceClass(
                    len(self.classes), device_in_pool, shared=shared
                )
                for request_candidates, candidate, _ in of_device:
                    request, claim = request_candidates.choice.request, request_candidates.choice.claim
                    for position, values in zip(request.constraints, candidate.compared, strict=False):
                        equivalence_class.values[claim.number, position] = values
                if shared:
                    equivalence_class.share_limits = _share_limits(
                        (candidate.consumed_capacity for _, candidate, _ in of_device), consumed or _NOTHING
                    )
                self.classes.append(equivalence_class)
            equivalence_class.size += equivalence_class.times()
            self._equivalence_class_of[device] = equivalence_class

    def equivalence_class_of(self, device: Device) -> EquivalenceClass:
        return self._equivalence_class_of[device]

    def equivalence_key(self, device_in_pool: DeviceInPool) -> Hashable:
        """Equal for devices that are equivalent right now: shared devices become different as they are used."""
        equivalence_class = self._equivalence_class_of[device_in_pool.device]
        if equivalence_class.shared and (share := self._state.shares.get(device_in_pool.device)) is not None:
            return equivalence_class.number, tuple(share.items())
        return equivalence_class.number

    # --- what is in use ---

    def device_allocated(self) -> None:
        """The search calls this after it has allocated a device."""
        self._count(1)

    def device_deallocating(self) -> None:
        """The search calls this before it takes the last device back."""
        self._count(-1)

    def _count(self, sign: int) -> None:
        state = self._state
        device_allocation = state.device_allocations[-1]
        device = device_allocation.device_in_pool.device
        equivalence_class = self._equivalence_class_of[device]
        if equivalence_class.shared:
            lost = equivalence_class.times(device_allocation.share or _NOTHING) - equivalence_class.times(
                state.shares[device]
            )
        else:
            # Administrators may use a device that is in use already.
            lost = len(state.in_flight[device]) == 1
        self.used[equivalence_class.number] += sign * lost

    def _relevance(self, number: int) -> _Relevance:
        """What matters from a step on: free devices up to what could be used of them, and the counters they need."""
        wanted: dict[int, int] = {}
        for step in self._steps[number:]:
            most: dict[int, int] = {}
            for choice in step:
                for candidate in self._of[choice].candidates:
                    equivalence_class = self._equivalence_class_of[candidate.device_in_pool.device]
                    most[equivalence_class.number] = max(most.get(equivalence_class.number, 0), choice.count)
            for class_number, count in most.items():
                wanted[class_number] = wanted.get(class_number, 0) + count
        needed_counters = {
            (self.classes[n].pool, counter): None
            for n in wanted
            for counter, _ in self.classes[n].consumes_counters
        }
        claim = self._steps[number][0].claim
        return _Relevance(
            [(self.classes[n], count) for n, count in wanted.items() if not self.classes[n].shared],
            list(needed_counters),
            number > 0 and self._steps[number - 1][0].claim is claim,
            any(len(step) > 1 for step in self._steps[:number] if step[0].claim is claim),
        )

    def key(self, number: int) -> Hashable:
        """All that the outcome of the search from a step on depends on, but for the names of devices."""
        state, used = self._state, self.used
        relevance = self._relevant.get(number)
        if relevance is None:
            relevance = self._relevant[number] = self._relevance(number)
        classes, needed_counters, begun, varied = relevance
        claim = self._steps[number][0].claim
        shares: Any = ()
        if state.shares:
            shares = tuple(
                sorted(
                    (self._equivalence_class_of[device].number, tuple(share.items()))
                    for device, share in state.shares.items()
                )
            )
        return (
            number,
            tuple(
                min(equivalence_class.size - used[equivalence_class.number], wanted)
                for equivalence_class, wanted in classes
            ),
            tuple((state.left(pool) or {}).get(counter) for pool, counter in needed_counters),
            shares,
            self._bindings(claim) if begun else None,
            state.results[claim.number] if varied else None,
            self._own(claim.number) if begun and self._admin else None,
            state.groups() if needed_counters else None,
        )

    def _bindings(self, claim: Claim) -> Hashable:
        """How constraints limit the rest of a claim."""
        states = self._state.constraints[claim.number]
        return tuple(c.signature(s) for c, s in zip(claim.demand.constraints, states, strict=True))

    def _own(self, claim: int) -> Hashable:
        """How many devices of each class the claim itself has: its requests with admin access cannot use those again."""
        counts: dict[int, int] = {}
        for device, users in self._state.in_flight.items():
            if claim in users:
                number = self._equivalence_class_of[device].number
                counts[number] = counts.get(number, 0) + 1
        return frozenset(counts.items())


class _Relevance(NamedTuple):
    classes: list[tuple[EquivalenceClass, int]]  # each with how many could be used
    needed_counters: list[tuple[Pool, Counter]]
    begun: bool  # the claim has devices already
    varied: bool  # how many devices the claim has depends on alternatives


def _share_limits(
    consumed_capacities: Iterable[consumable_capacity.ConsumedCapacity], consumed: Mapping[str, int]
) -> tuple[tuple[str, int, int], ...]:
    """What limits the number of shares of a device, whichever requests take them."""
    least: dict[str, tuple[int, int]] = {}
    for consumed_capacity in consumed_capacities:
        for name, amount, limit in consumed_capacity.amounts:
            least[name] = (limit - consumed.get(name, 0), min(amount, least.get(name, (0, amount))[1]))
    return tuple((name, left, amount) for name, (left, amount) in least.items() if amount > 0)


def _first_breach(choice: Choice, found: Sequence[Candidate]) -> int | None:
    """Where a request for all devices breaks its own constraints, if it comes first in its claim."""
    constraints = choice.claim.demand.constraints
    states: list[Any] = [None] * len(choice.request.constraints)
    for number, candidate in enumerate(found):
        for slot, position in enumerate(choice.request.constraints):
            values = candidate.compared[slot]
            state = (
                None
                if values is None
                else constraints[position].add(states[slot], choice.request.base, values)
            )
            if state is None:
                return number
            states[slot] = state
    return None


def _marks(request_candidates: RequestCandidates) -> list[Any]:
    """What sets devices apart where their order matters.

    Where an error may end the search, it matters whether a device is met before or after what causes the error.
    """
    choice, found = request_candidates.choice, request_candidates.candidates
    if not request_candidates.symmetric:
        return list(range(len(found)))
    if request_candidates.safe:
        return [None] * len(found)
    marks: list[Any] = []
    section = 0
    if choice.all_devices is None:
        for candidate in found:
            marks.append((section, candidate.error is not None))
            section += candidate.error is not None
        return marks
    # Of devices with the same known values only the first can break a constraint that wants them the same.
    constraints = choice.claim.demand.constraints
    matching = all(isinstance(constraints[p], MatchAttribute) for p in choice.request.constraints)
    seen: set[Compared] = set()
    for candidate in found:
        fresh = not matching or not all(candidate.compared) or candidate.compared not in seen
        seen.add(candidate.compared)
        section += fresh
        marks.append((section, fresh))
    return marks
