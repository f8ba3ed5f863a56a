"""Necessary conditions for a solution, checked before the search goes deeper: what is left must be enough.

Requests compete for devices. If some of the remaining requests together want more devices than there are for any of
them, there is no solution from here (Hall's condition). The count is sharper than that: of devices that consume the
same counter only so many fit into what is left of it; a shared device counts as often as its smallest share fits;
where devices must share a value of an attribute, there must be a value for which everything else still holds; and
where they must differ, there must be values enough to differ by.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import combinations, product
from typing import Any, NamedTuple

from dray.allocation.attributes import Values
from dray.allocation.constraints import DistinctConstraint, MatchAttribute
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
    """A number of devices that must come from some equivalence classes."""

    devices: int
    classes: frozenset[int]


_NO_VALUE: tuple[Any, ...] = (None,)  # where no device has the attribute, requests that need it get none
_NOTHING = Requirement(0, frozenset())
_IMPOSSIBLE = Requirement(1, frozenset())


class CounterConsumers(NamedTuple):
    """The equivalence classes that consume one counter."""

    pool: Pool
    counter: Counter
    amounts: tuple[tuple[int, int], ...]  # amount and number of the class, least first


class HallCondition(NamedTuple):
    """Some requests must not want more devices than their equivalence classes have left."""

    wanted: int  # by requests to come
    current: bool  # the request at hand is among them
    free: tuple[int, ...]  # classes that consume no counter
    consumers: tuple[CounterConsumers, ...]  # the others


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
            equivalence_class.number: self._tightest(equivalence_class)
            for equivalence_class in candidates.classes
            if equivalence_class.consumes_counters
        }

    def _window(self, index: int) -> range:
        """The steps after this one that the search reaches without a chance of an error, and the first that has one."""
        end = index + 1
        while end < len(self._steps) and self._safe(end):
            end += 1
        return range(index + 1, min(end + 1, len(self._steps)))

    def _safe(self, step: int) -> bool:
        return all(self._candidates.of(choice).safe for choice in self._steps[step])

    def _tightest(self, equivalence_class: EquivalenceClass) -> Counter:
        left = self._state.left(equivalence_class.pool) or {}
        return max(
            equivalence_class.consumes_counters, key=lambda c: c[1] / left[c[0]] if left.get(c[0]) else 0.0
        )[0]

    def exceeded(self, index: int, choice: Choice, missing: int) -> bool:
        """Whether there is no way to serve this choice's missing devices and all steps in the window."""
        if not self._candidates.of(choice).safe:
            return False
        if self._too_few_values(index, choice, missing):
            return True
        keys = self._constraints(index, choice)
        if not keys:
            return not self._holds(index, choice, missing, ())
        options = [[(key, value) for value in values or _NO_VALUE] for key, values in keys]
        return not any(self._holds(index, choice, missing, fixed) for fixed in product(*options))

    def _too_few_values(self, index: int, choice: Choice, missing: int) -> bool:
        """Whether more devices must differ than there are values left for them."""
        constraints, number = choice.claim.demand.constraints, choice.claim.number
        for position in choice.request.constraints:
            constraint = constraints[position]
            spectrum = (
                self._all_values((number, position)) if isinstance(constraint, DistinctConstraint) else None
            )
            if isinstance(constraint, DistinctConstraint) and spectrum is not None:
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
                if choices[0].claim.number == claim and self._safe(step):
                    constraint = choices[0].claim.demand.constraints[position]
                    assert isinstance(constraint, DistinctConstraint)
                    total += min(
                        constraint.wanted(c.count) if position in c.request.constraints else 0
                        for c in choices
                    )
            self._later[key] = total
        return self._later[key]

    def _constraints(self, index: int, choice: Choice) -> list[tuple[ConstraintKey, Values]]:
        """The constraints to be met, each with the values that are possible for it."""
        if choice not in self._binding:
            later = (c for i in self._windows[index] if self._safe(i) for c in self._steps[i])
            self._binding[choice] = dict.fromkeys(
                (one.claim.number, position)
                for one in (choice, *later)
                for position in one.request.constraints
                if isinstance(one.claim.demand.constraints[position], MatchAttribute)
            )
        found = []
        combinations_left = _MOST_VALUES
        for key in self._binding[choice]:
            values = self._possible(key)
            if values is not None and len(values) <= combinations_left:
                found.append((key, values))
                combinations_left //= max(len(values), 1)
        return found

    def _possible(self, key: ConstraintKey) -> Values | None:
        settled: Values | None = self._state.constraints[key[0]][key[1]]
        if settled is not None:
            return settled or None
        return self._all_values(key)

    def _all_values(self, key: ConstraintKey) -> Values | None:
        """All values that devices have for a constraint; None if that cannot be told."""
        if key not in self._spectrum:
            of_classes = [
                v
                for equivalence_class in self._candidates.classes
                if (v := equivalence_class.values.get(key)) is not None
            ]
            # A device whose value is of unknown type matches no other device, but it may be the only one.
            self._spectrum[key] = frozenset[Any]().union(*of_classes) if all(of_classes) else None
        return self._spectrum[key]

    def _holds(self, index: int, choice: Choice, missing: int, fixed: Fixed) -> bool:
        tests = self._tests.get((choice, fixed))
        if tests is None:
            tests = self._tests[choice, fixed] = self._make(index, choice, fixed)
        classes, used = self._candidates.classes, self._candidates.used
        for wanted, current, free, consumers in tests:
            need = wanted + missing if current else wanted
            for number in free:
                need -= classes[number].size - used[number]
            if need <= 0:
                continue
            for pool, counter, amounts in consumers:
                left = self._state.left(pool)
                need -= _fitting(left[counter] if left else 0, amounts, classes, used)
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
                merged[want.classes] = merged.get(want.classes, 0) + want.devices
        shared, own = self._classes_for(self._candidates.of(choice), fixed)
        counts_own = not choice.request.admin and not shared
        wants = [(Requirement(count, classes), False) for classes, count in merged.items()]
        if counts_own:
            wants.append((Requirement(0, own), True))
        return [self._test(group) for group in _groups(wants)]

    def _want(self, step: int, fixed: Fixed) -> Requirement | None:
        """What a later step wants at the least, whichever alternative it takes; None: maybe nothing."""
        key = (step, fixed)
        if key not in self._wants:
            alternatives = [self._candidates.of(choice) for choice in self._steps[step]]
            wants = [
                self._least(request_candidates, fixed)
                for request_candidates in alternatives
                if not request_candidates.impossible
            ]
            if not wants:
                self._wants[key] = _IMPOSSIBLE
            else:
                count = min(want.devices for want in wants)
                classes = frozenset[int]().union(*(want.classes for want in wants))
                self._wants[key] = Requirement(count, classes) if count else None
        return self._wants[key]

    def _least(self, request_candidates: RequestCandidates, fixed: Fixed) -> Requirement:
        choice = request_candidates.choice
        if choice.request.admin:
            return _NOTHING
        if request_candidates.safe:
            shared, classes = self._classes_for(request_candidates, fixed)
            return Requirement(max(choice.count - shared, 0), classes)
        # The request may end in an error, but only if these devices are free. The error is at the last of them, whose
        # capacity is not checked any more.
        required = [
            self._candidates.equivalence_class_of(c.device_in_pool.device)
            for c in request_candidates.candidates[: request_candidates.required]
        ]
        limited = [
            equivalence_class.number for equivalence_class in required[:-1] if not equivalence_class.unlimited
        ]
        limited += [
            equivalence_class.number for equivalence_class in required[-1:] if not equivalence_class.shared
        ]
        return Requirement(len(limited), frozenset(limited))

    def _classes_for(self, request_candidates: RequestCandidates, fixed: Fixed) -> tuple[int, frozenset[int]]:
        """How many devices that can be shared without limit an alternative may use, and which classes of others."""
        choice = request_candidates.choice
        required = [
            (key, value)
            for key, value in fixed
            if key[0] == choice.claim.number and key[1] in choice.request.constraints
        ]
        shared, classes = 0, set()
        for candidate in request_candidates.candidates:
            equivalence_class = self._candidates.equivalence_class_of(candidate.device_in_pool.device)
            if all(value in (equivalence_class.values.get(key) or ()) for key, value in required):
                if equivalence_class.unlimited:
                    shared += 1
                else:
                    classes.add(equivalence_class.number)
        return shared, frozenset(classes)

    def _test(self, group: Iterable[tuple[Requirement, bool]]) -> HallCondition:
        wanted, current, numbers = 0, False, set[int]()
        for want, own in group:
            wanted += want.devices
            current = current or own
            numbers |= want.classes
        free: list[int] = []
        consumers: dict[tuple[Pool, Counter], list[tuple[int, int]]] = {}
        for number in numbers:
            equivalence_class = self._candidates.classes[number]
            if (
                not equivalence_class.consumes_counters or equivalence_class.shared
            ):  # only the first share of a device consumes them
                free.append(number)
                continue
            counter = self._counter[number]
            consumers.setdefault((equivalence_class.pool, counter), []).append(
                (dict(equivalence_class.consumes_counters)[counter], number)
            )
        return HallCondition(
            wanted,
            current,
            tuple(free),
            tuple(CounterConsumers(p, c, tuple(sorted(amounts))) for (p, c), amounts in consumers.items()),
        )


def _groups(wants: Sequence[tuple[Requirement, bool]]) -> Iterable[tuple[tuple[Requirement, bool], ...]]:
    sizes = range(1, len(wants) + 1) if len(wants) <= _MOST_GROUPS else (1, 2, len(wants))
    for size in sizes:
        yield from combinations(wants, size)


def _fitting(
    left: int, amounts: Sequence[tuple[int, int]], classes: Sequence[EquivalenceClass], used: Sequence[int]
) -> int:
    """How many of these devices fit into what is left of their counter, the cheapest first."""
    total = 0
    for amount, number in amounts:
        free = classes[number].size - used[number]
        if amount * free > left:
            return total + left // amount
        left -= amount * free
        total += free
    return total
