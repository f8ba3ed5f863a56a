"""``allocate``: from what there is, what is taken and what is wanted, to a plan or to reasons why there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from dray.allocation import results
from dray.allocation.features import Features
from dray.allocation.identity import Document, object_name
from dray.allocation.inventory import Inventory
from dray.allocation.search import Clock, Search
from dray.allocation.state import Claim, State
from dray.allocation.usage import Usage


@dataclass(frozen=True, slots=True)
class Plan:
    """One AllocationResult for each claim, in the order of the claims."""

    results: list[dict[str, Any]]


@dataclass(frozen=True, slots=True)
class Unallocatable:
    """The claims cannot be allocated for this node; ``message`` is what upstream says about it."""

    message: str


CANNOT_ALLOCATE = "cannot allocate all claims"
INVALID_POOLS = "invalid resource pools were encountered"


def allocate(
    inventory: Inventory,
    usage: Usage,
    node: Document,
    claims: Sequence[Document],
    *,
    features: Features,
    new_share_id: results.NewShareID,
    deadline: float | None = None,
    monotonic: Clock | None = None,
) -> Plan | Unallocatable:
    """Allocate all claims for one node, or say that it cannot be done.

    Raises AllocationError if the claims, classes or slices are at fault, and AllocationTimeout once ``monotonic``
    passes ``deadline``.
    """
    pools = inventory.pools(node, features)
    wanted = [
        Claim(index, object_name(claim), claim, inventory.demand(claim, features))
        for index, claim in enumerate(claims)
    ]
    state = State(node, wanted, usage, features)
    search = Search(state, pools, wanted, deadline=deadline, monotonic=monotonic)
    if not search.run():
        invalid = any(pool.invalid for pool in pools)
        return Unallocatable(INVALID_POOLS if invalid else CANNOT_ALLOCATE)
    return Plan(
        [
            results.build(
                claim,
                [placement for placement in state.placements if placement.choice.claim is claim],
                [choice.request for choice in search.chosen if choice.claim is claim],
                node,
                features,
                new_share_id,
            )
            for claim in wanted
        ]
    )
