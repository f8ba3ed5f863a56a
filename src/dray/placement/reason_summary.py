"""Why the devices of the nodes do not suit an unschedulable pod, in a sentence or two for its event and condition.

Upstream's message ends with ``3 cannot allocate all claims``. The allocator knows which test removed which device, and
``summary`` says so shortly. ``dray explain`` says everything.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from dray.allocation import Cause, Reasons, RequestReasons

#: the number of nodes that are explained; in a large cluster most are alike
SAMPLE = 8
_CAUSES = 3
_LONGEST_SOURCE = 90

_SAID: Mapping[Cause, str] = {
    Cause.POOL_INCOMPLETE: "in a pool that is being updated",
    Cause.POOL_INVALID: "in an invalid pool ({detail})",
    Cause.FEATURE: "that {detail}",
    Cause.CLASS_SELECTOR: "not of the device class ({source})",
    Cause.CLAIM_SELECTOR: "not matching {source}",
    Cause.SELECTOR_ERROR: "for which a selector fails ({detail})",
    Cause.NODE: "for other nodes",
    Cause.ATTRIBUTE: "lacking an attribute ({detail})",
    Cause.TAINT: "tainted {detail}, which the claim does not tolerate",
    Cause.CAPACITY_SHAPE: "whose capacity does not suit ({detail})",
    Cause.TAKEN: "allocated to other claims",
    Cause.CAPACITY: "with too little capacity left ({detail})",
    Cause.COUNTERS: "on hardware that other devices use up ({detail})",
}


def summary(failures: Mapping[str, Reasons], *, nodes: int) -> str:
    """From what the allocator said about some of ``nodes`` nodes; empty if there is nothing to say."""
    if not failures:
        return ""
    where = f"{len(failures)} of {nodes} nodes" if len(failures) < nodes else _plural(nodes, "node")
    said = [_of_request(same, where) for same in _by_request(failures.values()) if _is_short(same)]
    if not said:
        said = [f"Together: {text}." for text in _together(failures.values())]
    return " ".join(said[:2])


def _by_request(failures: Iterable[Reasons]) -> list[list[RequestReasons]]:
    """What each node says about a request, request by request in their order."""
    found: dict[tuple[str, str], list[RequestReasons]] = {}
    for reasons in failures:
        for request in reasons.requests:
            found.setdefault((request.claim, request.request), []).append(request)
    return list(found.values())


def _is_short(same: Sequence[RequestReasons]) -> bool:
    return any(request.short for request in same)


def _of_request(same: Sequence[RequestReasons], where: str) -> str:
    first = same[0]
    wanted = "all devices" if first.wanted is None else _plural(first.wanted, "device")
    head = f"Request {first.request} of claim {first.claim.rpartition('/')[2]} wants {wanted}"
    considered = sum(request.considered for request in same)
    if not considered:
        return f"{head}, and there are none on {where}."
    counts: Counter[str] = Counter()
    for request in same:
        for removal in request.removals:
            text = _SAID[removal.cause].format(detail=_cut(removal.detail), source=_cut(removal.source))
            counts[text] += removal.count
    if usable := sum(request.usable for request in same):
        counts["free, but not enough on one node"] += usable
    parts = [f"{n} {text}" for text, n in counts.most_common(_CAUSES)]
    rest = len(counts) - len(parts)
    if rest > 0:
        parts.append(f"{rest} more reasons")
    return f"{head}; of {considered} on {where}: {', '.join(parts)}."


def _together(failures: Iterable[Reasons]) -> list[str]:
    return list(dict.fromkeys(text for reasons in failures for text in reasons.together))


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LONGEST_SOURCE else f"{text[: _LONGEST_SOURCE - 1]}…"


def _plural(n: int, word: str) -> str:
    return f"{n} {word}" if n == 1 else f"{n} {word}s"
