"""Two schedulers through two API servers; ``make races`` does the same a thousand times."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.races.run import KINDS, SCHEDULERS, track
from tests.support.etcd import Etcd


@pytest.mark.parametrize("kind", KINDS)
async def test_the_last_one_of_its_kind_is_booked_once_and_both_schedulers_get_on(
    kind: str, fresh_etcd: Etcd, tmp_path: Path
):
    async with track(kind, f"etcd://{fresh_etcd.endpoint}", tmp_path) as race:
        score = await race.rounds(6)
    assert score.double == []
    assert set(score.wins) <= set(SCHEDULERS) and score.wins.total() == 6
    assert score.conflicts > 0, "they never met"


async def test_where_devices_are_not_booked_the_race_sees_it(fresh_etcd: Etcd, tmp_path: Path):
    async with track("device", f"etcd://{fresh_etcd.endpoint}", tmp_path) as race:
        for server in race.servers:
            claims = server.api.resources.resource("resource.k8s.io", "resourceclaims")
            assert claims is not None
            claims.companions = None
        score = await race.rounds(4)
    assert score.double
