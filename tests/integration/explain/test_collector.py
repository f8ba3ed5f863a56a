"""What a snapshot of a live server says of the server."""

from __future__ import annotations

import pytest

from dray.explain.model.cluster import Cluster
from dray.explain.model.collector import collect_snapshot
from tests.support.controlplane import server


@pytest.mark.parametrize("emulate", ["", "1.37", "1.36"])
async def test_tools_follow_a_release_only_if_the_server_does(emulate: str) -> None:
    """A dray that emulates nothing names the newest release, too, and places gangs that this release refuses."""
    async with server(emulate) as plane:
        cluster = Cluster(await collect_snapshot(plane.client))
    assert cluster.version.emulated == bool(emulate)
