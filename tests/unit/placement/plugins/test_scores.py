"""How nodes are scored, as the release has it whose rules hold."""

from __future__ import annotations

import pytest

from dray.placement.plugins.scores import balanced_allocation
from dray.placement.quirks import PlacementQuirks
from tests.support.scheduler import cluster, node, pod


@pytest.mark.parametrize(
    ("quirk", "score"),
    [
        (False, 87),  # a quarter of the cpu, no memory: an eighth off
        (True, 68),  # from 100 down to 87
    ],
)
def test_the_balance_is_scored_or_how_much_the_pod_improves_it(quirk: bool, score: int) -> None:
    [empty] = cluster(node("a", cpu="4"))
    assert (
        balanced_allocation(
            pod(requests={"cpu": "1"}), empty, PlacementQuirks(scores_balance_by_improvement=quirk)
        )
        == score
    )


@pytest.mark.parametrize(("quirk", "score"), [(True, 100), (False, 0)])
def test_a_pod_without_requests_is_scored_for_balance_or_not(quirk: bool, score: int) -> None:
    [empty] = cluster(node("a"))
    assert (
        balanced_allocation(
            pod(),
            empty,
            PlacementQuirks(scores_balance_without_requests=quirk, scores_balance_by_improvement=False),
        )
        == score
    )
