"""The search for devices. It finds the solution upstream would find first, without upstream's explosions.

Upstream tries, request by request and device by device in a fixed order, every combination until one works. The
same is done here in two stages. *First fit* walks straight down and takes the first device that can be taken: most
allocations end there. If it gets stuck, the *exhaustive* search starts over with everything known about every
device, and leaves out what cannot contain a solution:

- devices that differ only in name are of one kind: what failed with one of them fails with the others;
- what is left must be enough for what is still wanted (``bounds``);
- a state in which the rest failed once is not tried again.

Each of these keeps the order, so the first solution found is upstream's. An error ends upstream's search like a
solution does. So nothing is left out in front of a device whose selector would fail, nor in front of a request for
all devices that a constraint may turn into an error.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from enum import Enum
from typing import Any

from dray.allocation.bounds import Bounds
from dray.allocation.candidates import Candidates, Prospect
from dray.allocation.errors import AllocationError, AllocationTimeout
from dray.allocation.policies import DEFAULT, Policy
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
        policy: Policy = DEFAULT,
        deadline: float | None = None,
        monotonic: Clock | None = None,
    ) -> None:
        self._state = state
        self._policy = policy
        self._pools = pools
        self._deadline = deadline
        self._monotonic = monotonic
        self._arranged: list[Spot] | None = None
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

    def _spots(self) -> Iterable[Spot]:
        """All devices, in the order in which they are tried."""
        if self._policy.arrange is None:
            return self._in_order()
        if self._arranged is None:
            self._arranged = self._policy.arrange(list(self._in_order()), self._state.usage)
        return self._arranged

    def _in_order(self) -> Iterator[Spot]:
        part_of = self._state.usage.of
        for pool in self._pools:
            part = part_of(pool.id)
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
            if state.results[choice.claim.number] + choice.count > RESULTS_LIMIT:
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
        return (
            stuck == 0
            and len(self.steps[0]) == 1
            and (self.chosen[0].everything is not None or not self._state.placements)
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

    def __init__(
        self, search: Search, state: State, spots: list[Spot], check_clock: Callable[[], None]
    ) -> None:
        self._state = state
        self._steps = search.steps
        self._chosen = search.chosen
        self._check_clock = check_clock
        self._tick = 0
        self._candidates = Candidates(state, search.steps, spots)
        self._bounds = Bounds(state, search.steps, self._candidates)
        self._dead: dict[Any, Outcome] = {}
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
        """Whether these steps can be had at all, as if nothing had been chosen before them."""
        self._end = end
        found = self._descend(self._step(start)) is Outcome.FOUND
        while self._state.placements:
            self._undo()
        return found

    def _descend(self, descent: Descent) -> Outcome:
        # Descents may be deeper than Python's stack, so they are kept on one of our own.
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
        # Nothing leads back to where a descent started.
        key = self._candidates.key(number) if self._state.placements else None
        known = self._dead.get(key)
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
            if tried is Outcome.DEAD:
                outcome = tried
        if outcome is Outcome.TOO_MANY and opens_claim:
            # With other devices in the claims before, this one may do with an alternative that wants fewer.
            outcome = Outcome.DEAD
        if key is not None:
            self._dead[key] = outcome
        return outcome

    def _choose(self, number: int, prospect: Prospect) -> Descent:
        """One alternative of a request, and everything after it."""
        choice = prospect.choice
        if choice.everything is not None and not choice.everything:
            return Outcome.DEAD
        if choice.count and self._state.results[choice.claim.number] + choice.count > RESULTS_LIMIT:
            return Outcome.TOO_MANY
        if prospect.hopeless or self._bounds.exceeded(number, choice, choice.count):
            return Outcome.DEAD
        if choice.everything is None:
            return (yield self._slot(number, prospect, 0, choice.count, set()))
        return (yield self._all(number, prospect))

    def _all(self, number: int, prospect: Prospect) -> Descent:
        outcome = Outcome.DEAD
        taken = 0
        for candidate in prospect.candidates:
            if not take(self._state, prospect.choice, candidate.spot):
                break
            self._candidates.placed()
            taken += 1
        else:
            outcome = yield self._step(number + 1)
        if outcome is not Outcome.FOUND:
            for _ in range(taken):
                self._undo()
        return outcome

    def _slot(
        self, number: int, prospect: Prospect, start: int, missing: int, exhausted: set[Any]
    ) -> Descent:
        """The next device of a request, from some place on, leaving out those like one that failed before.

        What failed here is left out of later slots as well: with such a device there, the combination would be one
        that has been tried, but for the names of its devices.
        """
        if not missing:
            return (yield self._step(number + 1))
        state, candidates, choice = self._state, prospect.candidates, prospect.choice
        for position in range(start, len(candidates)):
            if prospect.safe and len(candidates) - position < missing:
                break
            spot, portion, _, error = candidates[position]
            if state.busy(choice, spot):
                continue
            if error is not None:
                raise error
            likeness = self._candidates.likeness(spot)
            if (
                likeness in exhausted
                or not state.fits(portion, spot)
                or not state.place(choice, spot, portion)
            ):
                continue
            self._count()
            self._candidates.placed()
            if self._bounds.exceeded(number, choice, missing - 1):
                outcome = Outcome.DEAD
            else:
                rest = set(exhausted) if prospect.symmetric else set()
                outcome = yield self._slot(number, prospect, position + 1, missing - 1, rest)
            if outcome is Outcome.FOUND:
                return outcome
            self._undo()
            if outcome is Outcome.TOO_MANY:
                return outcome
            exhausted.add(likeness)
        return Outcome.DEAD

    def _undo(self) -> None:
        self._candidates.undoing()
        self._state.undo()

    def _count(self) -> None:
        self._tick += 1
        if self._tick % _CLOCK_EVERY == 0:
            self._check_clock()
