"""Causes that remove devices, as phrases that follow a number: 24 ``tainted k=v:NoSchedule``."""

from __future__ import annotations

from typing import Final

from dray.allocation import Cause, Removal
from dray.explain.devices.states import readable

_BRIEF: Final = {
    Cause.POOL_INCOMPLETE: "in an incomplete pool",
    Cause.POOL_INVALID: "in an invalid pool",
    Cause.FEATURE: "in need of a feature that is off",
    Cause.NODE: "for other nodes",
    Cause.SELECTOR_ERROR: "failing",
    Cause.ATTRIBUTE: "without an attribute",
    Cause.TAINT: "tainted",
    Cause.CAPACITY_SHAPE: "without that capacity",
    Cause.TAKEN: "already allocated",
    Cause.CAPACITY: "short of capacity",
    Cause.COUNTERS: "short of counters",
}
#: the explanation names the owners and pools of devices beside the phrase
_WITHOUT_DETAIL: Final = (Cause.TAKEN, Cause.NODE, Cause.POOL_INCOMPLETE)
#: what differs from device to device
_PASSING: Final = (*_WITHOUT_DETAIL, Cause.CAPACITY, Cause.COUNTERS)


def describe(removal: Removal) -> str:
    """The cause that removed the devices, without the text of a selector."""
    cause, detail, selector = removal.cause, removal.detail, removal.selector
    if selector is not None:
        owner, name, *_ = detail.split(" ")
        if cause is Cause.SELECTOR_ERROR:
            error = detail.rpartition(f"{removal.source}: ")[2]
            return f"failing {owner} selector #{selector} ({error})"
        if cause is Cause.CLASS_SELECTOR:
            return f"not in class {name.rstrip(':')}"
        return f"not matched by {owner} selector #{selector}"
    if cause in _WITHOUT_DETAIL:
        return _BRIEF[cause]
    return f"{_BRIEF[cause]}{'' if cause is Cause.TAINT else ':'} {readable(detail)}"


def describe_briefly(removal: Removal) -> str:
    """The cause for a group of devices, without what differs from device to device."""
    return _BRIEF[removal.cause] if removal.cause in _PASSING else describe(removal)
