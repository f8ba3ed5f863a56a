"""How nodes are scored, as the release has it whose rules hold."""

from __future__ import annotations

from typing import Any

import pytest

from dray.placement.plugins.scores import Scoring, balanced_allocation, least_allocated
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
        balanced_allocation(pod(requests={"cpu": "1"}), PlacementQuirks(scores_balance_by_improvement=quirk))(
            empty
        )
        == score
    )


@pytest.mark.parametrize(("quirk", "score"), [(True, 100), (False, 0)])
def test_a_pod_without_requests_is_scored_for_balance_or_not(quirk: bool, score: int) -> None:
    [empty] = cluster(node("a"))
    assert (
        balanced_allocation(
            pod(),
            PlacementQuirks(scores_balance_without_requests=quirk, scores_balance_by_improvement=False),
        )(empty)
        == score
    )


@pytest.mark.parametrize("requests", [{}, {"cpu": "1"}, {"cpu": "3", "memory": "1Gi"}, {"cpu": "9"}])
@pytest.mark.parametrize("taken", ["0", "500m", "3900m"])
@pytest.mark.parametrize("memory", ["16Gi", "0"])
def test_the_default_scores_are_the_sum_of_fit_and_balance(
    requests: dict[str, str], taken: str, memory: str
) -> None:
    described: Any = node("a", cpu="4")
    described["status"]["allocatable"]["memory"] = memory
    nodes = cluster(described)
    nodes.add_pod(pod("other", requests={"cpu": taken}), "a")
    [one] = nodes
    wanted, scoring = pod(requests=requests), Scoring()
    fit, balance = least_allocated(wanted)(one), balanced_allocation(wanted, scoring.quirks)(one)
    weights = scoring.weights
    assert scoring.for_pod(wanted)(one) == (
        weights["NodeResourcesFit"] * fit + weights["NodeResourcesBalancedAllocation"] * balance
    )
