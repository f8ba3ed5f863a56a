"""Slices of nodes that are gone."""

from __future__ import annotations

from dray.client.resources import NODES, RESOURCE_SLICES
from tests.support.controlplane import ControlPlane, control_plane, controllers, server

SLICES = "resourceslice-cleanup-controller"
AT_ONCE = {"settings": {SLICES: {"patience_seconds": 0}}}


async def publish(s: ControlPlane, name: str, **where: object) -> None:
    pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": "d.example.com", "pool": pool, "devices": [], **where}
    await s.client.create(RESOURCE_SLICES, "", {"metadata": {"name": name}, "spec": spec})


async def test_slices_go_some_time_after_their_node():
    async with control_plane(SLICES, **AT_ONCE) as s:
        await s.node("n")
        await s.node("m")
        await publish(s, "on-n", nodeName="n")
        await publish(s, "on-m", nodeName="m")
        await publish(s, "everywhere", allNodes=True)
        await s.client.delete(NODES, "", "n")
        await s.wait_gone(RESOURCE_SLICES, "on-n")
        assert await s.get(RESOURCE_SLICES, "on-m")
        assert await s.get(RESOURCE_SLICES, "everywhere")


async def test_a_node_that_comes_back_in_time_keeps_its_slices():
    async with control_plane(SLICES) as s:
        await s.node("n")
        await publish(s, "on-n", nodeName="n")
        await s.client.delete(NODES, "", "n")
        await s.node("n")
        await s.wait_quiet()
        assert await s.get(RESOURCE_SLICES, "on-n")


async def test_nodes_lost_while_nobody_looked_count():
    async with server() as s:
        await publish(s, "on-n", nodeName="n")
        async with controllers(s, SLICES, **AT_ONCE):
            await s.wait_gone(RESOURCE_SLICES, "on-n")
