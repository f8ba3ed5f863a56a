"""``allocate``: from inventory, usage and claims to a plan, or to the reasons why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

import msgspec

from dray.allocation import reasons, results
from dray.allocation.errors import AllocationError
from dray.allocation.features import Features
from dray.allocation.inventory import Inventory
from dray.allocation.policies import DEFAULT, Policy
from dray.allocation.pools import Pool
from dray.allocation.search.search import Clock, Search
from dray.allocation.search.state import AllocationState, Claim, DeviceInPool
from dray.allocation.usage import Usage
from dray.api.identity import object_name

if TYPE_CHECKING:
    from dray.api.types.core import Node
    from dray.api.types.resource import AllocationResult, ResourceClaim

CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"


class Plan(msgspec.Struct, frozen=True):
    """One AllocationResult for each claim, in the order of the claims."""

    results: list[AllocationResult]


class Unallocatable:
    """The claims cannot be allocated for this node; ``message`` is what upstream says about it."""

    __match_args__ = ("reasons",)

    def __init__(
        self,
        message: str,
        pools: Sequence[Pool],
        usage: Usage,
        node: Node,
        claims: Sequence[Claim],
        features: Features,
    ) -> None:
        self.message = message
        self._pools = pools
        self._usage = reasons.frozen_usage(usage, pools)
        self._node = node
        self._claims = claims
        self._features = features

    def __repr__(self) -> str:
        return f"Unallocatable({self.message!r})"

    @cached_property
    def reasons(self) -> reasons.Reasons:
        """What removed which devices, as things were when allocation failed. Worked out at the first use."""
        state = AllocationState(self._node, self._claims, self._usage, self._features)
        alone = reasons.diagnose(state, self._pools, self._claims)
        if alone.short:
            return alone
        return reasons.Reasons(alone.requests, tuple(self._together()), alone.pools)

    def _together(self) -> list[str]:
        found = [
            what for what, claims in reasons.relaxations(self._claims) if self._works(AllocationState, claims)
        ]
        if not found and self._works(_Unmetered, self._claims):
            found.append("counters do not suffice for all devices at once")
        return found or ["the requests compete for the same devices"]

    def _works(self, kind: type[AllocationState], claims: Sequence[Claim]) -> bool:
        state = kind(self._node, claims, self._usage, self._features)
        try:
            return Search(state, self._pools, claims).run()
        except AllocationError:
            return False


class _Unmetered(AllocationState):
    """The state as if no device consumed counters, to find out whether they are what is missing."""

    __slots__ = ()

    def consumes_counters(self, device_in_pool: DeviceInPool) -> bool:
        return False


def allocate(
    inventory: Inventory,
    usage: Usage,
    node: Node,
    claims: Sequence[ResourceClaim],
    *,
    features: Features,
    new_share_id: results.NewShareID,
    policy: Policy = DEFAULT,
    deadline: float | None = None,
    monotonic: Clock | None = None,
) -> Plan | Unallocatable:
    """Allocate all claims for one node, or say that it cannot be done.

    Raises AllocationError if the claims, classes or slices are at fault, and AllocationTimeout once ``monotonic()``
    is past ``deadline``.
    """
    pools = inventory.pools(node, features)
    wanted = [
        Claim(number, object_name(claim), claim, inventory.demand(claim, features))
        for number, claim in enumerate(claims)
    ]
    state = AllocationState(node, wanted, usage, features)
    search = Search(state, pools, wanted, policy=policy, deadline=deadline, monotonic=monotonic)
    if not search.run():
        message = INVALID_POOLS if any(pool.invalid for pool in pools) else CANNOT_ALLOCATE
        return Unallocatable(message, pools, usage, node, wanted, features)
    found = []
    for claim in wanted:
        devices = [one for one in state.device_allocations if one.choice.claim is claim]
        chosen = [choice.request for choice in search.chosen if choice.claim is claim]
        found.append(results.allocation_result(claim, devices, chosen, node, features, new_share_id))
    return Plan(found)
