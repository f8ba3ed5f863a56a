"""Aggregated discovery."""

from __future__ import annotations

from dray.client.resources import RESOURCE_CLAIMS
from dray.controllers.discovery import discover
from tests.support.controlplane import server


async def test_the_real_server_tells_all_at_once():
    async with server() as s:
        found = await discover(s.client)
    assert found.first_served(RESOURCE_CLAIMS, ("v1",)) == RESOURCE_CLAIMS
    assert not found.failed
    (pods,) = (s for s in found.resources if str(s.resource) == "pods")
    assert pods.allows("delete", "deletecollection", "list", "watch")
