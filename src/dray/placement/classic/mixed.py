"""One attempt of a pod whose claims are of two generations: a node has to suit both, and each allocates its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dray.placement.cache.nodes import NodeInfo
from dray.placement.plugins.dynamic_resources import NodePlan
from dray.placement.status import Rejection

if TYPE_CHECKING:
    from dray.placement.classic import attempt
    from dray.placement.plugins import dynamic_resources

Document = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class MixedPlan:
    """What each generation would give the pod on one node."""

    classic: attempt.ClassicPlan
    today: NodePlan


class MixedAttempt:
    """In the shape in which the placement asks about devices."""

    shape = None  # every node is to be asked

    def __init__(self, older: attempt.ClassicAttempt, today: dynamic_resources.Attempt) -> None:
        self.classic = older
        self.today = today
        self.claims = today.claims
        self.scores_matter = today.scores_matter

    def on(self, node: NodeInfo) -> MixedPlan | Rejection:
        # Both are always asked: each notes down which of its allocated claims is in the way.
        given, plan = self.classic.judge(node), self.today.on(node)
        if isinstance(plan, Rejection):
            return plan
        if isinstance(given, Rejection):
            return given
        self.classic.feasible.append(node.name)
        return MixedPlan(given, plan)

    def score(self, plan: MixedPlan) -> int:
        return self.today.score(plan.today)

    @property
    def unavailable_claims(self) -> dict[str, Document]:
        """Today's first: to free one of them takes a write, and no driver has to be waited for."""
        return {**self.today.unavailable_claims, **self.classic.unavailable_claims}

    @property
    def failures(self) -> dict[str, Any]:
        return {**self.classic.failures, **self.today.failures}

    @property
    def leftover_claim(self) -> Document | None:
        return self.today.leftover_claim
