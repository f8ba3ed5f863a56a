"""Constraints over the devices of a claim: the same value of an attribute in all of them, or a different one in each.

A constraint is immutable; its state is a value that the search keeps, and goes back to when it takes devices back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable
from typing import Any, Generic, NamedTuple, TypeVar

from dray.allocation.attributes import Values

State = TypeVar("State")  # of one constraint while devices are added; None: no device yet
ConstraintState = Any  # of some constraint of a claim


class Constraint(ABC, Generic[State]):
    """One constraint of a claim."""

    __slots__ = ("attribute", "lists", "requests")

    #: Neither a rejected candidate nor the order of candidates within a request changes the state.
    symmetric = True

    def __init__(self, attribute: str, requests: Iterable[str], *, lists: bool) -> None:
        self.attribute = attribute
        self.requests = frozenset(requests)
        self.lists = lists  # list attributes count as sets of values, otherwise as values of unknown type

    def applies(self, request: str, alternative: str | None) -> bool:
        if not self.requests or request in self.requests:
            return True
        return alternative is not None and f"{request}/{alternative}" in self.requests

    @abstractmethod
    def add(self, state: State | None, request: str, values: Values) -> State | None:
        """The state with one more device, or None if the device breaks the constraint."""

    def remove(self, before: State | None, request: str) -> State | None:
        """The state after a device that was added to ``before`` is taken back."""
        return before

    def signature(self, state: State | None) -> Hashable:
        """Equal for states that make no difference to requests to come."""
        found: Hashable = state
        return found


class MatchAttribute(Constraint[Values]):
    """All devices have a value in common. The state is what they have in common so far."""

    __slots__ = ()

    def add(self, state: Values | None, request: str, values: Values) -> Values | None:
        if state is None:
            # Without list attributes a first device of unknown type passes, but no other device matches it.
            return values if values or not self.lists else None
        return state & values or None


class DistinctConstraint(Constraint[State]):
    """Some devices must have no value in common."""

    __slots__ = ()

    @abstractmethod
    def wanted(self, devices: int) -> int:
        """How many devices of a request must differ from all those of other requests."""

    @abstractmethod
    def taken(self, state: State | None, unfinished: str | None = None) -> Values:
        """The values that the last device of a request yet unfinished, and any after it, may not have."""

    def signature(self, state: State | None) -> Hashable:
        return None if state is None else self.taken(state)


class DistinctAttribute(DistinctConstraint[tuple[Values, ...]]):
    """No two devices have a value in common. The state is the values taken so far, device by device."""

    __slots__ = ()

    def wanted(self, devices: int) -> int:
        return devices

    def taken(self, state: tuple[Values, ...] | None, unfinished: str | None = None) -> Values:
        return frozenset[Any]().union(*(state or ()))

    def add(
        self, state: tuple[Values, ...] | None, request: str, values: Values
    ) -> tuple[Values, ...] | None:
        taken = state or ()
        if not values:
            return None if taken or self.lists else (values,)
        if any(values & other for other in taken):
            return None
        return (*taken, values)


class _Remembered(NamedTuple):
    devices: int
    last: tuple[tuple[str, Values], ...]  # request → the values of its last device


class DistinctFromLastDevice(DistinctConstraint[_Remembered]):
    """distinctAttribute as 1.36 checks it.

    Of each request only the last device is compared with later ones, and once a device of a request has been taken
    back, even that one is forgotten until the next is added.
    """

    __slots__ = ()
    symmetric = False

    def add(self, state: _Remembered | None, request: str, values: Values) -> _Remembered | None:
        remembered = state or _NOBODY
        if remembered.devices:
            last = remembered.last
            if not values and (last or self.lists):
                return None
            if any(values & other for _, other in last):
                return None
        others = tuple(entry for entry in remembered.last if entry[0] != request)
        return _Remembered(remembered.devices + 1, (*others, (request, values)))

    def wanted(self, devices: int) -> int:
        return min(devices, 1)

    def taken(self, state: _Remembered | None, unfinished: str | None = None) -> Values:
        remembered = state or _NOBODY
        return frozenset[Any]().union(
            *(values for request, values in remembered.last if request != unfinished)
        )

    def remove(self, before: _Remembered | None, request: str) -> _Remembered | None:
        if before is None:
            return None
        return before._replace(last=tuple(entry for entry in before.last if entry[0] != request))


_NOBODY = _Remembered(0, ())
