from __future__ import annotations

import pytest

from dray.ui import rows
from dray.ui.board import Board, Update, Viewers
from dray.ui.cluster import LiveCluster
from tests.support import explain as given


@pytest.mark.parametrize(
    ("maker", "collection"), [("pod_row", "pods"), ("claim_row", "claims"), ("node_row", "nodes")]
)
def test_a_row_that_cannot_be_made_costs_no_other_row(
    maker: str, collection: str, monkeypatch: pytest.MonkeyPatch
):
    made = getattr(rows, maker)

    def fails_for_one(*given_to: object) -> object:
        if "odd" in " ".join(map(str, given_to[:2])):
            raise KeyError("odd")
        return made(*given_to)

    monkeypatch.setattr(rows, maker, fails_for_one)
    cluster = LiveCluster(release="1.36", unread=())
    cluster.fill(
        given.cluster(
            *(given.pod(name, "c") for name in ("a", "odd", "z")),
            *(given.claim(name) for name in ("a", "odd", "z")),
            *(given.node(name) for name in ("a", "odd", "z")),
            given.slice_("n1", given.device("x")),
        ).snapshot
    )
    told: list[Update] = []
    viewers = Viewers(Board(cluster))
    viewers.join(told.append)
    viewers.publish()
    [update] = told
    for name in ("pods", "claims", "nodes"):
        assert {key.rpartition("/")[2] for key in update.rows[name]} == (
            {"a", "z"} if name == collection else {"a", "odd", "z"}
        )
    assert update.rows["pools"]
