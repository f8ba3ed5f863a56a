"""What plugins say of nodes: the node that is chosen, or why each is rejected, and the message that sums that up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec

if TYPE_CHECKING:
    from dray.placement.claims import ClaimPlan


class Rejection(NamedTuple):
    """A plugin rejects a node, or every node. ``resolvable``: preempting pods of the node might help."""

    plugin: str
    reasons: tuple[str, ...]
    resolvable: bool = True


class ScheduleResult(msgspec.Struct, frozen=True):
    """The best node, and what it gives the claims of the pod; no plan for a pod without claims."""

    node: str
    plan: ClaimPlan | None = None


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """No node fits."""

    nodes: int
    rejections: Mapping[str, Rejection] = field(default_factory=dict)  # by the name of the node
    known_plugins: frozenset[str] | None = None  # those that rejected nodes, where they have been counted

    @property
    def plugins(self) -> frozenset[str]:
        if self.known_plugins is not None:
            return self.known_plugins
        return frozenset(r.plugin for r in self.rejections.values())


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
