"""The search for devices. It finds the solution upstream would find first, without upstream's explosions.

Upstream tries, request by request and device by device in a fixed order, every combination until one works. The
same is done here in two stages. *First fit* walks straight down and takes the first device that can be taken: most
allocations end there. If it gets stuck, the *exhaustive* search starts over with everything known about every
device, and leaves out what cannot contain a solution:

- devices that differ only in name are one class: what failed with one of them fails with the others;
- what is left must be enough for what is still wanted (``bounds``);
- a state in which the rest failed once is not tried again.

Each of these keeps the order, so the first solution found is upstream's. An error ends upstream's search like a
solution does. So nothing is left out in front of a device whose selector would fail, nor in front of a request for
all devices that a constraint may turn into an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from enum import Enum
from typing import Any

from dray.allocation import capacity
from dray.allocation.bounds import Bounds
from dray.allocation.candidates import Candidate, Candidates
from dray.allocation.errors import AllocationError, AllocationTimeout
from dray.allocation.pools import Pool
from dray.allocation.requests import RESULTS_LIMIT, Request
from dray.allocation.state import Choice, Claim, Spot, State

Clock = Callable[[], float]
Step = tuple[Choice, ...]  # the alternatives of one request, best first

_CLOCK_EVERY = 64  # placements


class Outcome(Enum):
    FOUND = 1
    DEAD = 2
    TOO_MANY = 3  # whatever is chosen, the claim gets more devices than it may have


class Search:
    def __init__(
        self,
        state: State,
        pools: Sequence[Pool],
        claims: Sequence[Claim],
        *,
        deadline: float | None = None,
        monotonic: Clock | None = None,
    ) -> None:
        self._state = state
        self._pools = pools
        self._claims = claims
        self._deadline = deadline
        self._monotonic = monotonic
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
            step = tuple(self._choice(claim, request) for request in alternatives)
            fewest += min(choice.count for choice in step)
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
            choice.everything = list(self._everything(choice))
            choice.count = len(choice.everything)
        return choice

    def _everything(self, choice: Choice) -> Iterator[Spot]:
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
                spot = Spot(device, pool, part)
                if not state.selects(choice, spot):
                    continue
                portion = state.portion(choice, spot)
                # 1.36 leaves out devices whose capacity is used up; 1.37 fails because of them.
                if portion is not None and (state.features.release >= 37 or state.fits(portion, spot)):
                    yield spot

    def _spots(self) -> Iterator[Spot]:
        for pool in self._pools:
            part = self._state.usage.of(pool.id)
            for device in pool.devices:
                yield Spot(device, pool, part)

    # --- the search ---

    def run(self) -> bool:
        """Find the first solution and leave it in the state; False if there is none."""
        if self._first_fit():
            return True
        if self._certain():
            return False
        while self._state.placements:
            self._state.undo()
        return Exhaustive(self, self._state, list(self._spots()), self._check_clock).run()

    def _check_clock(self) -> None:
        if self._deadline is not None and self._monotonic is not None and self._monotonic() > self._deadline:
            raise AllocationTimeout

    def _first_fit(self) -> bool:
        state = self._state
        self._check_clock()
        for alternatives in self.steps:
            choice = alternatives[0]
            self.chosen.append(choice)
            if state.results[choice.claim.index] + choice.count > RESULTS_LIMIT:
                return False
            fitted = self._fit_all(choice) if choice.everything is not None else self._fit(choice)
            if not fitted:
                return False
        return True

    def _fit_all(self, choice: Choice) -> bool:
        assert choice.everything is not None
        return bool(choice.everything) and all(take(self._state, choice, spot) for spot in choice.everything)

    def _fit(self, choice: Choice) -> bool:
        state = self._state
        missing = choice.count
        if not missing:
            return True
        for spot in self._spots():
            if state.busy(choice, spot) or not state.selects(choice, spot):
                continue
            portion = state.portion(choice, spot)
            if (
                portion is not None
                and state.fits(portion, spot)
                and state.allowed(choice, spot.device)
                and state.place(choice, spot, portion)
            ):
                missing -= 1
                if not missing:
                    return True
        return False

    def _certain(self) -> bool:
        """Whether first fit had no choice up to where it got stuck."""
        stuck = len(self.chosen) - 1
        return stuck == 0 and len(self.steps[0]) == 1 and (
            self.chosen[0].everything is not None or not self._state.placements
        )


def take(state: State, choice: Choice, spot: Spot) -> bool:
    """Give a request for all devices one of them."""
    if state.busy(choice, spot) or not state.allowed(choice, spot.device):
        return False
    portion = state.portion(choice, spot)
    return portion is not None and state.place(choice, spot, portion, must=True)


Descent = Generator["Descent", Outcome, Outcome]


class Exhaustive:
    """All combinations, less those that cannot work. See the module for why the order is kept."""

    def __init__(self, search: Search, state: State, spots: list[Spot], check_clock: Callable[[], None]) -> None:
        self._state = state
        self._steps = search.steps
        self._chosen = search.chosen
        self._check_clock = check_clock
        self._tick = 0
        self._candidates = Candidates(state, search.steps, spots)
        self._bounds = Bounds(state, search.steps, self._candidates)
        self._dead: dict[Any, Outcome] = {}

    def run(self) -> bool:
        self._chosen.clear()
        # Descents may be deeper than Python's stack, so they are kept on one of our own.
        stack: list[Descent] = [self._step(0)]
        outcome: Outcome | None = None
        while stack:
            try:
                deeper = stack[-1].send(outcome) if outcome is not None else next(stack[-1])
            except StopIteration as end:
                stack.pop()
                outcome = end.value
            else:
                stack.append(deeper)
                outcome = None
        return outcome is Outcome.FOUND

    def _step(self, index: int) -> Descent:
        """Everything from one request on."""
        if index == len(self._steps):
            return Outcome.FOUND
        key = self._candidates.key(index)
        known = self._dead.get(key)
        if known is not None:
            return known
        first_of_claim = index > 0 and self._steps[index - 1][0].claim is not self._steps[index][0].claim
        outcome = Outcome.TOO_MANY
        for choice in self._steps[index]:
            self._chosen.append(choice)
            tried = yield self._choose(index, choice)
            if tried is Outcome.FOUND:
                return tried
            self._chosen.pop()
            if tried is Outcome.DEAD:
                outcome = tried
        if outcome is Outcome.TOO_MANY and first_of_claim:
            # Claims before this one may have left it other alternatives.
            outcome = Outcome.DEAD
        self._dead[key] = outcome
        return outcome

    def _choose(self, index: int, choice: Choice) -> Descent:
        state = self._state
        if choice.everything is not None and not choice.everything:
            return Outcome.DEAD
        if choice.count and state.results[choice.claim.index] + choice.count > RESULTS_LIMIT:
            return Outcome.TOO_MANY
        if self._bounds.exceeded(index, choice, choice.count):
            return Outcome.DEAD
        if choice.everything is None:
            candidates = self._candidates.of(choice)
            return (yield self._slot(index, choice, candidates, 0, choice.count, set()))
        placed = 0
        for spot in choice.everything:
            if not take(state, choice, spot):
                break
            self._candidates.count(spot, 1)
            placed += 1
        else:
            outcome = yield self._step(index + 1)
            if outcome is Outcome.FOUND:
                return outcome
        for spot in reversed(choice.everything[:placed]):
            state.undo()
            self._candidates.count(spot, -1)
        return Outcome.DEAD if placed < choice.count else outcome

    def _slot(
        self, index: int, choice: Choice, candidates: list[Candidate], start: int, missing: int, exhausted: set[Any]
    ) -> Descent:
        """The next device of a request, from some place on, leaving out classes of which one member failed before.

        A class that failed here is left out of later slots as well: with one of its members there, the combination
        would be one that has been tried, but for the names of its devices.
        """
        if not missing:
            return (yield self._step(index + 1))
        state, classes, bounds = self._state, self._candidates, self._bounds
        safe = classes.safe(choice)
        symmetric = classes.symmetric(choice)
        for position in range(start, len(candidates)):
            candidate = candidates[position]
            if safe and len(candidates) - position < missing:
                break
            spot = candidate.spot
            if state.busy(choice, spot):
                continue
            if candidate.error is not None:
                raise candidate.error
            kind = classes.kind(spot)
            if kind in exhausted:
                continue
            if not state.fits(candidate.portion, spot) or not state.place(choice, spot, candidate.portion):
                continue
            self._tick += 1
            if self._tick % _CLOCK_EVERY == 0:
                self._check_clock()
            classes.count(spot, 1)
            if bounds.exceeded(index, choice, missing - 1):
                outcome = Outcome.DEAD
            else:
                rest = set(exhausted) if symmetric else set()
                outcome = yield self._slot(index, choice, candidates, position + 1, missing - 1, rest)
            if outcome is Outcome.FOUND:
                return outcome
            state.undo()
            classes.count(spot, -1)
            if outcome is Outcome.TOO_MANY:
                return outcome
            exhausted.add(kind)
        return Outcome.DEAD
