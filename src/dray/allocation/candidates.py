"""What the exhaustive search knows beforehand: who can serve which request, and who is like whom."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

from dray.allocation import capacity, counters
from dray.allocation.devices import Device, Values
from dray.allocation.errors import AllocationError
from dray.allocation.state import Choice, Spot, State

ConstraintKey = tuple[int, int]  # claim, position in its list


class Candidate(NamedTuple):
    """A device that may serve a request as far as the request alone is concerned, or that ends the search."""

    spot: Spot
    portion: capacity.Portion
    error: AllocationError | None = None


class Kind:
    """Devices that only their names tell apart."""

    __slots__ = ("draws", "number", "pool", "shared", "size", "values")

    def __init__(self, number: int, spot: Spot, *, shared: bool) -> None:
        self.number = number
        self.size = 0
        self.shared = shared
        self.pool = spot.pool
        self.draws = tuple(counters.drawn(spot.device))
        self.values: dict[ConstraintKey, Values | None] = {}


class Candidates:
    def __init__(self, state: State, steps: Sequence[tuple[Choice, ...]], spots: Sequence[Spot]) -> None:
        self._state = state
        self._steps = steps
        choices = [choice for step in steps for choice in step]
        self._of: dict[Choice, list[Candidate]] = {}
        self._safe: dict[Choice, bool] = {}
        self._symmetric: dict[Choice, bool] = {}
        traits: dict[Device, list[Any]] = {}
        values: dict[Device, dict[ConstraintKey, Values | None]] = {}
        spot_of: dict[Device, Spot] = {}
        for number, choice in enumerate(choices):
            constraints = choice.claim.demand.constraints
            self._symmetric[choice] = all(constraints[p].symmetric for p in choice.request.constraints)
            found = self._find(choice, spots)
            self._of[choice] = found
            if choice.everything is None:
                self._safe[choice] = all(candidate.error is None for candidate in found)
            else:
                self._safe[choice] = not choice.request.constraints
            for candidate in found:
                device = candidate.spot.device
                spot_of[device] = candidate.spot
                compared = tuple(
                    (choice.claim.index, p, None if candidate.error else state.values(choice, device, p))
                    for p in choice.request.constraints
                )
                traits.setdefault(device, []).append((number, candidate.error is None, compared, candidate.portion.amounts))
                mine = values.setdefault(device, {})
                for claim, p, v in compared:
                    mine[claim, p] = v
        self.kinds: list[Kind] = []
        self._kind_of: dict[Device, Kind] = {}
        self._classify(traits, values, spot_of)
        #: devices in use, by kind
        self.used = [0] * len(self.kinds)
        self._admin = any(choice.request.admin for choice in choices)
        self._open = [
            any(len(later) > 1 for later in steps[i:] if later[0].claim is step[0].claim) for i, step in enumerate(steps)
        ]

    def _find(self, choice: Choice, spots: Sequence[Spot]) -> list[Candidate]:
        if choice.everything is not None:
            return [Candidate(spot, self._state.portion(choice, spot) or capacity.NOTHING) for spot in choice.everything]
        found = []
        for spot in spots:
            try:
                portion = self._portion(choice, spot)
            except AllocationError as error:
                found.append(Candidate(spot, capacity.NOTHING, error))
            else:
                if portion is not None:
                    found.append(Candidate(spot, portion))
        return found

    def _portion(self, choice: Choice, spot: Spot) -> capacity.Portion | None:
        """What an otherwise idle device would give to the request; None if nothing."""
        state = self._state
        if state.busy(choice, spot) or not state.selects(choice, spot):
            return None
        portion = state.portion(choice, spot)
        if portion is None or not state.fits(portion, spot) or not state.allowed(choice, spot.device):
            return None
        if state.draws(spot) and not state.affords(spot):
            return None
        if self._symmetric[choice] and any(
            state.values(choice, spot.device, p) is None for p in choice.request.constraints
        ):
            return None
        return portion

    def _classify(
        self,
        traits: dict[Device, list[Any]],
        values: dict[Device, dict[ConstraintKey, Values | None]],
        spot_of: dict[Device, Spot],
    ) -> None:
        state = self._state
        known: dict[Hashable, Kind] = {}
        for device, of_device in traits.items():
            spot = spot_of[device]
            shared = device.shared and state.features.consumable_capacity
            draws = tuple((d.counter_set, tuple(d.amounts.items()), d.groups) for d in device.draws)
            consumed = spot.part.consumed.get(device.name)
            key = (
                tuple(of_device),
                (spot.pool.id, draws) if draws else None,
                (shared, tuple(consumed.items()) if consumed else None, device.name in spot.part.shares),
            )
            kind = known.get(key)
            if kind is None:
                kind = known[key] = Kind(len(self.kinds), spot, shared=shared)
                kind.values = values[device]
                self.kinds.append(kind)
            kind.size += 1
            self._kind_of[device] = kind

    def of(self, choice: Choice) -> list[Candidate]:
        """The devices a request may get, in the order in which they are tried."""
        return self._of[choice]

    def safe(self, choice: Choice) -> bool:
        """Whether trying for this request cannot end in an error."""
        return self._safe[choice]

    def symmetric(self, choice: Choice) -> bool:
        """Whether the order of a request's devices has no bearing on anything."""
        return self._symmetric[choice]

    def kind(self, spot: Spot) -> Hashable:
        """Who is like whom right now: shared devices drift apart as they are used."""
        kind = self._kind_of[spot.device]
        if kind.shared and (share := self._state.shares.get(spot.device)) is not None:
            return kind.number, tuple(share.items())
        return kind.number

    def kind_of(self, device: Device) -> Kind:
        return self._kind_of[device]

    def count(self, spot: Spot, change: int) -> None:
        kind = self._kind_of[spot.device]
        if not kind.shared:
            self.used[kind.number] += change

    def key(self, index: int) -> Hashable:
        """All that the outcome of the search from a step on depends on, but for the names of devices."""
        state = self._state
        claim = self._steps[index][0].claim
        shares: Any = ()
        if state.shares:
            shares = tuple(
                sorted((self._kind_of[device].number, tuple(share.items())) for device, share in state.shares.items())
            )
        begun = index > 0 and self._steps[index - 1][0].claim is claim
        return (
            index,
            tuple(self.used),
            shares,
            state.constraints[claim.index] if begun else None,
            state.results[claim.index] if self._open[index] else None,
            tuple(sorted((d.id, users) for d, users in state.in_flight.items())) if self._admin else None,
        )
