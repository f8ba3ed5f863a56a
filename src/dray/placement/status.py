"""Why a node, or every node, was turned down; and how that is said to a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple


class Rejection(NamedTuple):
    """One plugin's no. ``resolvable``: evicting pods from the node might turn it into a yes."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = True


@dataclass(frozen=True, slots=True)
class Gated:
    """The pod is not to be tried now: something that it needs is not there for it to use."""

    reason: str


def fit_error_message(
    nodes: int, rejections: Iterable[Rejection], *, before_filtering: str = "", after: str = ""
) -> str:
    """Upstream's summary: ``0/3 nodes are available: 2 Insufficient cpu, 1 node(s) were unschedulable. …``."""
    text = f"0/{nodes} nodes are available"
    if before_filtering:
        text += f": {before_filtering}."
    else:
        counts = Counter(reason for rejection in rejections for reason in rejection.reasons)
        listed = ", ".join(sorted(f"{n} {reason}" for reason, n in counts.items()))
        if listed:
            text += f": {listed}."
        else:
            text += ":"
    return f"{text} {after}" if after else text
