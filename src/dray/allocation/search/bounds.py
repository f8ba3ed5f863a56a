"""Is what is left enough for what is still wanted? Necessary conditions, checked before going deeper.

Requests compete for devices. If some of the remaining requests together want more devices than there are for any of
them, the search is over here (Hall's condition). Some things make the count sharper: of devices that draw from the
same counter only so many fit into what is left of it; a shared device counts as often as its smallest share fits;
where devices must share a value of an attribute, there must be a value for which everything else still holds; and
where they must differ, there must be values enough to differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from dray.allocation.attributes import Values
from dray.allocation.constraints import DistinctAttribute, MatchAttribute
from dray.allocation.counters import Counter
from dray.allocation.pools import Pool
from dray.allocation.search.candidates import (
    Candidates,
    ConstraintKey,
    EquivalenceClass,
    RequestCandidates,
    Steps,
)
from dray.allocation.search.state import AllocationState, Choice

Fixed = tuple[tuple[ConstraintKey, Any], ...]  # constraints, each with the value all must have

_MOST_GROUPS = 6  # subsets of more are too many to look at; pairs and all together must do
_MOST_VALUES = 64  # combinations of values


class Requirement(NamedTuple):
    """So many devices of some kinds."""

    devices: int
    kinds: frozenset[int]


_NO_VALUE: tuple[Any, ...] = (None,)  # where no device has the attribute, requests that need it get none
_NOTHING = Requirement(0, frozenset())
_IMPOSSIBLE = Requirement(1, frozenset())


class CounterConsumers(NamedTuple):
    """Kinds that draw from one counter."""

    pool: Pool
    counter: Counter
    amounts: tuple[tuple[int, int], ...]  # amount and kind, least first


class HallCondition(NamedTuple):
    """Some requests must not want more than their kinds have left."""

    wanted: int  # by requests to come
    current: bool  # the request at hand is among them
    free: tuple[int, ...]  # kinds that draw from no counter
    drawing: tuple[CounterConsumers, ...]  # the others


class Bounds:
    def __init__(self, state: AllocationState, steps: Steps, candidates: Candidates) -> None:
        self._state = state
        self._steps = steps
        self._candidates = candidates
        self._tests: dict[tuple[Choice, Fixed], list[HallCondition]] = {}
        self._wants: dict[tuple[int, Fixed], Requirement | None] = {}
        self._binding: dict[Choice, dict[ConstraintKey, None]] = {}
        self._later: dict[tuple[int, int, int], int] = {}
        self._spectrum: dict[ConstraintKey, Values | None] = {}
        self._windows = [self._window(index) for index in range(len(steps))]
        self._counter: dict[int, Counter] = {
            kind.number: self._tightest(kind) for kind in candidates.kinds if kind.consumes_counters
        }

    def _window(self, index: int) -> range:
        """The steps after this one that the search reaches without a chance of an error, and the first that has one."""
        end = index + 1
        while end < len(self._steps) and self._calm(end):
            end += 1
        return range(index + 1, min(end + 1, len(self._steps)))

    def _calm(self, step: int) -> bool:
        return all(self._candidates.of(choice).safe for choice in self._steps[step])

    def _tightest(self, kind: EquivalenceClass) -> Counter:
        left = self._state.left(kind.pool) or {}
        return max(
            kind.consumes_counters, key=lambda draw: draw[1] / left[draw[0]] if left.get(draw[0]) else 0.0
        )[0]

    def exceeded(self, index: int, choice: Choice, missing: int) -> bool:
        """Whether there is no way to serve this choice's missing devices and all steps in the window."""
        if not self._candidates.of(choice).safe:
            return False
        if self._crowded(index, choice, missing):
            return True
        keys = self._constraints(index, choice)
        if not keys:
            return not self._holds(index, choice, missing, ())
        options = [[(key, value) for value in values or _NO_VALUE] for key, values in keys]
        return not any(self._holds(index, choice, missing, fixed) for fixed in product(*options))

    def _crowded(self, index: int, choice: Choice, missing: int) -> bool:
        """Whether devices that must differ are more than the values left to tell them apart by."""
        constraints, number = choice.claim.demand.constraints, choice.claim.number
        for position in choice.request.constraints:
            constraint = constraints[position]
            spectrum = (
                self._all_values((number, position)) if isinstance(constraint, DistinctAttribute) else None
            )
            if isinstance(constraint, DistinctAttribute) and spectrum is not None:
                wanted = constraint.wanted(missing) + self._wanted_later(index, number, position)
                state = self._state.constraints[number][position]
                taken = constraint.taken(state, choice.request.base if missing else None)
                if wanted > len(spectrum - taken):
                    return True
        return False

    def _wanted_later(self, index: int, claim: int, position: int) -> int:
        """How many devices of later steps must differ from all others under a constraint."""
        key = (index, claim, position)
        if key not in self._later:
            total = 0
            for step in self._windows[index]:
                choices = self._steps[step]
                if choices[0].claim.number == claim and self._calm(step):
                    constraint = choices[0].claim.demand.constraints[position]
                    assert isinstance(constraint, DistinctAttribute)
                    total += min(
                        constraint.wanted(c.count) if position in c.request.constraints else 0
                        for c in choices
                    )
            self._later[key] = total
        return self._later[key]

    def _constraints(self, index: int, choice: Choice) -> list[tuple[ConstraintKey, Values]]:
        """The constraints to be met, each with the values that are possible for it."""
        if choice not in self._binding:
            later = (c for i in self._windows[index] if self._calm(i) for c in self._steps[i])
            self._binding[choice] = dict.fromkeys(
                (one.claim.number, position)
                for one in (choice, *later)
                for position in one.request.constraints
                if isinstance(one.claim.demand.constraints[position], MatchAttribute)
            )
        found = []
        room = _MOST_VALUES
        for key in self._binding[choice]:
            values = self._possible(key)
            if values is not None and len(values) <= room:
                found.append((key, values))
                room //= max(len(values), 1)
        return found

    def _possible(self, key: ConstraintKey) -> Values | None:
        settled: Values | None = self._state.constraints[key[0]][key[1]]
        if settled is not None:
            return settled or None
        return self._all_values(key)

    def _all_values(self, key: ConstraintKey) -> Values | None:
        """All values that devices have for a constraint; None if that cannot be told."""
        if key not in self._spectrum:
            of_kinds = [v for kind in self._candidates.kinds if (v := kind.values.get(key)) is not None]
            # A device whose value is of unknown type goes with no other, but it may go alone.
            self._spectrum[key] = frozenset[Any]().union(*of_kinds) if all(of_kinds) else None
        return self._spectrum[key]

    def _holds(self, index: int, choice: Choice, missing: int, fixed: Fixed) -> bool:
        tests = self._tests.get((choice, fixed))
        if tests is None:
            tests = self._tests[choice, fixed] = self._make(index, choice, fixed)
        kinds, used = self._candidates.kinds, self._candidates.used
        for wanted, current, free, drawing in tests:
            need = wanted + missing if current else wanted
            for number in free:
                need -= kinds[number].size - used[number]
            if need <= 0:
                continue
            for pool, counter, amounts in drawing:
                left = self._state.left(pool)
                need -= _fitting(left[counter] if left else 0, amounts, kinds, used)
                if need <= 0:
                    break
            if need > 0:
                return False
        return True

    def _make(self, index: int, choice: Choice, fixed: Fixed) -> list[HallCondition]:
        merged: dict[frozenset[int], int] = {}
        for step in self._windows[index]:
            want = self._want(step, fixed)
            if want is not None:
                merged[want.kinds] = merged.get(want.kinds, 0) + want.devices
        shared, own = self._kinds_for(self._candidates.of(choice), fixed)
        counts_own = not choice.request.admin and not shared
        wants = [(Requirement(count, kinds), False) for kinds, count in merged.items()]
        if counts_own:
            wants.append((Requirement(0, own), True))
        return [self._test(group) for group in _groups(wants)]

    def _want(self, step: int, fixed: Fixed) -> Requirement | None:
        """What a later step wants at the least, whichever alternative it takes; None: maybe nothing."""
        key = (step, fixed)
        if key not in self._wants:
            prospects = [self._candidates.of(choice) for choice in self._steps[step]]
            wants = [self._least(prospect, fixed) for prospect in prospects if not prospect.hopeless]
            if not wants:
                self._wants[key] = _IMPOSSIBLE
            else:
                count = min(want.devices for want in wants)
                kinds = frozenset[int]().union(*(want.kinds for want in wants))
                self._wants[key] = Requirement(count, kinds) if count else None
        return self._wants[key]

    def _least(self, prospect: RequestCandidates, fixed: Fixed) -> Requirement:
        choice = prospect.choice
        if choice.request.admin:
            return _NOTHING
        if prospect.safe:
            shared, kinds = self._kinds_for(prospect, fixed)
            return Requirement(max(choice.count - shared, 0), kinds)
        # It may end in an error, but only if these devices are free. The last of them is where the error is: that
        # one's capacity is not looked at any more.
        required = [
            self._candidates.equivalence_class_of(c.device_in_pool.device)
            for c in prospect.candidates[: prospect.required]
        ]
        limited = [kind.number for kind in required[:-1] if not kind.unlimited]
        limited += [kind.number for kind in required[-1:] if not kind.shared]
        return Requirement(len(limited), frozenset(limited))

    def _kinds_for(self, prospect: RequestCandidates, fixed: Fixed) -> tuple[int, frozenset[int]]:
        """How many devices that never run out an alternative may use, and which kinds of others."""
        choice = prospect.choice
        required = [
            (key, value)
            for key, value in fixed
            if key[0] == choice.claim.number and key[1] in choice.request.constraints
        ]
        shared, kinds = 0, set()
        for candidate in prospect.candidates:
            kind = self._candidates.equivalence_class_of(candidate.device_in_pool.device)
            if all(value in (kind.values.get(key) or ()) for key, value in required):
                if kind.unlimited:
                    shared += 1
                else:
                    kinds.add(kind.number)
        return shared, frozenset(kinds)

    def _test(self, group: Iterable[tuple[Requirement, bool]]) -> HallCondition:
        wanted, current, numbers = 0, False, set[int]()
        for want, own in group:
            wanted += want.devices
            current = current or own
            numbers |= want.kinds
        free: list[int] = []
        drawing: dict[tuple[Pool, Counter], list[tuple[int, int]]] = {}
        for number in numbers:
            kind = self._candidates.kinds[number]
            if not kind.consumes_counters or kind.shared:  # only the first share of a device draws
                free.append(number)
                continue
            counter = self._counter[number]
            drawing.setdefault((kind.pool, counter), []).append(
                (dict(kind.consumes_counters)[counter], number)
            )
        return HallCondition(
            wanted,
            current,
            tuple(free),
            tuple(CounterConsumers(p, c, tuple(sorted(amounts))) for (p, c), amounts in drawing.items()),
        )


def _groups(wants: Sequence[tuple[Requirement, bool]]) -> Iterable[tuple[tuple[Requirement, bool], ...]]:
    sizes = range(1, len(wants) + 1) if len(wants) <= _MOST_GROUPS else (1, 2, len(wants))
    for size in sizes:
        yield from combinations(wants, size)


def _fitting(
    left: int, amounts: Sequence[tuple[int, int]], kinds: Sequence[EquivalenceClass], used: Sequence[int]
) -> int:
    """How many of these devices fit into what is left of their counter, the cheapest first."""
    total = 0
    for amount, number in amounts:
        free = kinds[number].size - used[number]
        if amount * free > left:
            return total + left // amount
        left -= amount * free
        total += free
    return total
