"""How nodes are scored, as the release has it whose rules hold."""

from __future__ import annotations

import pytest

from dray.placement.plugins.scores import balanced_allocation
from tests.support.scheduler import cluster, node, pod


@pytest.mark.parametrize(
    ("release", "score"),
    [
        (35, 87),  # a quarter of the cpu, no memory: an eighth off
        (36, 68),  # from 100 down to 87
    ],
)
def test_balance_counts_by_itself_until_1_35_and_then_by_what_the_pod_makes_of_it(
    release: int, score: int
) -> None:
    [empty] = cluster(node("a", cpu="4"))
    assert balanced_allocation(pod(requests={"cpu": "1"}), empty, release=release) == score


@pytest.mark.parametrize(("release", "score"), [(32, 100), (33, 0)])
def test_a_pod_that_asks_for_nothing_is_not_scored_for_balance_since_1_33(release: int, score: int) -> None:
    [empty] = cluster(node("a"))
    assert balanced_allocation(pod(), empty, release=release) == score
