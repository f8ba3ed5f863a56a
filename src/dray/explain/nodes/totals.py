"""What many nodes or pools say about requests, added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.allocation import Cause, Removal, RequestReasons

_EXAMPLES = 4


class RepeatedReasons(NamedTuple):
    """What was found out once and holds so many times."""

    requests: Sequence[RequestReasons]
    times: int


def total_reasons(told: Sequence[RepeatedReasons]) -> list[RequestReasons]:
    """All of it together, request by request; every one of ``told`` speaks of the same requests."""
    return [
        _total_of_request([(one.requests[position], one.times) for one in told])
        for position in range(len(told[0].requests))
    ]


def _total_of_request(told: Sequence[tuple[RequestReasons, int]]) -> RequestReasons:
    removals: dict[tuple[Cause, str], Removal] = {}
    nearest = None
    for one, times in told:
        if one.nearest is not None and (nearest is None or one.nearest.cause.rank > nearest.cause.rank):
            nearest = one.nearest
        for removal in one.removals:
            detail = removal.detail
            if times > 1 and removal.cause in (Cause.TAKEN, Cause.POOL_INCOMPLETE):
                # It was said of one of them, and the others have other owners and names.
                detail = ""
            known = removals.get((removal.cause, detail))
            count, examples = removal.count * times, removal.examples
            if known is not None:
                count += known.count
                examples = (*known.examples, *examples)[:_EXAMPLES]
            removals[removal.cause, detail] = Removal(
                removal.cause, detail, count, examples, removal.selector, removal.source
            )
    first = told[0][0]
    return RequestReasons(
        first.claim,
        first.request,
        first.wanted,
        sum(one.considered * times for one, times in told),
        sum(one.usable * times for one, times in told),
        tuple(sorted(removals.values(), key=lambda removal: -removal.count)),
        nearest,
    )
