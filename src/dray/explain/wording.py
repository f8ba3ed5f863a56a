"""What keeps devices from a request, in few words that may follow a number: 24 ``tainted k=v:NoSchedule``."""

from __future__ import annotations

from dray.allocation import Cause
from dray.explain.devices import readable

_WORDS = {
    Cause.POOL_INCOMPLETE: "in an incomplete pool",
    Cause.POOL_INVALID: "in an invalid pool",
    Cause.FEATURE: "in need of a feature that is off",
    Cause.SELECTOR_ERROR: "failing",
    Cause.ATTRIBUTE: "without an attribute",
    Cause.CAPACITY_SHAPE: "without that capacity",
    Cause.CAPACITY: "short of capacity",
    Cause.COUNTERS: "short of counters",
}


def words(cause: Cause, detail: str, *, selector: int | None = None, source: str = "") -> str:
    """``detail`` as the allocator gives it; the text of a selector is told elsewhere."""
    if selector is not None:
        owner, name, *_ = detail.split(" ")
        if cause is Cause.SELECTOR_ERROR:
            error = detail.rpartition(f"{source}: ")[2]
            return f"failing {owner} selector #{selector} ({error})"
        if cause is Cause.CLASS_SELECTOR:
            return f"not in class {name.rstrip(':')}"
        return f"not matched by {owner} selector #{selector}"
    detail = readable(detail)
    match cause:
        case Cause.TAINT:
            return f"tainted {detail}"
        case Cause.TAKEN:
            return detail
        case Cause.NODE:
            return "for other nodes"
        case _:
            return f"{_WORDS[cause]}: {detail}"
