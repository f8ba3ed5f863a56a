"""The search for devices. It finds the solution that upstream finds first, without upstream's exponential times.

Upstream tries, request by request and device by device in a fixed order, every combination until one works. This
search has two stages. *First fit* takes for each request the first devices that fit: most allocations end there. If it
fails, the *exhaustive* search starts over with everything known about every device, and leaves out combinations that
cannot contain a solution:

- Devices that differ only in name are one equivalence class: what failed with one of them fails with the others.
- What is left must be enough for what is still wanted (``bounds``).
- A state in which the remaining requests failed once is not tried again.

Each of these rules keeps the order, so the first solution found is upstream's. An error ends upstream's search like a
solution does. So the search leaves out nothing before a device whose selector would fail, and nothing before a request
for all devices that a constraint may turn into an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from dray.allocation.errors import AllocationError, AllocationTimeout
from dray.allocation.policies import DEFAULT, Policy
from dray.allocation.pools import Pool
from dray.allocation.requests import RESULTS_LIMIT, Request
from dray.allocation.search.bounds import Bounds
from dray.allocation.search.candidates import Candidates, RequestCandidates
from dray.allocation.search.state import AllocationState, Choice, Claim, DeviceInPool

Clock = Callable[[], float]
Step = tuple[Choice, ...]  # the alternatives of one request, best first

_CLOCK_EVERY = 64  # devices tried


class Outcome(Enum):
    FOUND = 1
    FAILED = 2  # no choice of devices works
    TOO_MANY = 3  # whatever is chosen, the claim gets more devices than it may have


class Search:
    __slots__ = (
        "_arranged", "_deadline", "_monotonic", "_policy", "_pools", "_state", "chosen", "steps",
    )  # fmt: skip

    def __init__(
        self,
        state: AllocationState,
        pools: Sequence[Pool],
        claims: Sequence[Claim],
        *,
        policy: Policy = DEFAULT,
        deadline: float | None = None,
        monotonic: Clock | None = None,
    ) -> None:
        self._state = state
        self._policy = policy
        self._pools = pools
        self._deadline = deadline
        self._monotonic = monotonic
        self._arranged: list[DeviceInPool] | None = None
        self.steps: list[Step] = []
        #: for each step the alternative that was taken
        self.chosen: list[Choice] = []
        for claim in claims:
            self._prepare(claim)

    # --- preparation ---

    def _prepare(self, claim: Claim) -> None:
        """Check a claim, and find out what "all devices" means for it."""
        fewest = 0
        for alternatives in claim.demand.requests:
            step = tuple([self._choice(claim, request) for request in alternatives])
            fewest += step[0].count if len(step) == 1 else min([choice.count for choice in step])
            self.steps.append(step)
        if fewest > RESULTS_LIMIT:
            raise AllocationError(
                f"claim {claim.name}: number of requested devices {fewest} exceeds the claim limit of {RESULTS_LIMIT}"
            )
        if claim.demand.problem:
            raise AllocationError(f"claim {claim.name}{claim.demand.problem}")

    def _choice(self, claim: Claim, request: Request) -> Choice:
        if request.problem:
            raise AllocationError(f"claim {claim.name}{request.problem}")
        choice = Choice(claim, request)
        if request.all:
            choice.all_devices = list(self._all_devices(choice))
            choice.count = len(choice.all_devices)
        return choice

    def _all_devices(self, choice: Choice) -> Iterator[DeviceInPool]:
        state = self._state
        for pool in self._pools:
            if not pool.usable:
                trouble = "being updated" if pool.incomplete else "invalid"
                raise AllocationError(
                    f"claim {choice.claim.name}, request {choice.request.name}: asks for all devices, "
                    f"but resource pool {pool.id} is currently {trouble}"
                )
            part = state.usage.of(pool.id)
            for device in pool.devices:
                device_in_pool = DeviceInPool(device, pool, part)
                if not state.selects(choice, device_in_pool):
                    continue
                consumed_capacity = state.consumed_capacity(choice, device_in_pool)
                if consumed_capacity is not None and (
                    state.features.counts_full_devices_in_all or state.fits(consumed_capacity, device_in_pool)
                ):
                    yield device_in_pool

    def _devices_in_pools(self) -> Iterable[DeviceInPool]:
        """All devices in the order of the policy."""
        if self._policy.arrange is None:
            return self._in_order()
        if self._arranged is None:
            self._arranged = self._policy.arrange(list(self._in_order()), self._state.usage)
        return self._arranged

    def _in_order(self) -> Iterator[DeviceInPool]:
        part_of = self._state.usage.of
        for pool in self._pools:
            part = part_of(pool.id)
            for device in pool.devices:
                yield DeviceInPool(device, pool, part)

    def _not_taken(self) -> Iterator[DeviceInPool]:
        """The devices in order without those that claims have to themselves, of which there may be many."""
        part_of = self._state.usage.of
        for pool in self._pools:
            part = part_of(pool.id)
            taken = part.taken
            for device in pool.devices:
                if device.name not in taken:
                    yield DeviceInPool(device, pool, part)

    # --- the search ---

    def run(self) -> bool:
        """Find the first solution and leave it in the state; False if there is none."""
        if self._first_fit():
            return True
        if self._certain():
            return False
        while self._state.device_allocations:
            self._state.deallocate_device()
        return Exhaustive(self, self._state, list(self._devices_in_pools()), self._check_clock).run()

    def _check_clock(self) -> None:
        if self._deadline is not None and self._monotonic is not None and self._monotonic() > self._deadline:
            raise AllocationTimeout

    def _first_fit(self) -> bool:
        state = self._state
        self._check_clock()
        for alternatives in self.steps:
            choice = alternatives[0]
            self.chosen.append(choice)
            if state.results[choice.claim.number] + choice.count > RESULTS_LIMIT:
                return False
            fitted = self._fit_all(choice) if choice.all_devices is not None else self._fit(choice)
            if not fitted:
                return False
        return True

    def _fit_all(self, choice: Choice) -> bool:
        assert choice.all_devices is not None
        return bool(choice.all_devices) and all(
            allocate_required(self._state, choice, device_in_pool) for device_in_pool in choice.all_devices
        )

    def _fit(self, choice: Choice) -> bool:
        state = self._state
        missing = choice.count
        if not missing:
            return True
        untaken = self._policy.arrange is None and not choice.request.admin
        for device_in_pool in self._not_taken() if untaken else self._devices_in_pools():
            if state.in_use(choice, device_in_pool) or not state.selects(choice, device_in_pool):
                continue
            consumed_capacity = state.consumed_capacity(choice, device_in_pool)
            if (
                consumed_capacity is not None
                and state.fits(consumed_capacity, device_in_pool)
                and state.allowed(choice, device_in_pool.device)
                and state.allocate_device(choice, device_in_pool, consumed_capacity)
            ):
                missing -= 1
                if not missing:
                    return True
        return False

    def _certain(self) -> bool:
        """Whether first fit had no choice up to the request at which it failed."""
        stuck = len(self.chosen) - 1
        return (
            stuck == 0
            and len(self.steps[0]) == 1
            and (self.chosen[0].all_devices is not None or not self._state.device_allocations)
        )


def allocate_required(state: AllocationState, choice: Choice, device_in_pool: DeviceInPool) -> bool:
    """Give a request for all devices one of them."""
    if state.in_use(choice, device_in_pool) or not state.allowed(choice, device_in_pool.device):
        return False
    consumed_capacity = state.consumed_capacity(choice, device_in_pool)
    return consumed_capacity is not None and state.allocate_device(
        choice, device_in_pool, consumed_capacity, must=True
    )


Descent = Generator["Descent", Outcome, Outcome]


class Exhaustive:
    """The search through all combinations but those that cannot work. The module says how the order is kept."""

    def __init__(
        self,
        search: Search,
        state: AllocationState,
        devices_in_pools: list[DeviceInPool],
        check_clock: Callable[[], None],
    ) -> None:
        self._state = state
        self._steps = search.steps
        self._chosen = search.chosen
        self._check_clock = check_clock
        self._tick = 0
        self._candidates = Candidates(state, search.steps, devices_in_pools)
        self._bounds = Bounds(state, search.steps, self._candidates)
        self._failed: dict[Any, Outcome] = {}
        self._end = len(search.steps)

    def run(self) -> bool:
        if not all(self._possible(start, end) for start, end in self._parts()):
            return False
        self._end = len(self._steps)
        return self._descend(self._step(0)) is Outcome.FOUND

    def _parts(self) -> Iterator[tuple[int, int]]:
        """Each claim but the first, with what follows it, up to the first step that may end in an error."""
        steps = self._steps
        end = 0
        while end < len(steps) and all(self._candidates.of(choice).safe for choice in steps[end]):
            end += 1
        for start in range(end - 1, 0, -1):
            if steps[start][0].claim is not steps[start - 1][0].claim:
                yield start, end

    def _possible(self, start: int, end: int) -> bool:
        """Whether these steps have a solution by themselves, as if nothing had been chosen before them."""
        self._end = end
        found = self._descend(self._step(start)) is Outcome.FOUND
        while self._state.device_allocations:
            self._deallocate_device()
        return found

    def _descend(self, descent: Descent) -> Outcome:
        # Descents may be deeper than Python's stack, so they are kept in a list.
        self._chosen.clear()
        stack = [descent]
        outcome: Outcome | None = None
        while stack:
            try:
                deeper = stack[-1].send(outcome) if outcome is not None else next(stack[-1])
            except StopIteration as finished:
                stack.pop()
                outcome = finished.value
            else:
                stack.append(deeper)
                outcome = None
        assert outcome is not None
        return outcome

    def _step(self, number: int) -> Descent:
        """Everything from one request on."""
        if number == self._end:
            return Outcome.FOUND
        # The state that a descent starts with does not come again.
        key = self._candidates.key(number) if self._state.device_allocations else None
        known = self._failed.get(key)
        if known is not None:
            return known
        opens_claim = number > 0 and self._steps[number - 1][0].claim is not self._steps[number][0].claim
        outcome = Outcome.TOO_MANY
        for choice in self._steps[number]:
            self._chosen.append(choice)
            tried = yield self._choose(number, self._candidates.of(choice))
            if tried is Outcome.FOUND:
                return tried
            self._chosen.pop()
            if tried is Outcome.FAILED:
                outcome = tried
        if outcome is Outcome.TOO_MANY and opens_claim:
            # With other devices in the claims before, this claim may take an alternative that wants fewer devices.
            outcome = Outcome.FAILED
        if key is not None:
            self._failed[key] = outcome
        return outcome

    def _choose(self, number: int, request_candidates: RequestCandidates) -> Descent:
        """One alternative of a request, and everything after it."""
        choice = request_candidates.choice
        if choice.all_devices is not None and not choice.all_devices:
            return Outcome.FAILED
        if choice.count and self._state.results[choice.claim.number] + choice.count > RESULTS_LIMIT:
            return Outcome.TOO_MANY
        if request_candidates.impossible or self._bounds.exceeded(number, choice, choice.count):
            return Outcome.FAILED
        if choice.all_devices is None:
            return (yield self._slot(number, request_candidates, 0, choice.count, set()))
        return (yield self._all(number, request_candidates))

    def _all(self, number: int, request_candidates: RequestCandidates) -> Descent:
        outcome = Outcome.FAILED
        taken = 0
        for candidate in request_candidates.candidates:
            if not allocate_required(self._state, request_candidates.choice, candidate.device_in_pool):
                break
            self._candidates.device_allocated()
            taken += 1
        else:
            outcome = yield self._step(number + 1)
        if outcome is not Outcome.FOUND:
            for _ in range(taken):
                self._deallocate_device()
        return outcome

    def _slot(
        self,
        number: int,
        request_candidates: RequestCandidates,
        start: int,
        missing: int,
        exhausted: set[Any],
    ) -> Descent:
        """The next device of a request, from position ``start`` on, without devices equivalent to one that failed.

        A device that failed here is left out of later slots as well: a combination with it there would differ from
        one that has been tried only by the names of its devices.
        """
        if not missing:
            return (yield self._step(number + 1))
        state, candidates, choice = self._state, request_candidates.candidates, request_candidates.choice
        for position in range(start, len(candidates)):
            if request_candidates.safe and len(candidates) - position < missing:
                break
            device_in_pool, consumed_capacity, _, error = candidates[position]
            if state.in_use(choice, device_in_pool):
                continue
            if error is not None:
                raise error
            equivalence_key = self._candidates.equivalence_key(device_in_pool)
            if (
                equivalence_key in exhausted
                or not state.fits(consumed_capacity, device_in_pool)
                or not state.allocate_device(choice, device_in_pool, consumed_capacity)
            ):
                continue
            self._count()
            self._candidates.device_allocated()
            if self._bounds.exceeded(number, choice, missing - 1):
                outcome = Outcome.FAILED
            else:
                rest = set(exhausted) if request_candidates.symmetric else set()
                outcome = yield self._slot(number, request_candidates, position + 1, missing - 1, rest)
            if outcome is Outcome.FOUND:
                return outcome
            self._deallocate_device()
            if outcome is Outcome.TOO_MANY:
                return outcome
            exhausted.add(equivalence_key)
        return Outcome.FAILED

    def _deallocate_device(self) -> None:
        self._candidates.device_deallocating()
        self._state.deallocate_device()

    def _count(self) -> None:
        self._tick += 1
        if self._tick % _CLOCK_EVERY == 0:
            self._check_clock()
