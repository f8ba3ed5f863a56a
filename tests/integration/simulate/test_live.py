"""A live scheduler and the simulator decide alike: the same pods get the same nodes and devices."""

from __future__ import annotations

from pathlib import Path

import pytest

from dray.placement.config import Configuration, SchedulerProfile
from dray.placement.policies.registry import BUILT_IN
from tests.support import live
from tests.support.controlplane import control_plane, scheduler

NODES, PODS = 9, 45


@pytest.mark.parametrize("policy", BUILT_IN)
async def test_pods_get_the_same_nodes_and_devices_as_in_a_live_cluster(tmp_path: Path, policy: str) -> None:
    configuration = Configuration(profiles=(SchedulerProfile(device_policy=policy),))
    async with (
        control_plane("resourceclaim-controller", data=tmp_path) as plane,
        scheduler(plane, configuration=configuration),
    ):
        placed = await live.lived(plane.client, NODES, PODS)
    assert placed == live.simulated(NODES, PODS, policy)
    assert len(placed) > PODS / 2
