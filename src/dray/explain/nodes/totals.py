"""The reasons of many nodes or pools, added up request by request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.allocation import Cause, Removal, RequestReasons

_EXAMPLES = 4


class RepeatedReasons(NamedTuple):
    """The reasons of one node or pool, and how many equivalent ones they hold for."""

    requests: Sequence[RequestReasons]
    times: int


def total_reasons(repeated: Sequence[RepeatedReasons]) -> list[RequestReasons]:
    """The sums, request by request; all of ``repeated`` are about the same requests."""
    return [
        _total_of_request([(one.requests[position], one.times) for one in repeated])
        for position in range(len(repeated[0].requests))
    ]


def _total_of_request(repeated: Sequence[tuple[RequestReasons, int]]) -> RequestReasons:
    removals: dict[tuple[Cause, str], Removal] = {}
    nearest = None
    for one, times in repeated:
        if one.nearest is not None and (nearest is None or one.nearest.cause.rank > nearest.cause.rank):
            nearest = one.nearest
        for removal in one.removals:
            detail = removal.detail
            if times > 1 and removal.cause in (Cause.TAKEN, Cause.POOL_INCOMPLETE):
                # The detail names the owner or the pool of one of them; the others have other owners and names.
                detail = ""
            known = removals.get((removal.cause, detail))
            count, examples = removal.count * times, removal.examples
            if known is not None:
                count += known.count
                examples = (*known.examples, *examples)[:_EXAMPLES]
            removals[removal.cause, detail] = Removal(
                removal.cause, detail, count, examples, removal.selector, removal.source
            )
    first = repeated[0][0]
    return RequestReasons(
        first.claim,
        first.request,
        first.wanted,
        sum(one.considered * times for one, times in repeated),
        sum(one.usable * times for one, times in repeated),
        tuple(sorted(removals.values(), key=lambda removal: -removal.count)),
        nearest,
    )
